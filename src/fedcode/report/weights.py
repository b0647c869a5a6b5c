"""How the weights of a model are spread: a histogram that thousands or millions of them fit into."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcode import safetensors_file
from fedcode.errors import DataError
from fedcode.layout import Kind
from fedcode.state import kind_of

BINS = 120


@dataclass(frozen=True)
class Histogram:
    """Counts of weights in bins of one width from `low` to `high`."""

    low: float
    high: float
    counts: tuple[int, ...]

    @property
    def middles(self) -> list[float]:
        """The middle of each bin.

        >>> Histogram(0.0, 2.0, (3, 4)).middles
        [0.5, 1.5]
        """
        width = (self.high - self.low) / len(self.counts)
        return [self.low + (n + 0.5) * width for n in range(len(self.counts))]


def histogram(path: Path) -> Histogram:
    """Of all that is trained in a model's file, which is what methods cluster: statistics and counters are not."""
    found = safetensors_file.read(path).tensors
    tensors = [tensor for tensor in found if kind_of(tensor.name, tensor.dtype) == Kind.WEIGHT]
    low, high = np.inf, -np.inf
    for tensor in tensors:
        for piece in tensor.pieces():
            low, high = min(low, float(piece.min())), max(high, float(piece.max()))
    if not (np.isfinite(low) and np.isfinite(high)):
        raise DataError(f"{path} holds no weights to show, or some that are not finite.")
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = np.zeros(BINS, np.int64)
    for tensor in tensors:
        for piece in tensor.pieces():
            counts += np.histogram(piece, BINS, (low, high))[0]
    return Histogram(low, high, tuple(counts.tolist()))
