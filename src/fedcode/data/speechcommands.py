"""Google Speech Commands with twelve classes: ten words, any other word, silence.

Reference: Warden, Speech Commands: A Dataset for Limited-Vocabulary Speech Recognition, 2018 (section 7: the
twelve classes, their shares in training, the test set of its own).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedcode.data import features, sound
from fedcode.data.dataset import Dataset
from fedcode.data.logmel import RATE
from fedcode.data.places import find, missing, remedy
from fedcode.errors import ArgumentError, DataError

WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
CLASSES = ("_silence_", "_unknown_", *WORDS)
SILENCE, UNKNOWN = 0, 1
NOISE = "_background_noise_"
LISTS = ("validation_list.txt", "testing_list.txt")
TRAIN = ("speech_commands_v0.02", "speech_commands_v0.01")
TEST = ("speech_commands_test_set_v0.02", "speech_commands_test_set_v0.01")


def speechcommands(
    data_dir: str | os.PathLike[str] | None = None, *, seed: int = 0, unknown: float = 0.1, silence: float = 0.1
) -> Dataset:
    """Log-mel patches (1, 96, 64) of one-second sounds, labels in the order of `CLASSES`.

    Training: every clip of the ten words that neither the validation nor the testing list names; `unknown` times
    as many clips of other words, and `silence` times as many seconds of the noise files, each at a volume of its
    own, both drawn by `seed` (0.1 as published). Test: the official test set, all of it.

    `data_dir` holds a folder of `TRAIN` and one of `TEST`; without it the environment's FEDCODE_DATA and the cache
    are looked through. The features are computed on the first call and kept beside the data.
    """
    for name, share in (("unknown", unknown), ("silence", silence)):
        if not 0 <= share <= 10:
            raise ArgumentError(f"{name} must be a share of the word clips from 0 to 10, got {share}.")
    train, test = _folder("Speech Commands", TRAIN, data_dir), _folder("Speech Commands' test set", TEST, data_dir)
    held_out = _held_out(train)
    words = [[clip for clip in _clips(train / word) if f"{word}/{clip.name}" not in held_out] for word in WORDS]
    for word, clips in zip(WORDS, words, strict=True):
        if not clips:
            raise DataError(f"{train / word} holds no clip for training. {remedy('speechcommands')}")
    spoken = sum(len(clips) for clips in words)
    others = _others(train, held_out, round(unknown * spoken), seed)
    quiet = round(silence * spoken)
    tests = [_clips(test / name) for name in CLASSES]
    for name, clips in zip(CLASSES, tests, strict=True):
        if not clips:
            raise DataError(f"{test / name} holds no clip. {remedy('speechcommands')}")
    noise = _clips(train / NOISE) if quiet else []
    if quiet and not noise:
        raise DataError(f"{train / NOISE} holds no noise to cut silence from. {remedy('speechcommands')}")
    beside = train.parent
    inputs = [
        _of_files(beside, "words", train, [clip for clips in words for clip in clips]),
        _of_files(beside, "unknown", train, others),
        features.cached(beside, "silence", [seed, _stamps(train, noise)], quiet, lambda: _silences(noise, quiet, seed)),
    ]
    counts = [(label, len(clips)) for label, clips in enumerate(words, start=2)]
    return Dataset(
        "speechcommands",
        torch.from_numpy(np.concatenate(inputs)),
        _labels([*counts, (UNKNOWN, len(others)), (SILENCE, quiet)]),
        torch.from_numpy(np.array(_of_files(beside, "test", test, [clip for clips in tests for clip in clips]))),
        _labels([(label, len(clips)) for label, clips in enumerate(tests)]),
        classes=len(CLASSES),
        prepare=torch.Tensor.float,
    )


def _folder(title: str, names: Sequence[str], data_dir: str | os.PathLike[str] | None) -> Path:
    folder = find(names, data_dir)
    if folder is None:
        raise missing(title, names, "speechcommands", data_dir)
    if not folder.is_dir():
        raise DataError(f"{folder} is no directory. {remedy('speechcommands')}")
    return folder


def _held_out(train: Path) -> set[str]:
    """The clips, as word/file, that the archive's lists keep from training."""
    names: set[str] = set()
    for name in LISTS:
        if not (train / name).is_file():
            raise DataError(
                f"{train / name} is missing: without it clips of the test would be trained on. "
                f"{remedy('speechcommands')}"
            )
        names.update(line.strip() for line in (train / name).read_text(encoding="utf-8").splitlines())
    return names


def _clips(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise DataError(f"{folder} is missing. {remedy('speechcommands')}")
    return sorted(path for path in folder.iterdir() if path.suffix == ".wav")


def _others(train: Path, held_out: set[str], count: int, seed: int) -> list[Path]:
    """Up to `count` clips of the words that are none of the ten, drawn at random, in the order of their names."""
    folders = sorted(path for path in train.iterdir() if path.is_dir() and path.name[0] not in "._")
    clips = [clip for folder in folders if folder.name not in WORDS for clip in _clips(folder)]
    clips = [clip for clip in clips if f"{clip.parent.name}/{clip.name}" not in held_out]
    rng = np.random.default_rng([seed, UNKNOWN])
    return [clips[i] for i in np.sort(rng.permutation(len(clips))[:count])]


def _silences(files: Sequence[Path], count: int, seed: int) -> Iterator[np.ndarray]:
    """Seconds cut from the noise files, file, start and volume drawn at random."""
    rng = np.random.default_rng([seed, SILENCE])
    noises = [sound.read(path) for path in files]
    for path, noise in zip(files, noises, strict=True):
        if len(noise) < RATE:
            raise DataError(f"{path} is shorter than the second that is to be cut from it.")
    for _ in range(count):
        noise = noises[rng.integers(len(noises))]
        start = rng.integers(len(noise) - RATE + 1)
        yield (noise[start : start + RATE] * rng.random()).round().astype(np.int16)


def _of_files(beside: Path, part: str, root: Path, files: Sequence[Path]) -> np.ndarray:
    return features.cached(
        beside, part, _stamps(root, files), len(files), lambda: (sound.second(sound.read(path)) for path in files)
    )


def _stamps(root: Path, files: Sequence[Path]) -> list[list[object]]:
    """What tells whether files have changed, without reading them: names, sizes, times."""
    return [
        [str(path.relative_to(root.parent)), status.st_size, status.st_mtime_ns]
        for path, status in ((path, path.stat()) for path in files)
    ]


def _labels(counts: Sequence[tuple[int, int]]) -> Tensor:
    labels, repeats = zip(*counts, strict=True)
    return torch.repeat_interleave(torch.tensor(labels), torch.tensor(repeats))
