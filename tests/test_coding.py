"""What every coding keeps: one suite over all of them, and what each promises beyond it."""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcode import coding
from fedcode.errors import ArgumentError, MessageError
from fedcode.packing import label_bits, label_type, packed_size
from fedcode.rice import decode_rice, encode_rice

COUNT = 700


@dataclass(frozen=True)
class Coding:
    """One way from numbers to bytes. constant: numbers of no information at all."""

    name: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes, int], Any]
    example: Any
    constant: Any
    dtype: Any
    exact: bool = True  # the number of bytes follows from the number of values: anything else is refused

    def __str__(self) -> str:
        return self.name


def bell(count: int, k: int, seed: int = 0) -> Any:
    """Labels that are mostly near the middle."""
    row = np.random.default_rng(seed).normal(k / 2 - 0.5, k / 7, count)
    return np.clip(np.rint(row), 0, k - 1).astype(label_type(k))


def labels(k: int, way: str) -> Coding:
    expected = bell(COUNT, k, seed=1)
    near = (expected.astype(np.int64) + (np.arange(COUNT) % 11 == 0)) % k

    def context(count: int) -> Any:
        return np.resize(expected, count) if way == "context" else None

    return Coding(
        f"labels of {k}, {way}",
        lambda row: coding.encode_labels(row, k, coding=way, context=context(np.size(row))),
        lambda data, count: coding.decode_labels(data, count, k, context=context(count)),
        near.astype(label_type(k)) if way == "context" else bell(COUNT, k),
        np.full(COUNT, k - 1, label_type(k)),
        label_type(k),
        exact=way == "packed",
    )


def codings() -> list[Coding]:
    found = [labels(k, way) for k in (2, 3, 64, 256, 257, 4096) for way in ("packed", "entropy", "context", "smallest")]
    rng = np.random.default_rng(2)
    for share in (0.001, 0.05, 0.5):
        size = int(COUNT / share)
        found.append(
            Coding(
                f"positions, {share:.1%} dense",
                functools.partial(coding.encode_positions, size=size),
                functools.partial(coding.decode_positions, size=size),
                np.sort(rng.choice(size, COUNT, replace=False)),
                np.arange(COUNT),
                np.int64,
                exact=False,
            )
        )
    for spread in (2, 300, 1e6):
        numbers = np.rint(rng.normal(0, spread, COUNT)).astype(np.int32)
        zero = np.full(COUNT, -3, np.int32)
        name = f"integers of about {spread:g}"
        found.append(Coding(name, coding.encode_integers, coding.decode_integers, numbers, zero, np.int32, exact=False))
    floats = rng.normal(size=COUNT).astype(np.float32)
    floats[:5] = np.nan, np.inf, -np.inf, -0.0, 1e-40
    found.append(Coding("floats", coding.encode_floats, coding.decode_floats, floats, np.full(COUNT, 0.1, np.float32),
                        np.float32))  # fmt: skip
    found.append(
        Coding(
            "halves",
            lambda row: coding.encode_floats(row, half=True),
            lambda data, count: coding.decode_floats(data, count, half=True),
            floats.astype(np.float16).astype(np.float32),
            np.full(COUNT, 0.5, np.float32),
            np.float32,
        )
    )
    gaps = rng.geometric(0.01, COUNT) - 1
    found.append(Coding("Rice", encode_rice, decode_rice, gaps, np.full(COUNT, 9), np.int64, exact=False))
    return found


every = pytest.mark.parametrize("this", codings(), ids=str)
keep_of_nothing = pytest.mark.parametrize("this", [c for c in codings() if c.name != "Rice"], ids=str)


def same(found: Any, row: Any, dtype: Any) -> bool:
    """Bit for bit, NaN and minus zero too."""
    row = np.asarray(row, dtype)
    return found.dtype == dtype and found.shape == row.shape and bool(found.tobytes() == row.tobytes())


@every
def test_what_is_decoded_is_what_was_encoded(this: Coding) -> None:
    assert same(this.decode(this.encode(this.example), COUNT), this.example, this.dtype)


@every
def test_a_constant_comes_back_and_takes_no_more_than_other_numbers(this: Coding) -> None:
    data = this.encode(this.constant)
    assert same(this.decode(data, COUNT), this.constant, this.dtype)
    assert len(data) <= len(this.encode(this.example)) or "context" in this.name


@every
def test_one_value_comes_back(this: Coding) -> None:
    assert same(this.decode(this.encode(this.example[:1]), 1), this.example[:1], this.dtype)


@keep_of_nothing
def test_nothing_is_no_bytes_and_back(this: Coding) -> None:
    assert this.encode(this.example[:0]) == b""
    assert same(this.decode(b"", 0), this.example[:0], this.dtype)
    for data in (b"\x01", b"\x00" * 40):
        with pytest.raises(MessageError):
            this.decode(data, 0)


