"""Labels as just so many bits: the bits stand where the format says, by words or without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedcode import packing
from fedcode.errors import ArgumentError, MessageError
from fedcode.packing import check_labels, label_bits, label_type, pack, packed_size, unpack

COUNTS = (1, 7, 8, 63, 64, 65, 128, 1000)
KS = [2, 3, 4, 5, 9, 16, 17, 64, 65, 128, 129, 256, 257, 512, 1000, 2048, 4096, 8192, 16384, 32768, 65536]


def numbers(count: int, k: int) -> Any:
    row = np.random.default_rng(count * k).integers(0, k, count).astype(label_type(k))
    row[-1] = k - 1
    return row


def by_hand(row: Any, bits: int) -> bytes:
    """Label i in bits i*b to i*b+b-1, bit j of the stream being bit j%8 of byte j//8: one large number."""
    stream = sum(int(label) << (i * bits) for i, label in enumerate(row))
    return stream.to_bytes(packed_size(len(row), bits), "little")


@pytest.fixture(params=["words", "plain"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain":
        monkeypatch.setenv("FEDCODE_NUMBA", "0")


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("k", KS)
def test_every_bit_stands_where_the_format_says(k: int) -> None:
    for count in COUNTS:
        row = numbers(count, k)
        data = pack(row, k)
        assert data == by_hand(row, label_bits(k))
        found = unpack(data, count, k)
        assert found.dtype == label_type(k)
        assert np.array_equal(found, row)


@pytest.mark.parametrize("k", [2, 3, 64, 100, 256, 300, 4096, 65536])
@pytest.mark.parametrize("threads", ["1", "2", "7"])
def test_the_number_of_threads_changes_no_bit(k: int, threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_LEAST_BLOCKS", 1)
    row = numbers(64 * 11 + 5, k)
    monkeypatch.setenv("FEDCODE_THREADS", threads)
    data = pack(row, k)
    assert data == by_hand(row, label_bits(k))
    assert np.array_equal(unpack(data, row.size, k), row)


@pytest.mark.parametrize("k", [3, 300])
def test_labels_may_begin_anywhere_in_memory(k: int) -> None:
    raw = np.zeros(8000, np.uint8)
    for start in range(9):
        row = np.frombuffer(raw.data, label_type(k), count=500, offset=start)
        row[:] = numbers(500, k)
        assert pack(row, k) == by_hand(row, label_bits(k))
        data = memoryview(b"x" * start + pack(row, k))[start:]
        assert np.array_equal(unpack(data, 500, k), row)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, ">i4"])
def test_labels_of_any_integer_dtype_and_order_in_memory_are_taken(dtype: Any) -> None:
    grid = np.arange(60).reshape(6, 10).astype(dtype)
    data = pack(grid, 64)
    assert data == by_hand(range(60), 6)
    assert pack(np.asfortranarray(grid), 64) == data
    assert pack(grid.tolist(), 64) == data
    assert pack(np.repeat(grid.reshape(-1), 3)[::3], 64) == data


@pytest.mark.usefixtures("_way")
def test_a_length_that_does_not_fit_is_refused() -> None:
    data = pack(numbers(100, 64), 64)
    for wrong in (data[:-1], data + b"\x00", b""):
        with pytest.raises(MessageError, match="100 labels of 6 bits take 75 bytes"):
            unpack(wrong, 100, 64)
    for count in (0, 90, 110, 1 << 40):
        with pytest.raises(MessageError, match="take"):
            unpack(data, count, 64)


@pytest.mark.usefixtures("_way")
def test_a_label_out_of_range_and_bits_behind_the_last_are_refused() -> None:
    with pytest.raises(MessageError, match="is 3 where there are 3"):
        unpack(bytes([0b110001]), 3, 3)
    with pytest.raises(MessageError, match="not zero"):
        unpack(bytes([0b01000001]), 3, 3)
    assert unpack(bytes([0b100001]), 3, 3).tolist() == [1, 0, 2]


def test_how_many_bits_a_label_takes() -> None:
    assert [label_bits(k) for k in (1, 2, 3, 4, 5, 256, 257, 4096, 65536)] == [0, 1, 2, 2, 3, 8, 9, 12, 16]
    assert label_bits(np.uint8(255)) == 8  # type: ignore[arg-type]
    for k in (0, -1, 65537):
        with pytest.raises(ArgumentError, match=f"not of {k}"):
            label_bits(k)


def test_labels_of_one_centre_take_no_bits() -> None:
    assert pack(np.zeros(50, np.uint8), 1) == b""
    assert unpack(b"", 50, 1).tolist() == [0] * 50


def test_a_row_that_fits_is_checked_without_a_copy() -> None:
    row = numbers(100, 64)
    assert np.shares_memory(check_labels(row, 64), row)
