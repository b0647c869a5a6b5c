"""Sixteen-bit floats with the range of float32: its upper half. For scales, which need range and not precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.errors import MessageError
from fedcode.reader import Buffer

Bfloats = npt.NDArray[np.uint16]

_GREATEST = 0x7F7F  # the greatest finite one; its negative has the sign's bit too
_NEGATIVE = 0x8000


def below(values: npt.ArrayLike) -> Bfloats:
    """The greatest of these floats that are not above the values (beyond all of them: the least finite).

    >>> expand(below([1.0, 1.001, -1.001]))
    array([ 1.       ,  1.       , -1.0078125], dtype=float32)
    """
    bits = _bits(values)
    negative = bits >> np.uint64(31)
    return _finite((bits + np.uint64(0xFFFF) * negative) >> np.uint64(16))


def above(values: npt.ArrayLike) -> Bfloats:
    """The least of these floats that are not below the values, which are 0 or more.

    >>> expand(above([0.0, 1.0, 1.001]))
    array([0.       , 1.       , 1.0078125], dtype=float32)
    """
    return _finite((_bits(values) + np.uint64(0xFFFF)) >> np.uint64(16))


def expand(halves: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """As float32, exactly."""
    wide = halves.astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32)


def encode(halves: Bfloats) -> bytes:
    """Two bytes each, little-endian."""
    return halves.astype("<u2", copy=False).tobytes()


def decode_scales(data: Buffer, count: int) -> npt.NDArray[np.float32]:
    """Just `count` of them as float32: finite, 0 or more.

    >>> decode_scales(encode(above([0.5])), 1)
    array([0.5], dtype=float32)
    """
    if len(data) != 2 * count:
        raise MessageError(f"{count} scales take {2 * count} bytes, got {len(data)}.")
    halves = np.frombuffer(data, "<u2")
    if (halves > _GREATEST).any():
        raise MessageError("a scale is negative, NaN or infinite.")
    return expand(halves)


def _bits(values: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    return np.atleast_1d(np.asarray(values, np.float32)).view(np.uint32).astype(np.uint64)


def _finite(halves: npt.NDArray[np.uint64]) -> Bfloats:
    sign = halves & np.uint64(_NEGATIVE)
    size = np.minimum(halves & np.uint64(0x7FFF), np.uint64(_GREATEST))
    halves16: Bfloats = (sign | size).astype(np.uint16)
    return halves16
