"""The values of greatest magnitude: what methods that prune keep, and where it stands."""

from __future__ import annotations

import numpy as np

from fedcode.reader import Buffer, Reader, varint
from fedcode.sparse import Positions, decode_positions, encode_positions
from fedcode.state import Vector


def share_of(share: float, size: int) -> int:
    """How many of `size` values a share of them is: rounded down, one at least.

    >>> share_of(0.01, 1234), share_of(0.01, 10)
    (12, 1)
    """
    return max(1, int(share * size))


def top(values: Vector, count: int) -> Positions:
    """The positions, ascending, of the `count` values of greatest magnitude; of equals the first ones.

    Zeros are never among them, so there may be fewer.

    >>> top(np.array([1, -3, 0, 2, -2], np.float32), 2)
    array([1, 3])
    """
    sizes = np.abs(values)
    if count <= 0:
        return np.empty(0, np.int64)
    if count >= sizes.size:
        return np.flatnonzero(sizes)
    least = np.partition(sizes, sizes.size - count)[sizes.size - count]
    found = np.flatnonzero(sizes > least)
    if least:
        equal = np.flatnonzero(sizes == least)[: count - found.size]
        found = np.sort(np.concatenate([found, equal]))
    return found


def write_positions(positions: Positions, size: int) -> bytes:
    """Ascending positions below `size`, behind how many there are.

    >>> read_positions(write_positions(np.array([3, 4, 90]), 100), 100)
    array([ 3,  4, 90])
    """
    return varint(positions.size) + encode_positions(positions, size)


def read_positions(data: Buffer, size: int) -> Positions:
    """What `write_positions` wrote."""
    reader = Reader(data, "the section of positions")
    count = reader.varint(size)
    return decode_positions(reader.take(reader.left), count, size)
