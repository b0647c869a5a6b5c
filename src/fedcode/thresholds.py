"""Values to labels by thresholds: a value's label is the number of thresholds strictly below it.

A value's cell in a small table says which threshold comes next, and what is said of a value on either side of
it: one compare does the rest (several where thresholds stand so close that they share a cell). The cells come
from a key that never falls as the value rises, and the same key is taken of the thresholds: so the labels are
exact whatever the key rounds, and the same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcode.kernels import kernel
from fedcode.packing import label_type
from fedcode.row import Floats, Row

BUFFER = 2048  # values whose keys are taken at once: vectorised, and held in the first-level cache
MOST_CELLS = 1 << 16
FEW = 2048  # values so few that making the table of cells would take longer than to go without


class Scale(NamedTuple):
    """Float32 numbers to whole numbers in the same order: linear within `knee` of `origin`, then logarithmic.

    The key of x is the bits of |x - origin| + knee less `base`, the bits of the knee, shifted right, with the
    sign of x - origin. The knee has no bits below the shift. A named tuple, because kernels take it whole.
    """

    origin: np.float32
    knee: np.float32
    base: int
    shift: int

    @classmethod
    def around(cls, origin: float, knee: float, shift: int) -> Scale:
        """The scale whose knee is the nearest below."""
        base = int(np.float32(knee).view(np.int32)) >> shift << shift
        origin = float(np.float32(origin)) or -0.0  # from which -0.0 differs by 0.0, as 0.0 does
        return cls(np.float32(origin), np.int32(base).view(np.float32), base, shift)

    def keys(self, values: Floats) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The keys, and what was shifted out of them."""
        difference = values - self.origin
        bits = (np.abs(difference) + self.knee).view(np.int32) - np.int32(self.base)
        sign = difference.view(np.int32) >> np.int32(31)
        return (bits >> np.int32(self.shift)) ^ sign, bits & np.int32((1 << self.shift) - 1)

    def tops(self, keys: npt.NDArray[np.int64]) -> Floats:
        """The greatest float32 number whose key is at most each of these, found by halving."""
        low, high = (np.full(keys.shape, end, np.int64) for end in (-_GREATEST, _GREATEST))
        with np.errstate(over="ignore"):
            while np.any(low < high):
                middle = (low + high + 1) >> 1
                inside = self.keys(_numbered(middle))[0] <= keys
                low, high = np.where(inside, middle, low), np.where(inside, high, middle - 1)
        return _numbered(low)


_INFINITE = int(np.float32(np.inf).view(np.int32))
_GREATEST = _INFINITE - 1


def _numbered(numbers: npt.NDArray[np.int64]) -> Floats:
    """The float32 numbers in ascending order; 0.0 is number 0."""
    bits = np.where(numbers < 0, -numbers | 1 << 31, numbers)
    return bits.astype(np.uint32).view(np.float32)


@dataclass(frozen=True, eq=False)
class Rule:
    """Which centre stands for a value: as many thresholds lie strictly below it as centres below that centre.

    centers: float32, ascending. thresholds: float32, one fewer.

    >>> from fedcode.row import row_of
    >>> Rule.nearest(np.array([0, 1], np.float32)).labels(row_of(np.array([0.5, 0.6])))
    array([0, 1], dtype=uint8)
    """

    centers: Floats
    thresholds: Floats

    @classmethod
    def nearest(cls, centers: Floats) -> Rule:
        """The rule by which each value has its nearest centre."""
        wide = centers.astype(np.float64)
        return cls(centers, below((wide[:-1] + wide[1:]) / 2))

    def labels(self, row: Row) -> npt.NDArray[Any]:
        """The label of each value: uint8 up to 256 centres, else uint16; in the shape of the row."""
        return look_up(row, self.thresholds, np.arange(self.centers.size).astype(label_type(self.centers.size)))


def below(middles: npt.NDArray[np.float64]) -> Floats:
    """The greatest float32 that is not above each: a float32 exceeds one exactly if it exceeds the other."""
    with np.errstate(over="ignore"):
        near = middles.astype(np.float32) + np.float32(0)  # no -0.0: its key would differ from that of 0.0
    down = near.astype(np.float64) > middles
    near[down] = np.nextafter(near[down], np.float32(-np.inf)) + np.float32(0)
    return near


