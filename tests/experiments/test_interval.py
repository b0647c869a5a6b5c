from __future__ import annotations

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from fedcode.experiments.interval import interval


@pytest.mark.parametrize("count", [2, 3, 5, 11])
def test_the_interval_is_students(count: int) -> None:
    numbers = np.random.default_rng(count).normal(3, 2, count)
    found = interval(list(numbers))
    assert found is not None
    low, high = stats.t.interval(0.95, count - 1, loc=numbers.mean(), scale=stats.sem(numbers))
    assert found.half is not None
    assert found.mean - found.half == pytest.approx(low, abs=2e-3)
    assert found.mean + found.half == pytest.approx(high, abs=2e-3)


def test_beyond_the_table_the_interval_is_rather_too_wide() -> None:
    numbers = np.random.default_rng(0).normal(0, 1, 40)
    found = interval(list(numbers))
    assert found is not None
    assert found.half is not None
    exact = stats.t.ppf(0.975, 39) * stats.sem(numbers)
    assert exact < found.half < 1.15 * exact


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert interval([]) is None
