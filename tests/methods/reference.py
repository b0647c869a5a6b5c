"""Steps that several papers share, in plain numpy and as slow as they are plain."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.methods.rounds import COUNTER, EXAMPLES, STATISTICS, TRAINED, Arrays, Floats, row

Ints = npt.NDArray[np.int64]


def kmeans(values: npt.NDArray[Any], k: int) -> tuple[Floats, Ints]:
    """The best k centres of numbers on a line, ascending and as float32 holds them, and each number's nearest.

    An optimal cluster is a run of neighbours: the best first j runs end where the best first j - 1 begin.
    """
    centers = _centers(np.sort(np.asarray(values, np.float64)).tobytes(), k)
    return centers, nearest(values, centers)


@functools.lru_cache
def _centers(data: bytes, k: int) -> Floats:
    sorted_values = np.frombuffer(data)
    n = sorted_values.size
    k = min(k, np.unique(sorted_values).size)
    sums = np.concatenate([[0.0], np.cumsum(sorted_values)])
    squares = np.concatenate([[0.0], np.cumsum(sorted_values**2)])

    def cost(first: Any, last: Any) -> Any:
        return squares[last] - squares[first] - (sums[last] - sums[first]) ** 2 / (last - first)

    best = np.concatenate([[0.0], cost(0, np.arange(1, n + 1))])
    before = np.zeros((k + 1, n + 1), np.int64)
    for runs in range(2, k + 1):
        now = np.full(n + 1, np.inf)
        for last in range(runs, n + 1):
            first = np.arange(runs - 1, last)
            total = best[first] + cost(first, last)
            before[runs, last] = first[total.argmin()]
            now[last] = total.min()
        best = now
    edges = [n]
    for runs in range(k, 0, -1):
        edges.append(int(before[runs, edges[-1]]))
    edges.reverse()
    means = [sorted_values[a:b].mean() for a, b in itertools.pairwise(edges)]
    return np.unique(np.array(means).astype(np.float32)).astype(np.float64)


def nearest(values: npt.NDArray[Any], centers: npt.NDArray[Any]) -> Ints:
    """Which centre is nearest to each value; the lower of two."""
    distance = np.abs(np.asarray(values, np.float64)[:, None] - np.asarray(centers, np.float64)[None, :])
    found: Ints = distance.argmin(axis=1)
    return found


def largest(values: npt.NDArray[Any], count: int) -> Ints:
    """Where the `count` values of greatest magnitude stand, ascending."""
    return np.sort(np.argsort(-np.abs(values), kind="stable")[:count])


def weighted_mean(models: Mapping[str, Mapping[str, npt.NDArray[Any]]], names: Sequence[str]) -> Arrays:
    """sum_k (n_k / n) of the entries of these names."""
    n = sum(EXAMPLES[client] for client in models)
    return {
        name: sum(EXAMPLES[client] / n * model[name].astype(np.float64) for client, model in models.items())  # type: ignore[misc]
        for name in names
    }


def mean_row(rows: Mapping[str, npt.NDArray[Any]]) -> Floats:
    """sum_k (n_k / n) of rows."""
    n = sum(EXAMPLES[client] for client in rows)
    total: Floats = np.zeros(next(iter(rows.values())).size)
    for client, values in rows.items():
        total += EXAMPLES[client] / n * values
    return total


def most_steps(models: Mapping[str, Mapping[str, npt.NDArray[Any]]]) -> Any:
    """The counter after a round: the greatest of the clients'."""
    return max(model[COUNTER] for model in models.values())


def rest_of(models: Mapping[str, Mapping[str, npt.NDArray[Any]]]) -> Arrays:
    """Statistics and counter after a round: averaged, and the greatest."""
    return weighted_mean(models, STATISTICS) | {COUNTER: most_steps(models)}


def weights_of(state: Mapping[str, npt.NDArray[Any]]) -> Floats:
    return row(state, TRAINED)
