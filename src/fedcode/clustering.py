"""One-dimensional clustering: numbers to a codebook and labels; each number's nearest centre.

The nearest centre is defined exactly, so that both ends of a link agree on it on any machine. Values are
taken as float32. Between neighbouring float32 centres stands the threshold (c[i] + c[i+1]) / 2, computed in
IEEE double precision. A value's label is the number of thresholds strictly below it: a tie goes to the
lower centre, and of equal centres the first is taken.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.errors import ArgumentError
from fedcode.histogram import MOST_BINS, histogram, ordered
from fedcode.packing import MAX_LABELS
from fedcode.programme import partition
from fedcode.row import Row, is_tensor, row_of
from fedcode.thresholds import Rule, look_up

Centers = npt.NDArray[np.float32]
Labels = npt.NDArray[Any]  # uint8 or uint16

MAX_CENTERS = 4096
BLUR = 0.005  # the share of the error that may lie within bins, which adds up to a fifth of that to it


@dataclass(frozen=True, eq=False)
class Codebook:
    """Centres and, for every value, which of them stands for it.

    centers: float32, ascending. labels: uint8 up to 256 centres, else uint16; in the shape of the values.

    >>> Codebook(np.array([-1, 2], np.float32), np.array([[0, 1]], np.uint8)).decode()
    array([[-1.,  2.]], dtype=float32)
    """

    centers: Centers
    labels: Labels

    @property
    def k(self) -> int:
        """K: how many centres there are."""
        return self.centers.size

    def decode(self) -> npt.NDArray[np.float32]:
        """Each label replaced by its centre."""
        return self.centers[self.labels]


def cluster(values: Any, k: int | None = None, *, bits: float | None = None, start: Any | None = None) -> Codebook:
    """Cluster values into at most `k` centres, or into a codebook whose labels cost about `bits` bits each.

    values: a numpy array or torch tensor of floating-point numbers, taken as float32. start: earlier centres
    of much the same values, which make it faster. With `k` every label is that of the nearest centre; with
    `bits` it need not be: see `fedcode.budget`.

    >>> codebook = cluster(np.array([[0.0, 0.1], [5.0, 5.1]], np.float32), 2)
    >>> codebook.centers, codebook.labels
    (array([0.05, 5.05], dtype=float32), array([[0, 0],
           [1, 1]], dtype=uint8))
    """
    row = row_of(values)
    rule = fit(row, k, bits=bits, start=start)
    return Codebook(rule.centers, rule.labels(row))


def fit(row: Row, k: int | None = None, *, bits: float | None = None, start: Any | None = None) -> Rule:
    """The rule by which `cluster` labels these values, for whoever labels them a block at a time."""
    if (k is None) == (bits is None):
        raise ArgumentError(f"give either k or bits: got k={k} and bits={bits}.")
    if bits is not None:
        from fedcode.budget import quantise

        return quantise(row, bits)
    if not isinstance(k, int | np.integer) or not 2 <= k <= MAX_CENTERS:
        raise ArgumentError(f"k must be a whole number from 2 to {MAX_CENTERS}: got {k!r}.")
    return Rule.nearest(_centers(row, int(k), None if start is None else _check_centers(start)))


def nearest(values: Any, centers: Any) -> Labels:
    """The label of the nearest centre for each value: uint8 up to 256 centres, else uint16.

    >>> nearest(np.array([0.0, 0.5, 0.6]), np.array([0, 1], np.float32))
    array([0, 0, 1], dtype=uint8)
    """
    row, checked = row_of(values), _check_centers(centers)
    return Rule.nearest(checked).labels(row)


def snap(values: Any, centers: Any) -> Any:
    """Each value replaced by its nearest centre: an array (or tensor) of the dtype and shape of the values.

    >>> snap(np.array([0.2, 0.9]), np.array([0, 1], np.float32))
    array([0., 1.])
    """
    row, checked = row_of(values), _check_centers(centers)
    thresholds = Rule.nearest(checked).thresholds
    if not is_tensor(values):
        array = np.asarray(values)
        with np.errstate(over="ignore"):
            table = checked.astype(array.dtype)
        if array.itemsize == 2:  # numba knows no halves: their bits are carried
            found: Any = look_up(row, thresholds, table.view(np.uint16)).view(array.dtype)
            return found
        return look_up(row, thresholds, checked).astype(array.dtype, copy=False)
    torch = sys.modules["torch"]
    if values.dtype in (torch.float16, torch.bfloat16):
        halves = torch.from_numpy(checked).to(values.dtype).view(torch.uint16).numpy()
        found = torch.from_numpy(look_up(row, thresholds, halves)).view(values.dtype)
    else:
        found = torch.from_numpy(look_up(row, thresholds, checked)).to(values.dtype)
    return found.to(values.device)


def _check_centers(centers: Any) -> Centers:
    row = row_of(centers)
    found = row.read(0, row.size).copy()
    if len(row.shape) != 1 or found.size > MAX_LABELS or np.any(found[1:] < found[:-1]):
        raise ArgumentError(f"the centres must be one ascending row of at most {MAX_LABELS:,} float32 numbers.")
    row.extremes()
    return found


def _centers(row: Row, k: int, start: Centers | None) -> Centers:
    """The centres: from a histogram if it is fine enough for so many centres, else from the sorted values."""
    bins = histogram(row, 13 - max(0, (k - 1).bit_length() - 6), max(MOST_BINS, 64 * k))
    if bins is not None and bins.size > 2 * k:
        centers, error = partition(bins, k, start)
        if bins.blur <= BLUR * (error + bins.blur):
            return np.unique(centers)
    return np.unique(partition(ordered(row), k, start)[0])
