"""Groups of expected labels, so that what follows similar ones is coded together and the rest apart.

How often a weight leaves the centre that was expected, and to which side, depends on the centre: on how close its
neighbours are and how far it moved. One stream for all mixes these; a stream for each label would cost too many
tables. So labels with similar differences share a stream, as many groups as pay for their tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.kernels import kernel
from fedcode.packing import Labels
from fedcode.streams import PAGE
from fedcode.symbols import BIN, entropies

MAX_GROUPS = 8
_MOST_LABELS = 256  # the differences are counted label by label
_STREAM = 400  # what a stream weighs beside, in bits
_START = 64  # more labels are first put into so many groups of neighbours

Counts = npt.NDArray[np.float64]


def grouping(differences: Labels, expected: Labels, k: int) -> npt.NDArray[np.uint8] | None:
    """The group of each label that may be expected; None where one group costs as little.

    >>> expected = np.arange(20_000, dtype=np.uint8) % 4
    >>> calm = np.where(expected < 2, 0, np.arange(20_000) // 7 % 4).astype(np.uint8)
    >>> grouping(calm, expected, 4)
    array([0, 0, 1, 1], dtype=uint8)
    """
    if k > _MOST_LABELS or not differences.size:
        return None
    counted = np.zeros((k, k), np.int64)
    _count_pairs(expected, differences, counted)
    counts: Counts = counted.astype(np.float64)
    together = counts.sum(0, keepdims=True)
    most = 0.998 * float(_costs(together)[0])
    # two streams, a bin in one of them for each difference, a bit for the group of each label: no grouping takes less
    least = float(entropies(counts).sum()) + 2 * _STREAM + BIN * np.count_nonzero(together) + k
    return _merged(counts, np.arange(k) * min(k, _START) // k, most) if least < most else None


def _merged(counts: Counts, groups: npt.NDArray[np.int64], most: float) -> npt.NDArray[np.uint8] | None:
    """Groups joined two by two as costs least, down to the number that costs least and less than `most` bits."""
    best = None
    sums = np.stack([counts[groups == group].sum(0) for group in range(int(groups.max()) + 1)])
    costs = _costs(sums)
    rises = np.stack([_costs(sums + row) - costs - cost for row, cost in zip(sums, costs, strict=True)])
    np.fill_diagonal(rises, np.inf)
    for number in range(len(sums), 1, -1):
        cost = float(costs.sum()) + groups.size * (number - 1).bit_length()
        if number <= MAX_GROUPS and cost < most:
            best, most = np.unique(groups, return_inverse=True)[1].astype(np.uint8), cost
        kept, gone = divmod(int(rises.argmin()), len(sums))
        groups = np.where(groups == gone, kept, groups)
        sums[kept] += sums[gone]
        costs[kept], costs[gone] = _costs(sums[kept : kept + 1])[0], 0
        changed = _costs(sums + sums[kept]) - costs - costs[kept]
        changed[np.isinf(rises[kept])] = np.inf
        rises[kept], rises[:, kept] = changed, changed
        rises[gone], rises[:, gone] = np.inf, np.inf
    return best


def part(differences: Labels, expected: Labels, groups: npt.NDArray[np.uint8]) -> list[Any]:
    """The differences of each group, in their order.

    >>> part(np.array([5, 6, 7], np.uint8), np.array([0, 1, 0], np.uint8), np.array([1, 0], np.uint8))
    [array([6], dtype=uint8), array([5, 7], dtype=uint8)]
    """
    ends = np.cumsum(sizes(expected, groups, int(groups.max()) + 1))
    out = np.empty_like(differences)
    _part(differences, expected, groups, np.concatenate([[0], ends[:-1]]), out)
    return np.split(out, ends[:-1])


def unite(parts: list[Any], expected: Labels, groups: npt.NDArray[np.uint8]) -> Labels:
    """What `part` took apart."""
    ends = np.cumsum([found.size for found in parts])
    row = np.concatenate(parts)
    out: Labels = np.empty_like(row)
    _unite(row, expected, groups, np.concatenate([[0], ends[:-1]]), out)
    return out


def sizes(expected: Labels, groups: npt.NDArray[np.uint8], number: int) -> list[int]:
    """How many differences each of `number` groups has."""
    each = np.bincount(expected, minlength=groups.size)
    return [int(each[groups == group].sum()) for group in range(number)]


def _costs(counts: Counts) -> Counts:
    """About how many bits a stream takes for each row of counts."""
    totals = counts.sum(1)
    tables = _STREAM + BIN * (counts > 0).sum(1) * np.ceil(totals / PAGE)
    return entropies(counts) + np.where(totals > 0, tables, 0)


def _count_pairs_plainly(expected: Any, differences: Any, counts: Any) -> None:
    k = len(counts)
    counts += np.bincount(expected.astype(np.int64) * k + differences, minlength=k * k).reshape(k, k)


@kernel(plain=_count_pairs_plainly)
def _count_pairs(expected: Any, differences: Any, counts: Any) -> None:
    for i in range(expected.size):
        counts[expected[i], differences[i]] += 1


def _part_plainly(row: Any, expected: Any, groups: Any, starts: Any, out: Any) -> None:
    del starts
    out[:] = row[np.argsort(groups[expected], kind="stable")]


@kernel(plain=_part_plainly)
def _part(row: Any, expected: Any, groups: Any, starts: Any, out: Any) -> None:
    places = starts.copy()
    for i in range(row.size):
        group = groups[expected[i]]
        out[places[group]] = row[i]
        places[group] += 1


def _unite_plainly(row: Any, expected: Any, groups: Any, starts: Any, out: Any) -> None:
    del starts
    out[np.argsort(groups[expected], kind="stable")] = row


@kernel(plain=_unite_plainly)
def _unite(row: Any, expected: Any, groups: Any, starts: Any, out: Any) -> None:
    places = starts.copy()
    for i in range(row.size):
        group = groups[expected[i]]
        out[i] = row[places[group]]
        places[group] += 1
