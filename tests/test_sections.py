"""Centres, values, counters, arrays and what is joined: there and back, and lies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedcode.arrays import decode_arrays, encode_arrays
from fedcode.errors import MessageError
from fedcode.joined import join, split
from fedcode.label_blocks import decode_blocks, encode_block
from fedcode.reader import Reader, text, varint
from fedcode.sections import decode_centers, decode_counters, decode_values, encode_centers, encode_counters


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30))
def test_any_counters_come_back(counters: list[int]) -> None:
    row = np.array(counters, np.int64)
    np.testing.assert_array_equal(decode_counters(encode_counters(row), len(counters)), row)


def test_counters_of_the_same_steps_take_a_byte_each() -> None:
    assert len(encode_counters(np.full(50, 10**6))) == 3 + 49


@pytest.mark.parametrize(
    ("data", "count", "said"),
    [
        (b"", 1, "1 counters take 1 bytes or more"),
        (b"\x02", 1 << 40, "bytes or more, got 1"),
        (b"\x80", 1, "cut short"),
        (b"\x02\x02", 1, "1 bytes too many"),
        (b"\x80\x00", 1, "more bytes than it needs"),
        (b"\xff" * 9 + b"\x02", 1, "where at most"),
    ],
)
def test_counters_that_lie(data: bytes, count: int, said: str) -> None:
    with pytest.raises(MessageError, match=said):
        decode_counters(data, count)


@given(hnp.arrays(np.float32, st.integers(1, 50), elements=st.floats(-(2.0**126), 2.0**126, width=32)))
def test_any_codebook_comes_back(values: npt.NDArray[np.float32]) -> None:
    centers = np.sort(values)
    np.testing.assert_array_equal(decode_centers(encode_centers(centers)), centers)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "1 to 65536 centres, not 0"),
        (bytes(5), "1 floats take 4 bytes, got 5"),
        (bytes(4 * 65537), "1 to 65536 centres, not 65537"),
        (np.array([1, 0], "<f4").tobytes(), "not in ascending order"),
        (np.array([0, np.nan], "<f4").tobytes(), "1 of 2 values are NaN or infinite, the first at index 1"),
        (np.array([-np.inf, 0], "<f4").tobytes(), "the first at index 0"),
    ],
)
def test_codebooks_that_lie(data: bytes, said: str) -> None:
    with pytest.raises(MessageError, match=said):
        decode_centers(data)


def test_values_are_as_many_as_there_should_be() -> None:
    with pytest.raises(MessageError, match="2 floats take 8 bytes, got 12"):
        decode_values(bytes(12), 2)


@given(st.lists(st.binary(max_size=200), max_size=9))
def test_what_is_joined_comes_apart(parts: list[bytes]) -> None:
    assert [bytes(part) for part in split(join(parts))] == parts


@pytest.mark.parametrize("data", [b"\x01", b"\x05four", b"\x80", b"\xff" * 9 + b"\x01"])
def test_joined_lengths_that_lie(data: bytes) -> None:
    with pytest.raises(MessageError, match=r"cut short|longer|needs"):
        split(data)


ARRAYS = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=9),
    st.sampled_from(["f4", "f8", "i8", "i4", "u1", "u2", "u4", "?", "f2", "i1", "i2", ">f4", ">i8"]).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    ),
    max_size=5,
)


@given(ARRAYS)
def test_any_arrays_come_back(arrays: dict[str, npt.NDArray[Any]]) -> None:
    found = decode_arrays(encode_arrays(arrays))
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype.newbyteorder("="), array.shape)
        assert found[name].tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()


def array(name: str = "a", dtype: int = 0, shape: tuple[int, ...] = (), body: bytes = bytes(4)) -> bytes:
    return text(name) + bytes((dtype,)) + varint(len(shape)) + b"".join(map(varint, shape)) + body


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "cut short"),
        (varint(1 << 17), "where at most 65536"),
        (varint(2) + array() * 2, "comes twice"),
        (varint(1) + array(dtype=11), "a dtype that does not exist"),
        (varint(1) + array("x" * 1025), "where at most 1024"),
        (varint(1) + array(shape=(1,) * 9), "where at most 8"),
        (varint(1) + array(shape=(1 << 41,)), "where at most 1099511627776"),
        (varint(1) + array(shape=(1 << 40,)), "cut short"),
        (varint(1) + array(shape=(1 << 40,) * 3), "no array can have"),
        (varint(1) + array(shape=(2,)), "cut short"),
        (varint(1) + array(shape=(0, 1 << 40, 1 << 40), body=b""), "no array can have"),
        (varint(1) + array() + b"x", "1 bytes too many"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arrays_that_lie(data: bytes, said: str) -> None:
    with pytest.raises(MessageError, match=said):
        decode_arrays(data)


def test_blocks_of_labels_that_lie() -> None:
    block = encode_block(np.arange(9, dtype=np.uint8) % 3, 3)
    assert [labels.tolist() for labels in decode_blocks(block, 9, 3)] == [[0, 1, 2] * 3]
    for data in (b"", block[:-1], block + b"\x00", block + block, b"\xff\x7f" + block):
        with pytest.raises(MessageError):
            list(decode_blocks(data, 9, 3))
    with pytest.raises(MessageError):
        list(decode_blocks(block, 13, 3))
    with pytest.raises(MessageError):
        list(decode_blocks(block, 9, 2))


def test_a_reader_never_passes_the_end() -> None:
    reader = Reader(b"\x03abcd", "example")
    assert reader.text(3) == "abc"
    assert reader.left == 1
    with pytest.raises(MessageError, match="example is cut short: 2 bytes expected at byte 4, 1 are there"):
        reader.take(2)
    assert bytes(reader.take(1)) == b"d"
    reader.end()
    with pytest.raises(MessageError, match="cut short"):
        reader.u8()


@given(st.integers(0, 2**64 - 1))
def test_any_varint_comes_back_in_as_few_bytes_as_it_needs(number: int) -> None:
    data = varint(number)
    assert len(data) == max(1, -(-number.bit_length() // 7))
    reader = Reader(data, "example")
    assert reader.varint() == number
    reader.end()
