"""The three ways to cut bins: outright, by a price over all edges, and by a grid and the edges near its cuts."""

from __future__ import annotations

import numpy as np
import pytest

from fedcode import programme
from fedcode.histogram import Bins, ordered
from fedcode.programme import partition
from fedcode.row import row_of

RNG = np.random.default_rng(4)


def bins_of(size: int, kind: str) -> Bins:
    means = {
        "gaussian": np.sort(RNG.standard_normal(size)),
        "even": np.arange(size) / size,
        "clumps": np.sort(RNG.choice([-1.0, 0.0, 5.0], size) + 1e-2 * RNG.standard_normal(size)),
    }[kind]
    counts = RNG.integers(1, 50, size).astype(np.float64)
    return Bins(0.0, counts, means * counts, 0.0, lambda at: means[at].astype(np.float32))


@pytest.mark.parametrize("kind", ["gaussian", "even", "clumps"])
@pytest.mark.parametrize(("size", "k"), [(3, 2), (50, 2), (50, 49), (200, 17), (256, 128), (256, 255)])
def test_outright_and_by_a_price_are_equally_good(
    kind: str, size: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bins = bins_of(size, kind)
    centers, error = partition(bins, k)
    assert centers.size == k
    monkeypatch.setattr(programme, "OUTRIGHT", 0)
    others, priced = partition(bins, k)
    assert others.size == k
    assert priced == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("numba", ["0", "1"])
def test_with_and_without_numba(numba: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bins = [bins_of(size, "gaussian") for size in (200, 3000, 6000)]
    expected = [partition(one, 40) for one in bins]
    monkeypatch.setenv("FEDCODE_NUMBA", numba)
    for one, (centers, error) in zip(bins, expected, strict=True):
        found, least = partition(one, 40)
        assert found == pytest.approx(centers)
        assert least == pytest.approx(error)


@pytest.mark.parametrize("kind", ["gaussian", "even", "clumps"])
@pytest.mark.parametrize("k", [5, 64, 300])
def test_a_grid_loses_next_to_nothing(kind: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bins = bins_of(20_000, kind)
    centers, error = partition(bins, k)
    assert centers.size == k
    drifted = np.sort(centers * RNG.normal(1, 0.05, k).astype(np.float32))
    from_earlier = partition(bins, k, drifted)[1]
    monkeypatch.setattr(programme, "FEW", bins.size)
    least = partition(bins, k)[1]
    assert least <= error * (1 + 1e-6)
    assert max(error, from_earlier) <= 1.0005 * least


def test_no_more_bins_than_runs() -> None:
    centers, error = partition(ordered(row_of(np.array([3.0, 1.0, 1.0]))), 4)
    assert (centers.tolist(), error) == ([1.0, 3.0], 0.0)