@every
def test_the_same_numbers_are_the_same_bytes(this: Coding) -> None:
    data = this.encode(this.example)
    strided = np.repeat(this.example, 2)[::2]
    frozen = np.frombuffer(this.example.tobytes(), this.example.dtype)
    for row in (this.example, this.example.copy(), strided, frozen):
        assert this.encode(row) == data


@keep_of_nothing
def test_numbers_of_any_shape_are_coded_as_a_row(this: Coding) -> None:
    assert this.encode(this.example.reshape(7, 2, 50)) == this.encode(this.example)


@every
def test_any_kind_of_bytes_is_read(this: Coding) -> None:
    data = this.encode(this.example)
    for kind in (bytearray, memoryview):
        assert same(this.decode(kind(data), COUNT), this.example, this.dtype)  # type: ignore[arg-type]


@every
def test_every_beginning_is_refused(this: Coding) -> None:
    data = this.encode(this.example)
    for size in {*range(min(len(data), 60)), *range(0, len(data), 17), len(data) - 1}:
        with pytest.raises(MessageError):
            this.decode(data[:size], COUNT)


@every
def test_bytes_too_many_are_refused_or_change_no_number(this: Coding) -> None:
    data = this.encode(this.example)
    for more in (b"\x00", b"\x01", b"\xff" * 9):
        try:
            found = this.decode(data + more, COUNT)
        except MessageError:
            continue
        assert not this.exact
        assert more == b"\x00"
        assert same(found, this.example, this.dtype)


@every
def test_a_damaged_byte_is_refused_or_gives_numbers_of_the_same_kind(this: Coding) -> None:
    data = this.encode(this.example)
    rng = np.random.default_rng(3)
    for place in {*range(min(len(data), 40)), *rng.integers(0, len(data), 60).tolist()}:
        damaged = bytearray(data)
        damaged[place] ^= int(rng.integers(1, 256))
        try:
            found = this.decode(bytes(damaged), COUNT)
        except MessageError:
            continue
        assert found.shape == (COUNT,)
        assert found.dtype == this.dtype
        if this.name.startswith("labels"):
            k = int(this.name.split()[2].rstrip(","))
            assert int(found.max()) < k
        if this.name.startswith("positions"):
            assert (np.diff(found) > 0).all()
            assert found[0] >= 0


@every
@pytest.mark.parametrize("lie", [0, 1, COUNT - 8, COUNT + 8, 10 * COUNT])
def test_a_count_that_lies_is_refused(this: Coding, lie: int) -> None:
    with pytest.raises(MessageError):
        this.decode(this.encode(this.example), lie)


@pytest.mark.parametrize("lie", [1 << 45, 1 << 62])
@pytest.mark.parametrize("this", [c for c in codings() if "context" not in c.name], ids=str)
def test_a_huge_count_in_few_bytes_is_refused_without_the_memory_for_it(this: Coding, lie: int) -> None:
    data = this.encode(this.example)
    tracemalloc.start()
    try:
        with pytest.raises(MessageError):
            this.decode(data, lie)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@every
@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=80), count=st.integers(0, 300))
def test_any_bytes_are_refused_or_numbers(this: Coding, data: bytes, count: int) -> None:
    try:
        found = this.decode(data, count)
    except MessageError:
        return
    assert found.shape == (count,)


# ---- labels


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_labels_of_any_number_of_centres_come_back(data: st.DataObject) -> None:
    k = data.draw(st.one_of(st.integers(1, 300), st.integers(1, 1 << 16)))
    row = np.array(data.draw(st.lists(st.integers(0, k - 1), max_size=200)), np.int64)
    context = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=row.size, max_size=row.size)), np.int64)
    for way in coding.CODINGS:
        coded = coding.encode_labels(row, k, coding=way, context=context)
        assert same(coding.decode_labels(coded, row.size, k, context=context), row, label_type(k))
        assert way != "smallest" or len(coded) <= 1 + packed_size(row.size, label_bits(k))


