"""Golomb-Rice codes: whole numbers that fall off geometrically, in a few bits each and without a table.

The lowest b bits of every number come first, packed; then the rest of each as that many zeros and a one. For the
gaps between positions drawn at random this costs one or two per cent above the entropy, however few they are.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedcode.errors import MessageError
from fedcode.reader import Buffer

MAX_LOW = 40


def encode_rice(numbers: npt.NDArray[np.int64]) -> bytes:
    """Numbers from 0 on as a byte that holds b, and their codes.

    >>> encode_rice(np.array([5, 0, 9])).hex()
    '01050c01'
    """
    low = _cheapest(numbers)
    bits = np.unpackbits(numbers.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, count=low, bitorder="little")
    ends = np.cumsum((numbers >> low) + 1)
    unary = np.zeros(int(ends[-1]), np.uint8)
    unary[ends - 1] = 1
    return bytes((low,)) + b"".join(np.packbits(part, bitorder="little").tobytes() for part in (bits.ravel(), unary))


def decode_rice(data: Buffer, count: int) -> npt.NDArray[np.int64]:
    """Just `count` numbers that `encode_rice` wrote."""
    low = data[0] if len(data) else MAX_LOW + 1
    size = (count * low + 7) // 8
    if low > MAX_LOW or len(data) < 1 + size + (count + 7) // 8:
        raise MessageError(f"{len(data)} bytes cannot be {count} numbers in Rice's code.")
    raw = np.frombuffer(data, np.uint8)
    wide = np.zeros((count, 64), np.uint8)
    wide[:, :low] = np.unpackbits(raw[1 : 1 + size], bitorder="little", count=count * low).reshape(count, low)
    lows = np.packbits(wide, axis=1, bitorder="little").view("<u8").reshape(-1).astype(np.int64)
    ends = np.flatnonzero(np.unpackbits(raw[1 + size :], bitorder="little"))
    if len(ends) != count or not raw[-1]:
        raise MessageError(f"{count} numbers in Rice's code are expected, got {len(ends)}.")
    return (np.diff(ends, prepend=-1) - 1 << low) + lows


def _cheapest(numbers: npt.NDArray[np.int64]) -> int:
    """The b that takes the fewest bits."""
    sizes = [low * numbers.size + int((numbers >> low).sum()) for low in range(MAX_LOW + 1)]
    return int(np.argmin(sizes))
