"""A codebook for a budget of bits: an entropy-constrained scalar quantiser.

The thresholds are evenly spaced but for a dead zone around zero (or around the middle, where that is far from
zero), and the centres are the means between them. For the best step and the best dead zone this is within
0.02 dB of the best quantiser there is, whatever weights it was tried on; both are searched in the histogram. How
many bits labels take is found by coding them: where neighbours are alike they take fewer than their entropy.

Reference: Sullivan, Efficient scalar quantization of exponential and Laplacian random variables, 1996.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedcode.errors import ArgumentError
from fedcode.histogram import Bins, Doubles, Places, histogram, ordered
from fedcode.label_blocks import BLOCK, encode_block
from fedcode.packing import MAX_LABELS
from fedcode.row import Row
from fedcode.thresholds import Rule

LEAST, MOST = 0.05, 6.0

CODED = 1 << 16  # so many values are coded to see what they take; of fewer the entropy counts
NEAR = 0.01  # how far from the budget their size may be, as a share
FREE = 4096  # centres; each one beyond counts against the budget with its 32 bits
TURNS = 8
FINEST = 400  # a step finer than the coarsest by e^400 tells all bins apart that differ

# Half the dead zone, in steps: at one half it is one step wide like all others, at 0 there is none.
DEAD = (0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 0.45, 0.4, 0.35, 0.0)


def quantise(row: Row, bits: float) -> Rule:
    """The rule whose labels cost about `bits` bits each: coded, or from their entropy where there are few."""
    if not LEAST <= bits <= MOST:
        raise ArgumentError(f"bits must be from {LEAST} to {MOST:g}: got {bits}.")
    bins = histogram(row, 13)
    found = None if bins is None else _fitted(row, bins, bits)
    if found is None or found.bins.blur > 0.02 * (found.error + found.bins.blur):
        found = _fitted(row, ordered(row), bits)
    return found.rule


def _fitted(row: Row, bins: Bins, bits: float) -> Cells:
    """The cells whose labels cost nearest to `bits`."""
    grid = Grid(bins)
    cells = grid.best(bits)
    if row.size < CODED:
        return cells
    tried: list[tuple[float, float, Cells]] = []  # entropy asked for, bits that it took
    aim = bits
    for _ in range(TURNS):
        tried.append((aim, _coded(row, cells.rule) * 8 / row.size, cells))
        if abs(tried[-1][1] / bits - 1) < NEAR:
            break
        aim = _next(tried, bits)
        cells = grid.best(aim)
        if any(cells.entropy == other.entropy for _, _, other in tried):
            break  # it cannot be met more closely
    return min(tried, key=lambda one: abs(one[1] / bits - 1))[2]


def _next(tried: list[tuple[float, float, Cells]], bits: float) -> float:
    """The entropy to ask for next: by proportion first, then between what took too little and too much."""
    under = max(((took, aim) for aim, took, _ in tried if took <= bits), default=None)
    over = min(((took, aim) for aim, took, _ in tried if took > bits), default=None)
    if under is None or over is None:
        aim, took, _ = tried[-1]
        return aim * bits / took if took else 2 * aim
    share = (bits - under[0]) / (over[0] - under[0])
    return under[1] + min(max(share, 0.05), 0.95) * (over[1] - under[1])


def _coded(row: Row, rule: Rule) -> int:
    """The bytes of the labels, coded in blocks as a model's file has them; and of centres that are not free."""
    k = rule.centers.size
    labels = row.each(lambda block: len(encode_block(rule.labels(Row(block)), k)), BLOCK)
    return labels + 4 * max(0, k - FREE)


@dataclass(frozen=True, eq=False)
class Cells:
    """A way to cut bins into cells: the bins at which each cell begins, and the end."""

    bins: Bins
    cuts: Places

    @cached_property
    def parts(self) -> tuple[Doubles, Doubles, Doubles]:
        """Counts, sums and squares of the values in each cell."""
        return self.bins.between(self.cuts)

    @cached_property
    def entropy(self) -> float:
        """Bits a label, of order 0."""
        share = self.parts[0] / self.parts[0].sum()
        return float(-(share * np.log2(share)).sum())

    @property
    def rate(self) -> float:
        """Bits a label, with what the centres cost that are not free."""
        size = self.cuts.size - 1
        if size > MAX_LABELS:
            return np.inf
        return self.entropy + 32 * max(0, size - FREE) / float(self.parts[0].sum())

    @cached_property
    def error(self) -> float:
        """The squared error between bins."""
        count, total, square = self.parts
        return float(np.maximum(square - total * total / count, 0).sum())

    @property
    def rule(self) -> Rule:
        return Rule(self.bins.centers(self.cuts), self.bins.tops(self.cuts[1:-1] - 1) + np.float32(0))


class Grid:
    """Bins, and the search for the best way to cut them evenly."""

    def __init__(self, bins: Bins) -> None:
        self.bins = bins
        self.distance = np.abs(bins.means)
        self.side = np.where(bins.means < 0, -1, 1)
        self.coarsest = float(np.log(4 * self.distance.max() + 1e-300))  # at this step there is but one cell
        self.whole = Cells(bins, np.arange(bins.size + 1))

    def cells(self, step: float, dead: float) -> Cells:
        """Cells of `step`, and in the middle one of twice `dead` steps."""
        number: npt.NDArray[np.float64] = np.floor(np.maximum(self.distance / step - (dead - 1), 0)) * self.side
        if not dead:
            number += self.side < 0  # there is no cell in the middle
        cuts = np.flatnonzero(number[1:] != number[:-1]) + 1
        return Cells(self.bins, np.concatenate([[0], cuts, [self.bins.size]]))

    def best(self, bits: float) -> Cells:
        """Of all cells that cost at most `bits`, and nearly so much, those with the least error."""
        if self.whole.rate <= bits:
            return self.whole
        best, least = Cells(self.bins, np.array([0, self.bins.size])), np.inf
        at = self.coarsest
        for dead in DEAD:
            found = self._of_entropy(bits, dead, at)
            if found is not None:
                at, cells = found
                # what is left of the budget counts as what it would have bought
                worth = cells.error * 4.0 ** (cells.rate - bits)
                if worth < least:
                    best, least = cells, worth
        return best

    def _of_entropy(self, bits: float, dead: float, at: float) -> tuple[float, Cells] | None:
        """The logarithm of a step at which the rate is just below `bits`, and its cells; sought from `at`."""
        low = high = None  # steps too fine and coarse enough, each with its cells
        for turn in range(64):
            cells = self.cells(float(np.exp(at)), dead)
            over = cells.rate - bits
            if over > 0:
                low = at, over
            else:
                high = at, over, cells
            if high is not None and (high[1] > -2e-4 * bits or (low is not None and high[0] - low[0] < 1e-5)):
                break
            if low is None:
                if at < self.coarsest - FINEST:
                    break
                at -= 0.02 * 2**turn if over > -0.1 else 0.4 * 2**turn
            elif high is None:
                if at > self.coarsest:
                    break
                at = min(at + 0.02 * 2**turn, self.coarsest + 1)
            elif turn % 3 == 0 or not np.isfinite(low[1]):
                at = (low[0] + high[0]) / 2
            else:
                share = (low[1] + 1e-4 * bits) / (low[1] - high[1])
                at = low[0] + min(max(share, 0.02), 0.98) * (high[0] - low[0])
        return None if high is None else (high[0], high[2])
