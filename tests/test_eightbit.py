"""Small tensors at a few bits a value: how near they come back, and that variances stay positive."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedcode.eightbit import decode_tensors, encode_tensors
from fedcode.errors import MessageError
from fedcode.layout import Entry, Kind

Vector = npt.NDArray[np.float32]
Tensors = list[tuple[Entry, slice]]


def tensors(*sizes: int, variance: bool = False) -> Tensors:
    kind = Kind.VARIANCE if variance else Kind.WEIGHT
    ends = np.cumsum([0, *sizes]).tolist()
    return [(Entry(str(i), (size,), "float32", kind), slice(ends[i], ends[i + 1])) for i, size in enumerate(sizes)]


def back(row: Any, places: Tensors, bits: int = 8, held: Vector | None = None) -> Vector:
    return decode_tensors(encode_tensors(np.asarray(row, np.float32), places, bits, held), places, bits, held)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_a_value_is_off_by_half_a_step_of_its_own_tensor(bits: int) -> None:
    rng = np.random.default_rng(0)
    row = np.concatenate([rng.normal(size=500), 1000 + rng.normal(size=300)]).astype(np.float32)
    found = back(row, tensors(500, 300), bits)
    for place in (slice(0, 500), slice(500, 800)):
        span = float(np.ptp(row[place]))
        low = 2**-7 * float(np.abs(row[place].min()))  # where levels begin has sixteen bits
        step = (span + low) / ((1 << bits) - 1) * (1 + 2**-7)
        assert np.abs(found[place] - row[place]).max() <= step / 2 * (1 + 1e-5)


@settings(deadline=None)
@given(
    hnp.arrays(np.float32, st.integers(1, 40), elements=st.floats(0, 2.0**127, width=32)), st.sampled_from([2, 4, 8])
)
def test_a_variance_is_never_negative_and_zero_only_beside_nothing_larger(row: Vector, bits: int) -> None:
    found = back(row, tensors(row.size, variance=True), bits)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    if row.max() > 1e-30:
        assert (found > 0).all()


def test_a_variance_is_near_by_its_logarithm() -> None:
    rng = np.random.default_rng(0)
    row = np.exp(rng.normal(0, 1.5, 2000)).astype(np.float32)
    found = back(row, tensors(2000, variance=True))
    assert np.abs(np.log(found / row)).max() < 0.55 * np.log2(row.max() / row.min()) / 255
    tiny = np.array([1e-12, 1.0], np.float32)
    assert back(tiny, tensors(2, variance=True))[0] == pytest.approx(2**-20, rel=0.1)  # lest it coarsen the others


@pytest.mark.parametrize("variance", [False, True])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.5, 2.0**-100, 2.0**100])
def test_one_value_throughout_is_exact(value: float, variance: bool) -> None:
    row = np.full(100, value, np.float32)
    places = tensors(60, 40, variance=variance)
    np.testing.assert_array_equal(back(row, places), row)
    assert len(encode_tensors(row, places)) < 8 + 40


@settings(deadline=None)
@given(
    hnp.arrays(np.float32, 30, elements=st.floats(-(2.0**126), 2.0**126, width=32)),
    hnp.arrays(np.float32, 30, elements=st.floats(-(2.0**126), 2.0**126, width=32)),
    st.integers(2, 8),
)
def test_what_is_held_changes_the_bytes_and_not_the_values(row: Vector, held: Vector, bits: int) -> None:
    kinds = [Kind.WEIGHT, Kind.VARIANCE, Kind.STATISTIC]
    row[10:20], held[10:20] = np.abs(row[10:20]), np.abs(held[10:20])
    places = [(Entry(str(i), (10,), "float32", kind), slice(10 * i, 10 * i + 10)) for i, kind in enumerate(kinds)]
    alone = back(row, places, bits)
    assert np.isfinite(alone).all()
    np.testing.assert_array_equal(back(row, places, bits, held), alone)


def test_what_hardly_moved_takes_few_bytes_where_it_is_held() -> None:
    rng = np.random.default_rng(0)
    row = rng.normal(size=4000).astype(np.float32)
    held = (row + rng.normal(0, 1e-3, 4000)).astype(np.float32)
    places = tensors(4000)
    assert len(encode_tensors(row, places, held=held)) < 0.4 * len(encode_tensors(row, places))


def test_a_part_of_a_vector_or_the_whole() -> None:
    rng = np.random.default_rng(0)
    whole = rng.normal(size=50).astype(np.float32)
    places = [(Entry("x", (20,), "float32", Kind.STATISTIC), slice(30, 50))]
    assert encode_tensors(whole, places) == encode_tensors(whole[30:], places)
    assert encode_tensors(whole, []) == b""
    assert decode_tensors(b"", []).size == 0


@pytest.mark.parametrize(
    ("words", "variance", "said"),
    [
        ((0x7F80, 0), False, "negative, NaN or infinite"),
        ((0, 0x7F80), False, "negative, NaN or infinite"),
        ((0, 0x8001), False, "negative, NaN or infinite"),
        ((0xFF80, 0), False, "negative, NaN or infinite"),
        ((0x7F80, 0), True, "negative, NaN or infinite"),
        ((0x8000, 0), True, "negative, NaN or infinite"),
    ],
)
def test_scales_that_lie(words: tuple[int, int], variance: bool, said: str) -> None:
    data = np.array(words, "<u2").tobytes() + b"\x01" + bytes(5)
    with pytest.raises(MessageError, match=said):
        decode_tensors(data, tensors(5, variance=variance))


def test_scales_beyond_all_values_stay_finite() -> None:
    for variance in (False, True):
        data = np.array([0x7F7F, 0x7F7F], "<u2").tobytes() + b"\x01" + b"\xff" * 5
        found = decode_tensors(data, tensors(5, variance=variance))
        assert np.isfinite(found).all()
        assert (found > 0).all()


@pytest.mark.parametrize("data", [b"", bytes(3), bytes(4), bytes(4) + b"\x01" + bytes(4), bytes(4) + b"\x09"])
def test_what_is_too_short_is_refused(data: bytes) -> None:
    with pytest.raises(MessageError):
        decode_tensors(data, tensors(5))
    with pytest.raises(MessageError):
        decode_tensors(b"x", [])
