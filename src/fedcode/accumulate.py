"""Replies into running sums: float64, in place, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.kernels import kernel

# A vector up to so long is added as quickly without numba, whose import takes longer than a small model's run.
SMALL = 1 << 16

Sum = npt.NDArray[np.float64]
Values = npt.NDArray[Any]


def _add_plain(total: Sum, values: Values, weight: float) -> None:
    total += weight * values.astype(np.float64)


@kernel(plain=_add_plain)
def _add(total: Sum, values: Values, weight: float) -> None:
    for i in range(total.size):
        total[i] += weight * np.float64(values[i])


def _add_labels_plain(total: Sum, centers: Values, labels: Values) -> None:
    total += centers[labels]


@kernel(plain=_add_labels_plain)
def _add_labels(total: Sum, centers: Values, labels: Values) -> None:
    for i in range(total.size):
        total[i] += centers[labels[i]]


def add(total: Sum, values: Values, weight: float) -> None:
    """total += weight * values, each product in float64.

    >>> total = np.zeros(2)
    >>> add(total, np.ones(2, np.float32), 3)
    >>> total
    array([3., 3.])
    """
    (_add if total.size > SMALL else _add_plain)(total, values, float(weight))


def add_labels(total: Sum, centers: Values, labels: Values, weight: float) -> None:
    """total += weight * centers[labels], without making the decoded values.

    >>> total = np.zeros(2)
    >>> add_labels(total, np.array([1, 2], np.float32), np.array([1, 1], np.uint8), 0.5)
    >>> total
    array([1., 1.])
    """
    _add_labels(total, weight * centers.astype(np.float64), labels)
