"""What the sections of a message hold, as arrays; whatever cannot be right is a MessageError."""

from __future__ import annotations

import numpy as np

from fedcode.coding import decode_floats, encode_floats
from fedcode.errors import MessageError
from fedcode.reader import Buffer
from fedcode.state import Counters, Vector

MAX_CENTERS = 1 << 16


def encode_centers(centers: Vector) -> bytes:
    """A codebook: float32, ascending.

    >>> encode_centers(np.array([-1, 1], np.float32)).hex()
    '000080bf0000803f'
    """
    return encode_floats(centers)


def decode_centers(data: Buffer) -> Vector:
    """The codebook that a section holds: finite, ascending, 1 to 65,536 centres."""
    centers = decode_values(data, len(data) // 4)
    if not 0 < len(centers) <= MAX_CENTERS:
        raise MessageError(f"a codebook has 1 to {MAX_CENTERS} centres, not {len(centers)}.")
    if (centers[1:] < centers[:-1]).any():
        raise MessageError("the centres of a codebook are not in ascending order.")
    return centers


def decode_values(data: Buffer, count: int) -> Vector:
    """Just `count` finite float32 values."""
    values = decode_floats(data, count)
    if not np.isfinite(values).all():
        bad = ~np.isfinite(values)
        raise MessageError(
            f"{int(bad.sum())} of {count} values are NaN or infinite, the first at index {int(bad.argmax())}."
        )
    return values


def encode_counters(counters: Counters) -> bytes:
    """64-bit integers, little-endian."""
    return counters.astype("<i8").tobytes()


def decode_counters(data: Buffer, count: int) -> Counters:
    """Just `count` 64-bit integers."""
    if len(data) != 8 * count:
        raise MessageError(f"{count} counters take {8 * count} bytes, got {len(data)}.")
    return np.frombuffer(data, "<i8").astype(np.int64)
