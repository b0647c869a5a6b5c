"""A codebook for a budget of bits: an entropy-constrained scalar quantiser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedcode.errors import ArgumentError

if TYPE_CHECKING:
    from fedcode.clustering import Codebook
    from fedcode.row import Row


def quantise(row: Row, bits: float) -> Codebook:
    """The codebook whose labels have an order-0 entropy of `bits` bits or a little less."""
    from fedcode.clustering import Codebook

    if not 0.05 <= bits <= 6:
        raise ArgumentError(f"bits must be from 0.05 to 6: got {bits}.")
    row.extremes()
    array = row.read(0, row.size).reshape(row.shape)
    ordered = np.sort(array, axis=None).astype(np.float64)
    low, high = np.log(ordered.std() / 1e4 + 1e-300), np.log(np.ptp(ordered) * 4 + 1e-300)
    for _ in range(40):
        middle = (low + high) / 2
        counts = np.diff(np.searchsorted(ordered, _edges(ordered, float(np.exp(middle)))))
        share = counts[counts > 0] / ordered.size
        entropy = -(share * np.log2(share)).sum()
        low, high = (low, middle) if entropy <= bits else (middle, high)
    edges = _edges(ordered, float(np.exp(high)))
    place = np.searchsorted(edges, array.reshape(-1)) - 1
    used, labels = np.unique(place, return_inverse=True)
    counts = np.bincount(labels)
    centers = (np.bincount(labels, array.reshape(-1)) / counts).astype(np.float32)
    dtype = np.uint8 if used.size <= 256 else np.uint16
    return Codebook(centers, labels.astype(dtype).reshape(array.shape))


def _edges(ordered: npt.NDArray[np.float64], step: float) -> npt.NDArray[np.float64]:
    reach = float(max(-ordered[0], ordered[-1]))
    positive = 0.6 * step + step * np.arange(min(2000, int(reach / step) + 1))
    return np.concatenate([[-np.inf], -positive[::-1], positive, [np.inf]])
