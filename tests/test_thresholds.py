"""The key that sorts values into cells, and labels by thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedcode.row import row_of
from fedcode.thresholds import FEW, Rule, Scale, below

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
MODEST = st.floats(-1e30, 1e30)


@settings(max_examples=200, deadline=None)
@given(MODEST, st.floats(1e-30, 1e30), st.integers(8, 20), st.lists(FLOATS, min_size=2, max_size=40))
@example(0.0, 1.0, 13, [-0.0, 0.0])
@example(1000.0, 1e-3, 8, [999.9999, 1000.0, 1000.0001])
def test_keys_never_fall_as_values_rise(origin: float, knee: float, shift: int, values: list[float]) -> None:
    scale = Scale.around(origin, knee, shift)
    row = np.sort(np.array(values, np.float32))
    with np.errstate(over="ignore"):
        keys, rest = scale.keys(row)
    assert (np.diff(keys.astype(np.int64)) >= 0).all()
    assert ((rest >= 0) & (rest < 1 << shift)).all()
    equal = row[1:] == row[:-1]
    assert (keys[1:][equal] == keys[:-1][equal]).all()


@settings(max_examples=50, deadline=None)
@given(MODEST, st.floats(1e-20, 1e20), st.integers(8, 20), FLOATS)
def test_the_top_of_a_key_is_the_greatest_value_that_has_it(
    origin: float, knee: float, shift: int, value: float
) -> None:
    scale = Scale.around(origin, knee, shift)
    with np.errstate(over="ignore"):
        key = scale.keys(np.array([value], np.float32))[0].astype(np.int64)
        top = scale.tops(key)
        above = np.nextafter(top, np.float32(np.inf))
        assert top >= np.float32(value)
        assert scale.keys(top)[0] == key
        assert np.isinf(above[0]) or scale.keys(above)[0] > key


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-3e38, 3e38), min_size=1, max_size=20))
@example([0.1, 1e-50, -1e-50, 1 + 2**-30, -1 - 2**-30])
def test_below_is_the_greatest_float32_that_is_not_above(middles: list[float]) -> None:
    wide = np.array(middles)
    found = below(wide)
    assert (found.astype(np.float64) <= wide).all()
    assert (np.nextafter(found, np.float32(np.inf)).astype(np.float64) > wide).all()
    assert not np.signbit(found[found == 0]).any()


@pytest.mark.parametrize("numba", ["0", "1"])
@pytest.mark.parametrize("count", [0, 1, 2, 63, 255, 256, 4095, 40_000])
@pytest.mark.parametrize("spread", ["even", "clustered", "equal", "denormal"])
def test_labels_count_the_thresholds_below(
    spread: str, count: int, numba: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDCODE_NUMBA", numba)
    rng = np.random.default_rng(count)
    thresholds = {
        "even": np.linspace(-1, 1, count),
        "clustered": np.concatenate(
            [1 + 1e-6 * rng.standard_normal(count // 2), rng.standard_cauchy(count - count // 2)]
        ),
        "equal": rng.choice([-1.0, 0.0, 0.5], count),
        "denormal": 1e-44 * rng.integers(-20, 20, count),
    }[spread]
    ascending = np.sort(thresholds.astype(np.float32)) + np.float32(0)
    values = np.concatenate([ascending, -ascending, rng.standard_normal(FEW + 1).astype(np.float32), [0.0, -0.0, 3e38]])
    values = values.astype(np.float32)
    rule = Rule(np.zeros(count + 1, np.float32), ascending)
    labels = rule.labels(row_of(values))
    assert np.array_equal(labels, np.searchsorted(ascending, values))
    assert labels.dtype == (np.uint8 if count < 256 else np.uint16)
    for few in (values[:1], values[-FEW:], values[-FEW - 1 :]):
        assert np.array_equal(rule.labels(row_of(few)), np.searchsorted(ascending, few))
