"""Positions close to their entropy, few or many, and what is none refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcode import sparse
from fedcode.coding import decode_positions, encode_positions
from fedcode.errors import MessageError
from fedcode.rice import MAX_LOW, encode_rice
from fedcode.sparse import CODED_MAP, GAPS, MAP, RICE
from fedcode.streams import compress
from fedcode.symbols import RANKED, SPLIT

FORMS = SPLIT | RANKED


def entropy(count: int, size: int) -> float:
    """What positions drawn one by one with the chance count/size cost at best, in bytes."""
    p = count / size
    return float(-size * (p * np.log2(p) + (1 - p) * np.log2(1 - p)) / 8)


@pytest.mark.parametrize("share", [0.0001, 0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.98])
@pytest.mark.parametrize("size", [20_000, 270_000, 2_000_000])
def test_positions_cost_three_per_cent_above_their_entropy_at_most(size: int, share: float) -> None:
    drawn = np.flatnonzero(np.random.default_rng(0).random(size) < share)
    data = encode_positions(drawn, size)
    assert np.array_equal(decode_positions(data, drawn.size, size), drawn)
    assert len(data) <= 1.03 * entropy(drawn.size, size) + 32  # a stream says what it is and has a table


def test_every_way_is_smallest_somewhere_and_leads_back() -> None:
    rng = np.random.default_rng(1)
    cases: list[tuple[Any, int]] = [
        (np.flatnonzero(rng.random(300) < 0.5), 300),
        (np.flatnonzero(rng.random(300_000) < 0.3), 300_000),
        (np.flatnonzero(rng.random(5000) < 0.01), 5000),
        (np.cumsum(1 + rng.geometric(0.002, 30_000) // 256 * 256), 1 << 25),
    ]
    smallest = set()
    for row, size in cases:
        gaps = np.diff(row, prepend=-1) - 1
        forms = [form() for _, form in sparse._forms(row, gaps, size)]
        for data in forms:
            assert np.array_equal(decode_positions(data, row.size, size), row)
        assert encode_positions(row, size) == min(forms, key=len)
        smallest.add(encode_positions(row, size)[0] & ~FORMS)
    assert smallest == {MAP, CODED_MAP, RICE, GAPS}


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_positions_come_back(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from((1, 2, 100, 10_000, 1 << 33, 1 << 50)))
    row = np.array(sorted(data.draw(st.sets(st.integers(0, size - 1), max_size=100))), np.int64)
    found = decode_positions(encode_positions(row, size), row.size, size)
    assert found.dtype == np.int64
    assert np.array_equal(found, row)


def test_all_and_the_ends_come_back() -> None:
    for row, size in ((np.arange(1000), 1000), (np.array([0]), 1), (np.array([0, 999_999]), 1_000_000)):
        assert np.array_equal(decode_positions(encode_positions(row, size), row.size, size), row)


def gaps(*numbers: int) -> bytes:
    return bytes((GAPS,)) + compress(np.array(numbers, np.uint32))


@pytest.mark.parametrize(
    ("data", "count", "size", "says"),
    [
        (b"", 3, 10, "cannot be 3 positions of 10"),
        (gaps(0), 0, 10, "cannot be 0 positions"),
        (gaps(*[0] * 11), 11, 10, "cannot be 11 positions of 10"),
        (gaps(0, 9), 2, 10, "run past the 10"),
        (gaps(0, 10), 2, 10, "a gap of 10 does not fit"),
        (gaps(2**32 - 1, 2**32 - 1), 2, 10, "does not fit"),
        (gaps(1, 1), 3, 10, "numbers"),
        (bytes((RICE,)) + encode_rice(np.array([0, 9])), 2, 10, "run past the 10"),
        (bytes((RICE, MAX_LOW + 1)) + bytes(50), 2, 10, "cannot be 2 numbers"),
        (bytes((RICE,)), 2, 10, "cannot be 2 numbers"),
        (bytes((RICE, 0)) + b"\x01", 2, 10, "expected, got 1"),
        (bytes((RICE, 0)) + b"\x03\x00", 2, 10, "expected, got 2"),  # a byte too many
        (bytes((MAP,)) + b"\x07\x00", 2, 10, "map of 2 positions is expected, got one of 3"),
        (bytes((MAP,)) + b"\x03", 2, 10, "take 2 bytes"),
        (bytes((MAP,)) + bytes(1 << 10), 2, 1 << 40, "does not exist"),  # no map of a large model for a few positions
        (bytes((9,)) + bytes(20), 2, 10, "does not exist"),
        (bytes((GAPS | SPLIT,)) + bytes(20), 2, 10, "does not exist"),
    ],
)
def test_positions_that_lie_are_refused(data: bytes, count: int, size: int, says: str) -> None:
    with pytest.raises(MessageError, match=says):
        decode_positions(data, count, size)


def test_sums_of_gaps_beyond_64_bits_are_refused() -> None:
    size = 1 << 62
    data = bytes((GAPS,)) + compress(np.full(5, size - 1, np.uint64))
    with pytest.raises(MessageError, match="run past"):
        decode_positions(data, 5, size)
