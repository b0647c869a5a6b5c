"""Messages and models in Flower's records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, RecordDict

from fedcode.errors import MessageError
from fedcode.flower.blob import NAME, arrays_of, bytes_of, find, record_of, record_of_arrays

DTYPES = [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint16, np.bool_]


@pytest.mark.parametrize("size", [0, 1, 6 << 20])
def test_a_message_comes_out_as_it_went_in(size: int) -> None:
    data = np.random.default_rng(0).bytes(size)
    assert bytes_of(record_of(data)) == data
    assert find(RecordDict({"other": record_of_arrays({}), "mine": record_of(data)})) == ("mine", data)


def test_what_is_no_message_is_not_taken_for_one() -> None:
    ordinary = ArrayRecord({NAME: Array(np.arange(3))})
    assert bytes_of(ordinary) is None
    with_more = record_of(b"message")
    with_more["more"] = Array(np.arange(3))
    assert bytes_of(with_more) is None
    assert find(RecordDict({"arrays": ordinary})) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 4), (2, 0, 5)])
def test_arrays_are_those_that_flower_makes_and_reads(dtype: type, shape: tuple[int, ...]) -> None:
    value: np.ndarray[Any, Any] = np.asarray(np.random.default_rng(0).integers(0, 2, shape), dtype)
    theirs = ArrayRecord({"w": Array(value)})
    ours = record_of_arrays({"w": value})
    assert ours["w"].data == theirs["w"].data
    assert (ours["w"].dtype, ours["w"].shape, ours["w"].stype) == (
        theirs["w"].dtype,
        theirs["w"].shape,
        theirs["w"].stype,
    )
    for got in (arrays_of(theirs)["w"], ours["w"].numpy()):
        assert got.dtype == value.dtype
        np.testing.assert_array_equal(got, value, strict=True)


def test_arrays_in_another_order_of_memory_come_out_the_same() -> None:
    value = np.arange(12, dtype=np.float32).reshape(3, 4)
    for odd in (np.asfortranarray(value), value[::-1], value.T):
        np.testing.assert_array_equal(arrays_of(record_of_arrays({"w": odd}))["w"], odd)
        np.testing.assert_array_equal(arrays_of(ArrayRecord({"w": Array(odd)}))["w"], odd)


def test_reading_makes_no_copy() -> None:
    record = record_of_arrays({"w": np.zeros(1000, np.float32)})
    assert not arrays_of(record)["w"].flags.owndata


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:20],
        lambda data: b"",
        lambda data: b"\x93NUMPY" + bytes(100),
        lambda data: data.replace(b"(3,)", b"(9,)"),
        lambda data: data.replace(b"<f4", b"|O8"),
    ],
)
def test_a_damaged_array_is_a_typed_error(damage: Callable[[bytes], bytes]) -> None:
    whole = record_of_arrays({"w": np.zeros(3, np.float32)})["w"]
    record = ArrayRecord({"w": Array(whole.dtype, whole.shape, whole.stype, damage(whole.data))})
    with pytest.raises(MessageError, match="'w'"):
        arrays_of(record)


def test_another_form_of_array_is_a_typed_error() -> None:
    with pytest.raises(MessageError, match=r"pickled.*numpy.ndarray"):
        arrays_of(ArrayRecord({"w": Array("float32", (1,), "pickled", b"1234")}))
