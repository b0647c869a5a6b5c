"""The best partition of bins into k runs of neighbours: one-dimensional k-means, solved.

The squared error of a run obeys the quadrangle inequality, so for a fixed price of a run the cheapest
partition is found in one sweep, and the price is searched that gives k runs. The result is the exact optimum
over the cuts that are allowed. Few bins: every edge is allowed. Many: first those of a coarse grid, then
that grid and every edge near the cuts found on it. Very few: run after run outright, which is faster than to search a
price where k is near to the number of bins.

Reference: Aggarwal, Schieber and Tokuyama, Finding a minimum-weight k-link path in graphs with the concave
Monge property, 1994; for k-means Grønlund et al., arXiv:1701.07204; Yao, Efficient dynamic
programming using quadrangle inequalities, 1980.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcode.histogram import FEW, Bins, Doubles, Places
from fedcode.kernels import kernel
from fedcode.row import Floats

NEAR = 32  # edges either side of a coarse cut that the second programme may choose
COARSE = 1024  # runs of the coarse grid, or 8 k
OUTRIGHT = 256  # bins
TURNS = 4  # while a cut goes as far as it may


def partition(bins: Bins, k: int, start: Floats | None = None) -> tuple[Floats, float]:
    """The centres of the best k runs, and the squared error between bins.

    start: earlier centres; with as many of them the coarse programme is skipped.

    >>> values = np.array([0.0, 1.0, 5.0, 7.0], np.float32)
    >>> bins = Bins(0.0, np.ones(4), values.astype(np.float64), 0.0, lambda at: values[at])
    >>> partition(bins, 2)
    (array([0.5, 6. ], dtype=float32), 2.5)
    """
    cuts = _best(bins, k, start)
    count, total, square = bins.between(cuts)
    return bins.centers(cuts), float(np.maximum(square - total * total / count, 0).sum())


def _best(bins: Bins, k: int, start: Floats | None) -> Places:
    """The cuts of the best k runs."""
    count, total, square = bins.prefix
    if bins.size <= k:
        return np.arange(bins.size + 1)
    if bins.size <= OUTRIGHT:
        cuts = np.empty(k + 1, np.int64)
        _solve(count, total, square, np.empty((2, bins.size + 1)), np.zeros(k * (bins.size + 2), np.int64), cuts)
        return cuts
    sums = _needed(bins, k)
    price = float(sums[-1] ** 3 / (6 * float(k) ** 3))
    if bins.size <= max(FEW, 32 * k):  # so many centres would want a grid as fine as the bins
        return _shortest(count, total, square, k, price)[0]
    grid = _grid(sums, k)
    if start is None or start.size != k:
        cuts, price = _shortest(count[grid], total[grid], square[grid], k, price)
        near = grid[cuts]
    else:
        centers = start.astype(np.float64) - bins.origin
        near = np.concatenate([[0], np.searchsorted(bins.means, (centers[:-1] + centers[1:]) / 2), [bins.size]])
    reach = int(min(NEAR, max(4, 2 * bins.size / grid.size)))
    for _ in range(TURNS):
        allowed = np.zeros(bins.size + 1, np.bool_)
        allowed[grid] = True
        allowed[(near[:, None] + np.arange(-reach, reach + 1)).clip(0, bins.size)] = True
        edges = np.flatnonzero(allowed)
        cuts, price = _shortest(count[edges], total[edges], square[edges], k, price)
        last, near = near, edges[cuts]
        if np.abs(near - last).max() < reach:
            break
    return near


def _plain_solve(count: Any, total: Any, square: Any, best: Any, last: Any, cuts: Any) -> None:
    found = [0] * len(cuts)
    _solve.function(count.tolist(), total.tolist(), square.tolist(), best.tolist(), last.tolist(), found)
    cuts[:] = found


@kernel(plain=_plain_solve)
def _solve(count: Any, total: Any, square: Any, best: Any, last: Any, cuts: Any) -> None:
    """The cuts of the best runs, one run fewer than there are cuts.

    `best[i]` is the least error of so many runs up to edge i, `last` for each number of runs the edge before i. That
    edge lies between the one for a run fewer and the one for an edge more.
    """
    end, runs = len(count) - 1, len(cuts) - 1
    now, then = best[0], best[1]
    width = end + 2
    for i in range(1, end + 1):
        s = total[i] - total[0]
        now[i] = square[i] - square[0] - s * s / (count[i] - count[0])
    for run in range(1, runs):
        row = run * width
        last[row + end + 1] = end - 1
        for i in range(end, run, -1):
            low = max(last[row - width + i], run)
            high = max(min(last[row + i + 1], i - 1), low)
            least, at = np.inf, low
            for middle in range(low, high + 1):
                s = total[i] - total[middle]
                error = now[middle] + (square[i] - square[middle] - s * s / (count[i] - count[middle]))
                if error < least:
                    least, at = error, middle
            then[i] = least
            last[row + i] = at
        now, then = then, now
    cuts[0], cuts[runs] = 0, end
    for run in range(runs - 1, 0, -1):
        cuts[run] = last[run * width + cuts[run + 1]]


def _needed(bins: Bins, k: int) -> Doubles:
    """How many centres are needed up to each edge, but for a factor; the price of a run follows from their cube."""
    width = np.gradient(bins.means)
    mass = np.cbrt(bins.counts * width * width)
    runs = max(COARSE, 8 * k)
    for _ in range(16):  # a far outlier would have all of it; it gets one run of the grid
        cap = 2 * mass.sum() / runs
        if mass.max() <= 1.01 * cap:
            break
        mass = np.minimum(mass, cap)
    return np.concatenate([[0.0], np.cumsum(mass)])


def _grid(sums: Doubles, k: int) -> Places:
    """Edges between which lies an equal share of what centres are needed for."""
    size = sums.size - 1
    grid = np.searchsorted(sums, np.linspace(0, sums[-1], max(COARSE, 8 * k) + 1)).clip(0, size)
    grid[0], grid[-1] = 0, size
    return np.unique(grid)


def _shortest(count: Doubles, total: Doubles, square: Doubles, k: int, price: float) -> tuple[Places, float]:
    """The cuts of the best k runs, by the price that gives as many; and that price."""
    size = count.size - 1
    if size <= k:
        return np.arange(size + 1), price
    few: tuple[float, Places] | None = None  # a price that is too high, and its cuts
    many: tuple[float, Places] | None = None
    price = max(price, 1e-290)
    best, last = np.empty(size + 1), np.empty(size + 1, np.int64)
    queue, begin = np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    for turn in range(200):
        _sweep(count, total, square, price, best, last, queue, begin)
        way = np.empty(size + 1, np.int64)
        cuts = way[_back(last, way) :]
        runs = cuts.size - 1
        if runs == k:
            return cuts, price
        if runs < k:
            few = price, cuts
        else:
            many = price, cuts
        if few is None or many is None:
            price *= (runs / k) ** 3 * (1.02 if few is None else 0.98) ** (turn + 1)
            if not 1e-300 < price < 1e300:
                break
            continue
        high, low = np.log(few[0]), np.log(many[0])
        if high - low < 1e-13:
            break
        share = np.log(k / (few[1].size - 1)) / np.log((many[1].size - 1) / (few[1].size - 1))
        share = min(max(share, 0.1), 0.9) if turn % 4 else 0.5
        price = float(np.exp(high + share * (low - high)))
    if few is not None and many is not None:
        return _spliced(few[1], many[1], k), price
    return (few or many or (price, cuts))[1][: k + 1], price


def _spliced(few: Places, many: Places, k: int) -> Places:
    """Of two best partitions at one price, with fewer and with more runs than k, one with k.

    The beginning of one and the end of the other, joined where a run of `few` holds a run of `many`.
    """
    ahead = many.size - 1 - k
    i = np.arange(few.size - 1)
    j = i + ahead
    i, j = i[j + 1 < many.size], j[j + 1 < many.size]
    inside = np.flatnonzero((few[i] <= many[j]) & (many[j + 1] <= few[i + 1]))
    at = int(inside[0]) if inside.size else 0
    return np.concatenate([few[: at + 1], many[at + ahead + 1 :]])


def _plain_back(last: Any, cuts: Any) -> int:
    found = [0] * len(cuts)
    first: int = _back.function(last.tolist(), found)
    cuts[:] = found
    return first


@kernel(plain=_plain_back)
def _back(last: Any, cuts: Any) -> int:
    """The edges on the way to the last one, at the end of `cuts`; where there they begin."""
    at = edge = len(last) - 1
    cuts[at] = edge
    while edge:
        edge = last[edge]
        at -= 1
        cuts[at] = edge
    return at


def _plain_sweep(
    count: Any, total: Any, square: Any, price: float, best: Any, last: Any, queue: Any, begin: Any
) -> None:
    del queue, begin
    # the same steps on lists, whose items Python reads much faster than an array's
    found = [0.0] * len(best), [0] * len(best)
    room = [0] * len(best), [0] * len(best)
    _sweep.function(count.tolist(), total.tolist(), square.tolist(), price, *found, *room)
    last[:] = found[1]


@kernel(plain=_plain_sweep)
def _sweep(count: Any, total: Any, square: Any, price: float, best: Any, last: Any, queue: Any, begin: Any) -> None:
    """For each edge the cheapest way to it: its cost in `best`, the edge before it in `last`.

    `queue` holds the edges that are yet the best to come from, in order; `begin` where each becomes so.
    """
    end = len(best) - 1
    best[0] = 0.0
    last[0] = 0
    queue[0] = 0
    begin[0] = 1
    head = tail = 0
    for j in range(1, end + 1):
        while head < tail and begin[head + 1] <= j:
            head += 1
        i = queue[head]
        s = total[j] - total[i]
        best[j] = best[i] + (square[j] - square[i] - s * s / (count[j] - count[i])) + price
        last[j] = i
        if j == end:
            break
        high = end + 1  # from here on j is known to be the better
        while True:
            b = queue[tail]
            at = max(begin[tail], j + 1)
            s, t = total[at] - total[b], total[at] - total[j]
            gain = (best[b] - square[b] - s * s / (count[at] - count[b])) - (
                best[j] - square[j] - t * t / (count[at] - count[j])
            )
            if gain > 0:
                high = at
                if tail == head:
                    queue[tail] = j
                    begin[tail] = at
                    break
                tail -= 1
                continue
            low = at  # here b is still the better
            while high - low > 1:
                middle = (low + high) >> 1
                s, t = total[middle] - total[b], total[middle] - total[j]
                gain = (best[b] - square[b] - s * s / (count[middle] - count[b])) - (
                    best[j] - square[j] - t * t / (count[middle] - count[j])
                )
                if gain > 0:
                    high = middle
                else:
                    low = middle
            if high <= end:
                tail += 1
                queue[tail] = j
                begin[tail] = high
            break
