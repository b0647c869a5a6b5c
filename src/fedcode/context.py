"""Labels as differences from the labels that both ends expect, modulo k, and back.

A label as expected is 0, one below 1, one above 2, two below 3, and so on: a zigzag, whose small numbers are
the likely ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcode.kernels import in_chunks, kernel
from fedcode.packing import Labels

_LEAST = 1 << 21


def difference(labels: Labels, expected: Labels, k: int) -> Labels:
    """How far each label is from what was expected.

    >>> row = np.arange(5, dtype=np.uint8)
    >>> difference(row, np.full(5, 2, np.uint8), 5)
    array([3, 1, 0, 2, 4], dtype=uint8)
    """
    out = np.empty_like(labels)
    in_chunks(lambda a, b: _difference(labels[a:b], expected[a:b], k, out[a:b]), labels.size, _LEAST)
    return out


def follow(differences: Labels, expected: Labels, k: int) -> Labels:
    """The labels again.

    >>> follow(np.array([3, 1, 0, 2, 4], np.uint8), np.full(5, 2, np.uint8), 5)
    array([0, 1, 2, 3, 4], dtype=uint8)
    """
    out = np.empty_like(differences)
    in_chunks(lambda a, b: _follow(differences[a:b], expected[a:b], k, out[a:b]), differences.size, _LEAST)
    return out


def _difference_plainly(labels: Any, expected: Any, k: int, out: Any) -> None:
    steps = (labels.astype(np.int32) - expected) % k
    out[:] = np.where(steps <= (k - 1) // 2, 2 * steps, 2 * (k - steps) - 1)


@kernel(plain=_difference_plainly)
def _difference(labels: Any, expected: Any, k: int, out: Any) -> None:
    half = (k - 1) // 2
    for i in range(labels.size):
        step = np.int32(labels[i]) - np.int32(expected[i])
        if step < 0:
            step += k
        out[i] = 2 * step if step <= half else 2 * (k - step) - 1


def _follow_plainly(differences: Any, expected: Any, k: int, out: Any) -> None:
    wide = differences.astype(np.int32)
    out[:] = (expected + np.where(wide % 2 == 0, wide // 2, k - (wide + 1) // 2)) % k


@kernel(plain=_follow_plainly)
def _follow(differences: Any, expected: Any, k: int, out: Any) -> None:
    for i in range(differences.size):
        wide = np.int32(differences[i])
        half = (wide + 1) >> 1
        label = np.int32(expected[i]) + (k - half if wide & 1 else half)
        out[i] = label - k if label >= k else label
