"""Positions: which of `size` values are meant, as the gaps between them or as a map of bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedcode.errors import ArgumentError, MessageError
from fedcode.packing import pack, unpack
from fedcode.reader import Buffer
from fedcode.streams import compress, decompress

Positions = npt.NDArray[np.int64]

GAPS, MAP, CODED_MAP = 1, 2, 3


def encode_positions(indices: npt.ArrayLike, size: int) -> bytes:
    """Distinct indices below `size`, ascending.

    >>> decode_positions(encode_positions([3, 4, 90], 100), 3, 100)
    array([ 3,  4, 90])
    """
    row = np.asarray(indices).reshape(-1)
    if not row.size:
        return b""
    row = row.astype(np.int64)
    gaps = np.diff(row, prepend=-1) - 1
    if int(gaps.min()) < 0 or int(row[-1]) >= size:
        raise ArgumentError(f"positions must ascend without repetition from 0 to {size - 1}.")
    forms = [bytes((GAPS,)) + compress(gaps.astype(np.uint32 if size <= 1 << 32 else np.uint64))]
    if size <= 16 * row.size + 512:
        bitmap = np.zeros(size, np.uint8)
        bitmap[row] = 1
        forms += [bytes((MAP,)) + pack(bitmap, 2), bytes((CODED_MAP,)) + compress(bitmap)]
    return min(forms, key=len)


def decode_positions(data: Buffer, count: int, size: int) -> Positions:
    """The `count` ascending indices that `encode_positions` wrote."""
    if count == 0 and not len(data):
        return np.empty(0, np.int64)
    if not count or not len(data) or count > size:
        raise MessageError(f"{len(data)} bytes cannot be {count} positions of {size}.")
    body = memoryview(data).cast("B")[1:]
    if data[0] == GAPS:
        gaps = decompress(body, count, np.uint32 if size <= 1 << 32 else np.uint64)
        if int(gaps.max()) >= size:
            raise MessageError(f"a gap of {int(gaps.max())} does not fit into {size} positions.")
        positions: Positions = np.cumsum(gaps.astype(np.int64) + 1) - 1
        if int(positions[-1]) >= size or (positions[1:] <= positions[:-1]).any():
            raise MessageError(f"the positions run past the {size} that there are.")
        return positions
    if data[0] not in (MAP, CODED_MAP) or size > 16 * count + 512:
        raise MessageError("the positions are coded in a way that does not exist.")
    bitmap = unpack(body, size, 2) if data[0] == MAP else decompress(body, size, np.uint8)
    found: Positions = np.flatnonzero(bitmap).astype(np.int64)
    if len(found) != count or int(bitmap.max()) > 1:
        raise MessageError(f"a map of {count} positions is expected, got one of {len(found)}.")
    return found
