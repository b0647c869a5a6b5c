"""What the sections of a message hold, as arrays; whatever cannot be right is a MessageError."""

from __future__ import annotations

import numpy as np

from fedcode.coding import decode_floats, encode_floats
from fedcode.errors import MessageError
from fedcode.reader import Buffer, Reader, varint
from fedcode.state import Counters, Vector

MAX_CENTERS = 1 << 16
_HALF = 1 << 63


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
    """64-bit integers, each as the zigzag varint of its difference to the one before, modulo 2^64.

    Counters of one model mostly count the same steps: all but the first then take one byte.

    >>> encode_counters(np.array([300, 300, 299])).hex()
    'd8040001'
    """
    out = bytearray()
    last = 0
    for counter in counters.tolist():
        difference = (counter - last + _HALF) % (2 * _HALF) - _HALF
        out += varint(2 * difference if difference >= 0 else -2 * difference - 1)
        last = counter
    return bytes(out)


def decode_counters(data: Buffer, count: int) -> Counters:
    """Just `count` 64-bit integers.

    >>> decode_counters(bytes.fromhex("d8040001"), 3)
    array([300, 300, 299])
    """
    if len(data) < count:
        raise MessageError(f"{count} counters take {count} bytes or more, got {len(data)}.")
    reader = Reader(data, "the section of counters")
    counters = np.empty(count, np.int64)
    last = 0
    for index in range(count):
        zigzag = reader.varint()
        last += -(zigzag + 1 >> 1) if zigzag & 1 else zigzag >> 1
        last = (last + _HALF) % (2 * _HALF) - _HALF
        counters[index] = last
    reader.end()
    return counters
