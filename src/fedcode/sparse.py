"""Positions: which of `size` values are meant, as the gaps between them or as a map of bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from fedcode.errors import ArgumentError, MessageError
from fedcode.packing import pack, packed_size, unpack
from fedcode.reader import Buffer
from fedcode.rice import decode_rice, encode_rice
from fedcode.streams import compress, decompress, pages
from fedcode.symbols import RANKED, SPLIT, Survey, decode_symbols, encode_symbols, entropies

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
    best = b""
    # A form is tried only where its entropy, which it cannot undercut, leaves room below the best so far.
    for floor, form in sorted(_forms(row, gaps, size), key=lambda found: found[0]):
        if not best or 1 + floor < len(best):
            found = form()
            best = found if not best or len(found) < len(best) else best
    return best


def _forms(row: Positions, gaps: Positions, size: int) -> Iterator[tuple[int, Callable[[], bytes]]]:
    """Each form: the bytes that it takes at the least, and what makes it."""
    least = _entropy(gaps)
    yield least, lambda: bytes((GAPS,)) + compress(gaps.astype(_gap_type(size)), level=10)
    if row.size <= _FEW and size < 1 << 40:
        yield least, lambda: bytes((RICE,)) + encode_rice(gaps)
    if _may_be_map(row.size, size):
        bitmap = np.zeros(size, np.uint8)
        bitmap[row] = 1
        survey = Survey.of(bitmap, 2)
        yield packed_size(size, 1), lambda: bytes((MAP,)) + pack(bitmap, 2)
        yield survey.floor, lambda: _coded_map(survey)


def _coded_map(survey: Survey) -> bytes:
    form, body = encode_symbols(survey)
    return bytes((CODED_MAP | form,)) + body


def _entropy(gaps: Positions) -> int:
    """The entropy of the gaps in bytes, page by page, rounded down."""
    bits = 0.0
    for page in np.split(gaps, np.cumsum(pages(gaps.size))[:-1]):
        counts = np.bincount(page) if int(page.max()) < 1 << 16 else np.unique(page, return_counts=True)[1]
        bits += float(entropies(counts[np.newaxis])[0])
    return int(bits / 8 * (1 - 1e-9))


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
