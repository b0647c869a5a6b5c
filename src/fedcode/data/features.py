"""Log-mel features of many sounds, computed once and kept beside the data.

A file of features is named by a digest of all that determines them. So another seed, a changed sound or another
release of the features never meets the wrong file, and a file that is no longer right is simply not found.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from fedcode.data import logmel
from fedcode.data.places import cache
from fedcode.errors import ArgumentError
from fedcode.files import new_file

FORMAT = 1  # raise it when anything in logmel changes what comes out
FOLDER = "fedcode-features"
_SHAPE = (1, logmel.FRAMES, logmel.BANDS)
_AT_ONCE = 256

Sounds = Iterator[np.ndarray]


def cached(beside: Path, part: str, key: object, count: int, sounds: Callable[[], Sounds]) -> np.ndarray:
    """Features (count, 1, 96, 64) in float16 of `sounds`, read from the file of `key` or computed and put there.

    float16 halves the memory; its steps (at most 0.004 here) are far below what a microphone adds.
    """
    digest = hashlib.sha256(json.dumps([FORMAT, part, count, key]).encode()).hexdigest()[:16]
    folder = (beside if os.access(beside, os.W_OK) else cache()) / FOLDER
    path = folder / f"{part}-{digest}.npy"
    found = _read(path, count)
    if found is not None:
        return found
    made = compute(sounds(), count)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with new_file(path, force=True) as file:
            np.save(file, made)
    except (OSError, ArgumentError) as error:
        warnings.warn(
            f"the features could not be kept in {folder} ({error}): next time they are computed again.", stacklevel=3
        )
    return made


def compute(sounds: Sounds, count: int) -> np.ndarray:
    """Features of `count` sounds, each one second of int16."""
    made = np.empty((count, *_SHAPE), np.float16)
    done = 0
    while done < count:
        waves = np.stack(list(islice(sounds, _AT_ONCE)))
        made[done : done + len(waves)] = logmel.patches(torch.from_numpy(waves) / 32768).numpy()
        done += len(waves)
    return made


def _read(path: Path, count: int) -> np.ndarray | None:
    """What the file holds, mapped into memory; None where it is not there whole."""
    with suppress(OSError, ValueError, EOFError):
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(found, np.ndarray) and found.shape == (count, *_SHAPE) and found.dtype == np.float16:
            return found
    return None
