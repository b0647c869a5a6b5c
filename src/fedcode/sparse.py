"""Positions: which of `size` values are meant, as the gaps between them or as a map of bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fedcode.errors import ArgumentError, MessageError
from fedcode.packing import pack, unpack
from fedcode.reader import Buffer
from fedcode.rice import decode_rice, encode_rice
from fedcode.streams import compress, decompress
from fedcode.symbols import RANKED, SPLIT, Survey, decode_symbols, encode_symbols

Positions = npt.NDArray[np.int64]

GAPS, MAP, CODED_MAP, RICE = 1, 2, 3, 4
_FORMS = SPLIT | RANKED

# More than so many positions make pcodec's table weigh nothing, fewer are written in Rice's code as well.
_FEW = 1 << 14


def encode_positions(indices: npt.ArrayLike, size: int) -> bytes:
    """Distinct indices below `size`, ascending.

    >>> decode_positions(encode_positions([3, 4, 90], 100), 3, 100)
    array([ 3,  4, 90])
    """
    row = np.asarray(indices).reshape(-1)
    if not row.size:
        return b""
    if row.dtype.kind not in "ui":
        raise ArgumentError(f"positions are integers, got {row.dtype}.")
    row = row.astype(np.int64)
    gaps = np.diff(row, prepend=-1) - 1
    if int(gaps.min()) < 0 or int(row[-1]) >= size:
        raise ArgumentError(f"positions must ascend without repetition from 0 to {size - 1}.")
    return min(_forms(row, gaps, size), key=len)


def _forms(row: Positions, gaps: Positions, size: int) -> Iterator[bytes]:
    yield bytes((GAPS,)) + compress(gaps.astype(_gap_type(size)), level=10)
    if row.size <= _FEW and size < 1 << 40:
        yield bytes((RICE,)) + encode_rice(gaps)
    if _may_be_map(row.size, size):
        bitmap = np.zeros(size, np.uint8)
        bitmap[row] = 1
        yield bytes((MAP,)) + pack(bitmap, 2)
        form, body = encode_symbols(Survey.of(bitmap, 2))
        yield bytes((CODED_MAP | form,)) + body


def _gap_type(size: int) -> npt.DTypeLike:
    return np.uint32 if size <= 1 << 32 else np.uint64


def _may_be_map(count: int, size: int) -> bool:
    # beyond it gaps are smaller, and reading a few positions need not take the memory of a large model
    return size <= 64 * count + 4096


def decode_positions(data: Buffer, count: int, size: int) -> Positions:
    """The `count` ascending indices that `encode_positions` wrote."""
    if count == 0 and not len(data):
        return np.empty(0, np.int64)
    if not count or not len(data) or count > size:
        raise MessageError(f"{len(data)} bytes cannot be {count} positions of {size}.")
    way, form, body = data[0] & ~_FORMS, data[0] & _FORMS, memoryview(data).cast("B")[1:]
    if data[0] == GAPS:
        return _from_gaps(decompress(body, count, _gap_type(size)), size)
    if data[0] == RICE:
        return _from_gaps(decode_rice(body, count), size)
    if (data[0] != MAP and way != CODED_MAP) or not _may_be_map(count, size):
        raise MessageError("the positions are coded in a way that does not exist.")
    bitmap = unpack(body, size, 2) if data[0] == MAP else decode_symbols(body, form, size, 2)
    found: Positions = np.flatnonzero(bitmap).astype(np.int64)
    if len(found) != count:
        raise MessageError(f"a map of {count} positions is expected, got one of {len(found)}.")
    return found


def _from_gaps(gaps: npt.NDArray[np.uint32] | npt.NDArray[np.uint64] | Positions, size: int) -> Positions:
    if int(gaps.max()) >= size or int(gaps.min()) < 0:
        raise MessageError(f"a gap of {int(gaps.max())} does not fit into {size} positions.")
    positions: Positions = np.cumsum(gaps.astype(np.int64) + 1) - 1
    if int(positions[-1]) >= size or (positions[1:] <= positions[:-1]).any():
        raise MessageError(f"the positions run past the {size} that there are.")
    return positions