def look_up(row: Row, thresholds: Floats, table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """For each value the entry of `table` that its label names; `table` has one entry more than thresholds.

    A NonFiniteError if a value is NaN or infinite.
    """
    if row.size <= FEW:
        values = row.read(0, row.size)
        if not np.isfinite(values).all():
            row.extremes()  # which says how many there are, and where
        found: npt.NDArray[Any] = table[np.searchsorted(thresholds, values)]
        return found.reshape(row.shape)
    out = np.empty(row.size, table.dtype)
    scale, low, first = _cells(thresholds)
    ends = np.append(thresholds, np.float32(np.inf))
    edges, either = np.empty(0, np.float32), table
    if int(np.diff(first, append=np.uint16(thresholds.size)).max()) <= 1:
        edges = ends[first]
        either = np.append(table, table[-1])[np.add.outer(first, np.arange(2))].reshape(-1)

    def work(start: int, stop: int) -> None:
        for place, block in row.blocks(start, stop):
            into = out[place : place + block.size]
            if _look_up(block, scale, low, first, ends, table, edges, either, into) >= _INFINITE:
                row.extremes()  # which says how many there are, and where

    row.over(work)
    return out.reshape(row.shape)


def _cells(thresholds: Floats) -> tuple[Scale, int, npt.NDArray[np.uint16]]:
    """A scale whose cells hold at most one threshold each if possible, its first cell, and what lies below each."""
    if not thresholds.size:
        return Scale.around(0.0, 1.0, 20), 0, np.zeros(1, np.uint16)
    middle = thresholds[thresholds.size // 2]
    if abs(float(middle)) > 1e30:
        middle = np.float32(0)
    with np.errstate(over="ignore"):
        spread = float(np.median(np.abs(thresholds - middle)))
    knee = min(max(spread, 1e-30), 1e30)
    found = None
    for shift in range(20, 7, -1):
        scale = Scale.around(float(middle), knee, shift)
        with np.errstate(over="ignore"):
            keys = scale.keys(thresholds)[0]
        cells = int(keys[-1]) - int(keys[0]) + 1
        if cells > MOST_CELLS and found is not None:
            break
        found = scale, keys, cells
        if keys.size == 1 or int(np.diff(keys).min()) > 0:
            break
    assert found is not None
    scale, keys, cells = found
    first = np.searchsorted(keys, np.arange(cells, dtype=np.int64) + int(keys[0]))
    return scale, int(keys[0]), first.astype(np.uint16)


def _plain_look_up(
    values: Any, scale: Scale, low: int, first: Any, ends: Any, table: Any, edges: Any, either: Any, out: Any
) -> int:
    del scale, low, first, edges, either
    out[:] = table[np.searchsorted(ends[:-1], values)]
    return int(np.abs(values).view(np.int32).max())


@kernel(plain=_plain_look_up)
def _look_up(
    values: Any, scale: Scale, low: int, first: Any, ends: Any, table: Any, edges: Any, either: Any, out: Any
) -> int:
    """Fills `out`. The bits of the greatest distance come back: of NaN or infinity they are no finite number's.

    `edges`, where it is not empty, has the one threshold to compare with in each cell, and `either` what is said of
    a value that is not above it and of one that is.
    """
    difference = np.empty(BUFFER, np.float32)
    distance = np.empty(BUFFER, np.float32)
    sign, bits = difference.view(np.int32), distance.view(np.int32)
    cells = np.empty(BUFFER, np.uint32)
    origin, knee, base, shift = scale.origin, scale.knee, np.int32(scale.base), np.int32(scale.shift)
    lowest, top = np.int32(low), np.int32(first.size - 1)
    greatest = np.int32(0)
    for start in range(0, values.size, BUFFER):
        part, into = values[start : start + BUFFER], out[start : start + BUFFER]
        for i in range(part.size):
            difference[i] = part[i] - origin
            distance[i] = abs(difference[i]) + knee
        for i in range(part.size):
            greatest = max(greatest, bits[i])
            cell = (((bits[i] - base) >> shift) ^ (sign[i] >> np.int32(31))) - lowest
            cells[i] = np.uint32(min(max(cell, np.int32(0)), top))
        if edges.size:
            for i in range(part.size):
                cell = cells[i]
                into[i] = either[np.uint32(2) * cell + np.uint32(part[i] > edges[cell])]
        else:
            for i in range(part.size):
                label = np.uint32(first[cells[i]])
                while part[i] > ends[label]:
                    label += np.uint32(1)
                into[i] = table[label]
    return int(greatest)
