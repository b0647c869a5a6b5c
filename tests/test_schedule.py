"""Full rounds against a plain loop over the rule as it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcode.errors import ArgumentError
from fedcode.schedule import full, full_rounds, period

frequencies = st.one_of(
    st.sampled_from([0.0, 0.01, 0.1, 0.2, 0.25, 0.33, 0.4, 0.5, 0.67, 0.8, 1.0]),
    st.floats(min_value=0, max_value=1),
)


def by_the_rule(round_: int, frequency: float, start: int) -> bool:
    if round_ <= start:
        return True
    return frequency > 1e-9 and round_ % round(1 / frequency) == 0


@given(st.integers(1, 3000), frequencies, st.integers(0, 50))
def test_a_round_is_full_by_the_rule(round_: int, frequency: float, start: int) -> None:
    assert full(round_, frequency, start) == by_the_rule(round_, frequency, start)


@given(st.integers(0, 400), frequencies, st.integers(0, 50))
def test_full_rounds_are_counted(rounds: int, frequency: float, start: int) -> None:
    counted = sum(by_the_rule(i, frequency, start) for i in range(1, rounds + 1))
    assert full_rounds(rounds, frequency, start) == counted


def test_always_and_never() -> None:
    assert all(full(i, 1.0, 0) for i in range(1, 50))
    assert not any(full(i, 0.0, 0) for i in range(1, 50))
    assert [i for i in range(1, 50) if full(i, 0.0, 3)] == [1, 2, 3]


def test_a_period_is_the_nearest_whole_number() -> None:
    assert [period(f) for f in (1, 0.8, 0.5, 0.33, 0.3, 0.1, 0.01)] == [1, 1, 2, 3, 3, 10, 100]
    assert period(5e-324) is None  # 1 / F overflows


@pytest.mark.parametrize("frequency", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_frequency_is_a_share(frequency: float) -> None:
    with pytest.raises(ArgumentError, match="share of the rounds"):
        full(1, frequency, 0)


def test_rounds_count_from_one() -> None:
    with pytest.raises(ArgumentError, match="from 1"):
        full(0, 0.5, 2)
    with pytest.raises(ArgumentError, match="counts"):
        full_rounds(10, 0.5, -1)