@pytest.mark.parametrize("count", [1, 5, 100, 3000, 100_000])
@pytest.mark.parametrize("k", [2, 3, 16, 63, 64, 257, 4096])
def test_the_smallest_coding_is_never_larger_than_packed_and_a_byte(k: int, count: int) -> None:
    rng = np.random.default_rng(k)
    for row in (rng.integers(0, k, count), bell(count, k), np.minimum(rng.geometric(0.6, count) - 1, k - 1)):
        found = coding.encode_labels(row, k)
        assert len(found) <= 1 + packed_size(count, label_bits(k))
        ways = [coding.encode_labels(row, k, coding=way) for way in ("packed", "entropy")]
        assert len(found) == min(map(len, ways))


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.9, 1.0])
def test_what_both_ends_hold_never_makes_labels_larger(share: float) -> None:
    rng = np.random.default_rng(4)
    for k, count in ((2, 50), (64, 500), (64, 40_000), (300, 40_000)):
        row = bell(count, k)
        context = np.where(rng.random(count) < share, row, rng.integers(0, k, count))
        given_it = coding.encode_labels(row, k, context=context)
        assert len(given_it) <= len(coding.encode_labels(row, k))
        assert same(coding.decode_labels(given_it, count, k, context=context), row, label_type(k))


def test_labels_of_one_centre_are_no_bytes() -> None:
    assert coding.encode_labels(np.zeros(9, np.uint8), 1) == b""
    assert coding.decode_labels(b"", 9, 1).tolist() == [0] * 9
    with pytest.raises(MessageError, match="take no bytes"):
        coding.decode_labels(b"\x01", 9, 1)


def test_labels_coded_given_a_context_need_it() -> None:
    row = bell(COUNT, 64)
    data = coding.encode_labels(row, 64, coding="context", context=row)
    with pytest.raises(MessageError, match="does not hold"):
        coding.decode_labels(data, COUNT, 64)


@pytest.mark.parametrize("way", [0, 5, 8, 20, 36, 64, 255])
def test_a_way_that_does_not_exist_is_refused(way: int) -> None:
    with pytest.raises(MessageError, match="does not know"):
        coding.decode_labels(bytes((way,)) + bytes(20), 10, 16)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: coding.encode_labels([0, 4], 4), "0 to 3, got 0 to 4"),
        (lambda: coding.encode_labels([-1, 0], 4), "got -1 to 0"),
        (lambda: coding.encode_labels([0.0, np.nan], 4), "integers, got float64"),
        (lambda: coding.encode_labels([0], 0), "1 to 65536"),
        (lambda: coding.encode_labels([0], 65537), "not of 65537"),
        (lambda: coding.encode_labels([0], 4, coding="zip"), "packed, entropy, context, not 'zip'"),
        (lambda: coding.encode_labels([0], 4, coding="context"), "context="),
        (lambda: coding.encode_labels([0, 1], 4, context=[0]), "one label for each of 2, got 1"),
        (lambda: coding.encode_labels([0], 4, context=[9]), "got 9 to 9"),
        (lambda: coding.encode_integers([0.5]), "float64"),
        (lambda: coding.encode_integers([1 << 31]), "up to 32 bits"),
        (lambda: coding.encode_integers([-(1 << 31) - 1]), "up to 32 bits"),
        (lambda: coding.encode_positions([2, 1], 5), "ascend"),
        (lambda: coding.encode_positions([1, 1], 5), "ascend"),
        (lambda: coding.encode_positions([-1], 5), "ascend"),
        (lambda: coding.encode_positions([5], 5), "from 0 to 4"),
        (lambda: coding.encode_positions([0.5], 5), "integers, got float64"),
        (lambda: coding.encode_floats([65520.0], half=True), "float16"),
    ],
)
def test_what_cannot_be_coded_is_said(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        call()


# ---- sizes that follow from the numbers


def test_sizes_are_what_is_written_down() -> None:
    assert len(coding.encode_floats(np.zeros(10))) == 40
    assert len(coding.encode_floats(np.zeros(10), half=True)) == 20
    for k in (2, 3, 64, 65, 4096):
        assert len(coding.encode_labels(bell(1001, k), k, coding="packed")) == 1 + -(-1001 * label_bits(k) // 8)
    assert len(coding.encode_integers([1, -1, 127])) == 4
    assert len(coding.encode_integers([128, -32768])) == 5
    assert len(coding.encode_integers([32768, -(1 << 31)])) == 9


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1), max_size=100))
def test_whole_numbers_of_32_bits_come_back(numbers: list[int]) -> None:
    data = coding.encode_integers(np.array(numbers, np.int64))
    assert coding.decode_integers(data, len(numbers)).tolist() == numbers


def test_halves_are_rounded_to_the_nearest() -> None:
    values = np.array([0.1, 65519.0, 1e-9, -1 / 3], np.float32)
    with np.errstate(over="ignore"):
        nearest = values.astype(np.float16).astype(np.float32)
    assert same(coding.decode_floats(coding.encode_floats(values, half=True), 4, half=True), nearest, np.float32)


def test_float64_is_coded_as_the_nearest_float32() -> None:
    found = coding.decode_floats(coding.encode_floats([0.1]), 1)
    assert found[0] == np.float32(0.1)
