"""Bins: nothing is lost, the order is kept, and neither threads nor flushes nor numba change them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fedcode import histogram as module
from fedcode.histogram import Bins, histogram, ordered
from fedcode.row import row_of

RNG = np.random.default_rng(11)
SIZE = 700_000
ROWS: dict[str, npt.NDArray[Any]] = {
    "gaussian": RNG.standard_normal(SIZE).astype(np.float32),
    "heavy tails": RNG.standard_cauchy(SIZE).astype(np.float32),
    "offset": (1000 + RNG.standard_normal(SIZE)).astype(np.float32),
    "both zeros": np.where(RNG.random(SIZE) < 0.5, RNG.choice([0.0, -0.0], SIZE), RNG.standard_normal(SIZE)).astype(
        "f4"
    ),
    "half": RNG.standard_normal(SIZE).astype(np.float16),
}


def same(found: Bins | None, expected: Bins | None) -> bool:
    assert found is not None
    assert expected is not None
    return np.array_equal(found.counts, expected.counts) and np.array_equal(found.sums, expected.sums)


@pytest.mark.parametrize("make", [lambda row: histogram(row, 13), ordered], ids=["counted", "sorted"])
@pytest.mark.parametrize("name", ROWS)
def test_bins_hold_all_values_in_order(name: str, make: Any) -> None:
    values = ROWS[name].astype(np.float64)
    bins = make(row_of(ROWS[name]))
    assert bins.counts.sum() == SIZE
    rounded = 1e-7 * np.abs(values - bins.origin).sum()  # by the keys, in float32
    assert bins.sums.sum() == pytest.approx((values - bins.origin).sum(), abs=rounded)
    assert (np.diff(bins.means) > 0).all()
    tops = bins.tops(np.arange(bins.size)).astype(np.float64)
    assert (np.diff(tops) > 0).all()
    # a bin's values are those above the bin below and not above its own top
    assert np.array_equal(np.diff(np.searchsorted(np.sort(values), tops, side="right"), prepend=0), bins.counts)
    assert (bins.means + bins.origin <= tops * (1 + 1e-12 * np.sign(tops))).all()


@pytest.mark.parametrize("name", ROWS)
def test_the_blur_is_about_the_error_within_bins(name: str) -> None:
    bins = histogram(row_of(ROWS[name]), 16)
    assert bins is not None
    values = np.sort(ROWS[name].astype(np.float64))
    place = np.searchsorted(bins.tops(np.arange(bins.size)).astype(np.float64), values)
    within = np.square(values - bins.origin - bins.means[place]).sum()
    assert within / 1.5 <= bins.blur <= within * 1.5


@pytest.mark.parametrize("name", ROWS)
def test_threads_flushes_and_numba_make_no_difference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = row_of(ROWS[name])
    monkeypatch.setenv("FEDCODE_THREADS", "1")
    expected = histogram(row, 16)
    monkeypatch.setenv("FEDCODE_THREADS", "3")
    assert same(histogram(row, 16), expected)
    monkeypatch.setattr(module, "FLUSH", 1 << 18)
    assert same(histogram(row, 16), expected)
    monkeypatch.setenv("FEDCODE_NUMBA", "0")
    assert same(histogram(row, 16), expected)


def test_a_bin_may_hold_more_than_a_tally_can_count() -> None:
    row = row_of(np.zeros((1 << 24) + (1 << 18) + 5000, np.float16))
    row.array[:5000] = RNG.standard_normal(5000)
    bins = histogram(row, 13)
    assert bins is not None
    assert bins.counts.max() == row.size - 5000
    assert bins.counts.sum() == row.size


@pytest.mark.parametrize("scale", [1e-40, 1e-33, 1e33])
def test_what_float32_cannot_measure_is_sorted(scale: float) -> None:
    assert histogram(row_of((ROWS["gaussian"] * np.float64(scale)).astype(np.float32)), 13) is None


def test_few_values_and_few_distinct_ones_are_sorted_exactly() -> None:
    assert histogram(row_of(ROWS["gaussian"][: module.FEW]), 13) is None
    values = RNG.choice(np.array([-1e30, -1, 0, 2, 3], np.float32), 100_000)
    bins = ordered(row_of(values))
    assert (bins.size, bins.blur) == (5, 0)
    assert np.array_equal(bins.counts, np.unique(values, return_counts=True)[1])


def test_sorted_values_are_never_cut_between_equal_ones() -> None:
    values = np.concatenate([np.zeros(600_000), np.full(200_000, 0.5), RNG.standard_normal(200_000)]).astype(np.float32)
    bins = ordered(row_of(values))
    assert bins.blur > 0  # these are too many for a bin each
    tops = bins.tops(np.arange(bins.size))
    assert (np.diff(tops) > 0).all()
    assert bins.counts.max() >= 600_000
