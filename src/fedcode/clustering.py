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

from fedcode.errors import ArgumentError, NonFiniteError

Centers = npt.NDArray[np.float32]
Labels = npt.NDArray[Any]  # uint8 or uint16

MAX_CENTERS = 4096


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
    """Cluster values into at most `k` centres, or into a codebook whose labels cost `bits` bits each.

    >>> codebook = cluster(np.array([[0.0, 0.1], [5.0, 5.1]], np.float32), 2)
    >>> codebook.centers, codebook.labels
    (array([0.05, 5.05], dtype=float32), array([[0, 0],
           [1, 1]], dtype=uint8))
    """
    if (k is None) == (bits is None):
        raise ArgumentError(f"give either k or bits: got k={k} and bits={bits}.")
    array = _finite(_as_float32(values))
    if bits is not None:
        from fedcode.budget import quantise

        return quantise(array, bits)
    assert k is not None
    if not 2 <= k <= MAX_CENTERS:
        raise ArgumentError(f"k must be from 2 to {MAX_CENTERS}: got {k}.")
    centers = _fit(np.sort(array, axis=None), k, start)
    return Codebook(centers, nearest(array, centers))


def nearest(values: Any, centers: Any) -> Labels:
    """The label of the nearest centre for each value: uint8 up to 256 centres, else uint16.

    >>> nearest(np.array([0.0, 0.5, 0.6]), np.array([0, 1], np.float32))
    array([0, 0, 1], dtype=uint8)
    """
    array, centers = _as_float32(values), _check_centers(centers)
    wide = centers.astype(np.float64)
    labels = np.searchsorted((wide[:-1] + wide[1:]) / 2, array.astype(np.float64))
    return labels.astype(np.uint8 if centers.size <= 256 else np.uint16)


def snap(values: Any, centers: Any) -> Any:
    """Each value replaced by its nearest centre: an array (or tensor) of the dtype and shape of the values.

    >>> snap(np.array([0.2, 0.9]), np.array([0, 1], np.float32))
    array([0., 1.])
    """
    labels = nearest(values, centers)
    found = np.asarray(centers, np.float32)[labels]
    if _is_tensor(values):
        torch = sys.modules["torch"]
        return torch.from_numpy(found).to(dtype=values.dtype, device=values.device)
    return found.astype(np.asarray(values).dtype)


def _is_tensor(values: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def _as_float32(values: Any) -> npt.NDArray[np.float32]:
    if _is_tensor(values):
        values = values.detach().cpu().float().numpy()
    array = np.asarray(values)
    if array.dtype.kind != "f":
        raise ArgumentError(f"the values must be floating-point numbers: got {array.dtype}.")
    if not array.size:
        raise ArgumentError("there are no values: expected at least one.")
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def _finite(array: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    bad = ~np.isfinite(array.reshape(-1))
    if bad.any():
        raise NonFiniteError(
            f"{int(bad.sum())} of {bad.size} values are NaN or infinite, the first at index "
            f"{int(bad.argmax())}. Only finite numbers can be clustered."
        )
    return array


def _check_centers(centers: Any) -> Centers:
    found = _as_float32(centers)
    if found.ndim != 1 or found.size > 1 << 16 or np.any(found[1:] < found[:-1]):
        raise ArgumentError("the centres must be one ascending row of at most 65,536 float32 numbers.")
    return found


def _fit(ordered: npt.NDArray[np.float32], k: int, start: Any | None) -> Centers:
    distinct = np.unique(ordered)
    if distinct.size <= k:
        return distinct
    sums = np.concatenate([[0.0], np.cumsum(ordered, dtype=np.float64)])
    if start is not None:
        centers = np.asarray(start, np.float64)
    else:
        steps = np.linspace(0, 1, 1025)
        width = np.abs(np.diff(ordered.astype(np.float64))) ** (1 / 3)
        mass = np.concatenate([[0.0], np.cumsum(width + width.mean() / 4)])
        edges = np.unique(np.searchsorted(mass, steps * mass[-1]).clip(0, ordered.size))
        edges[0], edges[-1] = 0, ordered.size
        cuts = _programme(edges.astype(np.float64), sums[edges], k)
        bounds = edges[cuts]
        centers = np.diff(sums[bounds]) / np.diff(bounds)
    for _ in range(30):
        middles = (centers[:-1] + centers[1:]) / 2
        bounds = np.unique(np.concatenate([[0], np.searchsorted(ordered, middles), [ordered.size]]))
        moved = np.diff(sums[bounds]) / np.diff(bounds)
        if np.array_equal(moved, centers):
            break
        centers = moved
    return np.unique(centers.astype(np.float32))


def _programme(counts: Any, sums: Any, k: int) -> npt.NDArray[np.int64]:
    """The cut points of the best partition into k intervals, from prefix counts and prefix sums."""
    size = counts.size - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (sums[None, :] - sums[:, None]) ** 2 / (counts[None, :] - counts[:, None])
    gain[np.tril_indices(size + 1)] = -np.inf
    k = min(k, size)
    best, choice = gain[0], []
    for _ in range(k - 1):
        table = best[:, None] + gain
        choice.append(table.argmax(axis=0))
        best = table.max(axis=0)
    cuts = [size]
    for previous in reversed(choice):
        cuts.append(int(previous[cuts[-1]]))
    return np.array([0, *reversed(cuts)], np.int64)
