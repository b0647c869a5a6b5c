"""Many values as a few thousand bins, each with its count and its sum: all that clustering needs to know.

Millions of values are counted in bins that are fine where the values are dense. A bin's count and the sum of
its values are whole numbers, so they do not depend on the order, nor on how many threads there are. What such
bins cannot tell apart (few values, few distinct ones, narrow clumps far apart) is sorted instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.kernels import kernel
from fedcode.row import BLOCK, Floats, Row
from fedcode.thresholds import BUFFER, Scale

Doubles = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

FEW = 4096  # so many values are sorted: then each distinct one is a bin, and the programme is exact
MOST_BINS = 1 << 17
FLUSH = 1 << 24  # an entry of the tally holds a count of 24 bits over a sum of 40
SAMPLE = 4096


@dataclass(frozen=True, eq=False)
class Bins:
    """Values in ascending bins.

    sums: of value - origin. blur: the squared error that lies within bins. tops: for some of the bins a float32
    that is at least the greatest value in each, and below the least in the next. distinct: each bin holds one value
    alone, however often, which is its top.
    """

    origin: float
    counts: Doubles
    sums: Doubles
    blur: float
    tops: Callable[[Places], Floats]
    distinct: bool = False

    @property
    def size(self) -> int:
        return self.counts.size

    @cached_property
    def means(self) -> Doubles:
        """The mean of each bin, less the origin: ascending."""
        return self.sums / self.counts

    @cached_property
    def prefix(self) -> tuple[Doubles, Doubles, Doubles]:
        """Counts, sums and squares up to each edge of the bins, each 0 where the values change their sign.

        Counted outwards from there, a huge value does not drown the small ones that come after it.
        """
        middle = int(np.count_nonzero(self.means < 0))
        count, total, square = (_outwards(row, middle) for row in (self.counts, self.sums, self.sums * self.means))
        return count, total, square

    def between(self, cuts: Places) -> tuple[Doubles, Doubles, Doubles]:
        """Counts, sums and squares of the values between one cut and the next."""
        count, total, square = (np.diff(row[cuts]) for row in self.prefix)
        return count, total, square

    def centers(self, cuts: Places) -> Floats:
        """The means of the values between one cut and the next."""
        count, total, _ = self.between(cuts)
        found: Floats = (total / count + self.origin).astype(np.float32)
        if self.distinct:  # a value that is alone there is its own mean, which sums might have rounded
            found = np.where(np.diff(cuts) == 1, self.tops(cuts[1:] - 1), found)
        return found


def _outwards(row: Doubles, middle: int) -> Doubles:
    left = -np.cumsum(row[:middle][::-1])[::-1]
    return np.concatenate([left, [0.0], np.cumsum(row[middle:])])


def histogram(row: Row, shift: int, most: int = MOST_BINS) -> Bins | None:
    """Count the values in bins, 2^(23 - shift) to the octave (fewer if `most` are not enough).

    None if they are better sorted.
    """
    low, high = row.extremes()
    if row.size <= FEW:
        return None
    origin, knee = _middle_and_spread(row)
    reach = max(high - origin, origin - low)
    if not (1e-30 < knee <= reach < 1e30) or abs(origin) > 1e30:
        return None  # so small or so large that the arithmetic of float32 would fail
    octaves = np.log2(reach / knee) + 2
    while octaves * 2 ** (24 - shift) > most:
        shift += 1
    scale = Scale.around(origin, knee, shift)
    half = int(scale.keys(np.array([low, high], np.float32))[0].astype(np.int64).__abs__().max()) + 2

    def work(start: int, stop: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        counts, sums = np.zeros(2 * half, np.int64), np.zeros(2 * half, np.int64)
        tally, held = np.zeros(2 * half, np.uint64), 0
        for _, block in row.blocks(start, stop):
            if held + block.size > FLUSH:
                held = _flush(tally, counts, sums)
            _count(block, scale, half, tally)
            held += block.size
        _flush(tally, counts, sums)
        return counts, sums

    found = row.over(work, 16 * half)  # a thread's tallies stay well below what it reads
    counts = sum(part[0] for part in found)
    sums = sum(part[1] for part in found)
    used = np.flatnonzero(counts)
    return _bins(scale, used - half, counts[used].astype(np.float64), sums[used].astype(np.float64))


def _flush(tally: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64], sums: npt.NDArray[np.int64]) -> int:
    counts += (tally >> np.uint64(40)).astype(np.int64)
    sums += (tally & np.uint64((1 << 40) - 1)).astype(np.int64)
    tally[:] = 0
    return 0


def _middle_and_spread(row: Row) -> tuple[float, float]:
    """The origin and the knee of the scale, from a sample; a knee of 0 if the sample says nothing."""
    sample = np.sort(row.read(0, row.size, row.size // SAMPLE | 1)).astype(np.float64)
    middle = float(np.float32(sample[sample.size // 2]))
    around = np.abs(sample - middle)
    if abs(middle) < 2 * np.median(around):
        middle, around = 0.0, np.abs(sample)  # weights: zero itself is worth a bin's edge
    around = around[around > 0]
    return middle, float(np.median(around)) if around.size else 0.0


def _bins(scale: Scale, keys: npt.NDArray[np.int64], counts: Doubles, rest: Doubles) -> Bins:
    negative = keys < 0
    bits = ((np.where(negative, ~keys, keys) << scale.shift) + scale.base).astype(np.int32)
    edge = bits.view(np.float32).astype(np.float64) - float(scale.knee)
    unit = np.ldexp(1.0, (bits >> 23) - 150)  # the worth of the last bit there
    sums = counts * edge + unit * rest
    # Values at both ends of a bin cannot spread more than this for their mean; a third of it if they are even. One
    # value alone does not spread.
    mean = unit * rest / counts
    blur = float(((counts - 1) * mean * (np.ldexp(unit, scale.shift) - mean)).sum()) / 3
    return Bins(float(scale.origin), counts, np.where(negative, -sums, sums), blur, lambda at: scale.tops(keys[at]))


def _plain_count(values: Any, scale: Scale, half: int, tally: Any) -> None:
    keys, rest = scale.keys(values)
    place = keys + np.int32(half)
    counts = np.bincount(place, minlength=tally.size).astype(np.uint64)
    sums = np.bincount(place, rest, minlength=tally.size).astype(np.uint64)
    tally += (counts << np.uint64(40)) + sums


@kernel(plain=_plain_count)
def _count(values: Any, scale: Scale, half: int, tally: Any) -> None:
    difference = np.empty(BUFFER, np.float32)
    distance = np.empty(BUFFER, np.float32)
    sign, bits = difference.view(np.int32), distance.view(np.int32)
    place, rest = np.empty(BUFFER, np.uint32), np.empty(BUFFER, np.uint32)
    origin, knee, base, shift = scale.origin, scale.knee, np.int32(scale.base), np.int32(scale.shift)
    middle, mask = np.int32(half), np.int32((1 << scale.shift) - 1)
    for start in range(0, values.size, BUFFER):
        part = values[start : start + BUFFER]
        for i in range(part.size):
            difference[i] = part[i] - origin
            distance[i] = abs(difference[i]) + knee
        for i in range(part.size):
            key = bits[i] - base
            place[i] = np.uint32(((key >> shift) ^ (sign[i] >> np.int32(31))) + middle)
            rest[i] = np.uint32(key & mask)
        for i in range(part.size):
            tally[place[i]] += np.uint64(1 << 40) + np.uint64(rest[i])


def ordered(row: Row) -> Bins:
    """The values sorted: a bin for each distinct one, or where these are too many, for a short stretch of them."""
    if row.array.itemsize == 2:  # at most 65,536 distinct values: counting is sorting, without a copy
        values, counts = _distinct_halves(row)
    else:
        values = row.read(0, row.size)
        if np.shares_memory(values, row.array):
            values = values.copy()
        values.sort()
        first = np.concatenate([[0], *_changes(values)])
        if first.size > MOST_BINS // 2:
            return _stretches(values)
        counts = np.diff(np.append(first, values.size))
        values = values[first]
    wide, origin = values.astype(np.float64), float(values[values.size // 2])
    many = counts.astype(np.float64)
    return Bins(origin, many, (wide - origin) * many, 0.0, lambda at: values[at], distinct=True)


def _changes(values: Any) -> list[Any]:
    return [
        np.flatnonzero(
            values[place + 1 : place + 1 + BLOCK] != values[place : place + BLOCK][: values.size - place - 1]
        )
        + place
        + 1
        for place in range(0, values.size - 1, BLOCK)
    ]


def _distinct_halves(row: Row) -> tuple[Any, Any]:
    counts = np.zeros(1 << 16, np.int64)
    for place in range(0, row.size, BLOCK):
        counts += np.bincount(row.part(place, place + BLOCK).view(np.uint16), minlength=counts.size)
    counts[0], counts[1 << 15] = counts[0] + counts[1 << 15], 0  # both are zero
    used = np.flatnonzero(counts)
    values = Row(used.astype(np.uint16), True) if row.brain else Row(used.astype(np.uint16).view(row.array.dtype))
    wide = values.read(0, used.size)
    order = np.argsort(wide, kind="stable")
    return wide[order], counts[used][order]


def _stretches(values: Any) -> Bins:
    """Sorted values cut where they are spread out: halved until no stretch weighs much more than others."""
    ends = np.array([0, values.size])
    inner = values[np.linspace(0, values.size, MOST_BINS // 8 + 1).astype(np.int64)[1:-1]]
    sides = (np.searchsorted(values, inner, side=side) for side in ("left", "right"))
    edges = np.unique(np.concatenate([ends, *sides]))  # never between equal values
    while True:
        width = values[edges[1:] - 1].astype(np.float64) - values[edges[:-1]]
        long = np.diff(edges)
        weight = np.cbrt(long * width * width)
        heavy = (weight > weight.sum() * 8 / MOST_BINS) & (long > 1)
        if not heavy.any() or edges.size > MOST_BINS:
            break
        first, inner = edges[:-1][heavy], values[edges[:-1][heavy] + long[heavy] // 2]
        left, right = np.searchsorted(values, inner), np.searchsorted(values, inner, side="right")
        edges = np.sort(np.concatenate([edges, np.where(left > first, left, right)]))
    origin = float(values[values.size // 2])
    sums = [_sums(values, edges[i : i + 129], origin) for i in range(0, edges.size - 1, 128)]
    counts = np.diff(edges).astype(np.float64)
    tops = values[edges[1:] - 1]
    return Bins(origin, counts, np.concatenate(sums), float((counts * width * width).sum()) / 12, lambda at: tops[at])


def _sums(values: Any, edges: Any, origin: float) -> Doubles:
    part = values[edges[0] : edges[-1]].astype(np.float64) - origin
    found: Doubles = np.add.reduceat(part, edges[:-1] - edges[0])
    return found
