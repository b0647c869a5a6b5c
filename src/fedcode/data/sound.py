"""Sound files as samples: 16 kHz, one channel, 16 bits, which is all that Speech Commands has."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

from fedcode.data.logmel import RATE
from fedcode.data.places import remedy
from fedcode.errors import DataError


def read(path: Path) -> np.ndarray:
    """The samples of a WAV file, int16."""
    try:
        with wave.open(str(path)) as file:
            form = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
            promised = file.getnframes()
            content = file.readframes(promised)
    except (wave.Error, EOFError, OSError) as error:
        reason = str(error) or "it ends too early"
        raise DataError(f"{path} cannot be read as a WAV file: {reason}. {remedy('speechcommands')}") from error
    if form != (1, 16, RATE):
        channels, bits, rate = form
        raise DataError(
            f"{path} has {channels} channels of {bits} bits at {rate} Hz; one channel of 16 bits at {RATE} Hz is "
            "expected."
        )
    if not content or len(content) != 2 * promised:
        raise DataError(
            f"{path} is damaged: {promised} samples are promised, {len(content) // 2} are there. "
            f"{remedy('speechcommands')}"
        )
    return np.frombuffer(content, "<i2")


def second(samples: np.ndarray) -> np.ndarray:
    """The first second; a shorter sound is followed by silence.

    >>> second(np.ones(3, np.int16)).shape
    (16000,)
    """
    whole = np.zeros(RATE, np.int16)
    whole[: min(RATE, len(samples))] = samples[:RATE]
    return whole
