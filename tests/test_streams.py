"""Streams of pcodec: pages, and bytes that are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcode.errors import MessageError
from fedcode.streams import PAGE, compress, decompress, joined, pages

KINDS = (np.uint8, np.uint16, np.uint32, np.uint64)


@given(st.integers(1, 1 << 40))
def test_pages_are_the_fewest_that_hold_all_and_of_one_size_but_for_one(count: int) -> None:
    if count > 1 << 30:
        count >>= 12  # a list of that many pages is of no use
    sizes = pages(count)
    assert sum(sizes) == count
    assert max(sizes) <= PAGE
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == -(-count // PAGE)


@given(st.integers(1, 10_000), st.floats(0, 1e9))
def test_pages_are_joined_in_order_and_never_beyond_what_pcodec_takes(number: int, bits: float) -> None:
    starts = joined(number, bits)
    sizes = np.diff([*starts, number])
    assert starts[0] == 0
    assert (sizes > 0).all()
    assert sizes.max() * PAGE <= 1 << 24
    assert sizes.max() - sizes.min() <= 1


def test_pages_are_joined_only_where_numbers_cost_next_to_nothing() -> None:
    assert len(joined(100, 100 * PAGE * 1.0)) == 100
    assert len(joined(100, 100 * PAGE * 0.1)) < 100
    assert len(joined(100, 0.0)) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 1000, PAGE + 1])
def test_whole_numbers_of_any_width_come_back(kind: Any, count: int) -> None:
    row = np.random.default_rng(0).integers(0, np.iinfo(kind).max, count, kind, endpoint=True)
    found = decompress(compress(row), count, kind)
    assert found.dtype == kind
    assert np.array_equal(found, row)


def test_a_stream_of_another_width_is_refused() -> None:
    data = compress(np.arange(1000, dtype=np.uint16))
    for kind in (np.uint8, np.uint32, np.uint64):
        with pytest.raises(MessageError):
            decompress(data, 1000, kind)


@pytest.mark.parametrize("data", [b"", b"\x00", b"pco!", b"pco!\x03\x00", b"\x00" * 100, b"\xff" * 100])
def test_what_is_no_stream_is_refused(data: bytes) -> None:
    with pytest.raises(MessageError):
        decompress(data, 5, np.uint8)


def test_a_stream_of_another_length_is_refused() -> None:
    data = compress(np.arange(1000, dtype=np.uint16))
    for count in (0, 1, 255, 256, 999, 1001, 1 << 20):
        with pytest.raises(MessageError):
            decompress(data, count, np.uint16)


def test_no_memory_is_an_error_of_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise MemoryError

    data = compress(np.arange(1000, dtype=np.uint16))
    monkeypatch.setattr("fedcode.streams.np.empty", none)
    with pytest.raises(MessageError, match="no memory"):
        decompress(data, 1000, np.uint16)
