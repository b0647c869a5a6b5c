"""Differences taken apart by the label that was expected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcode.coding import GROUPS, decode_labels, encode_labels
from fedcode.errors import MessageError
from fedcode.groups import MAX_GROUPS, grouping, part, unite
from fedcode.reader import varint

COUNT, K = 40_000, 16


def uneven(count: int = COUNT, k: int = K) -> tuple[Any, Any]:
    """Labels, and what was expected; even ones are left often and downwards, odd ones seldom and upwards."""
    rng = np.random.default_rng(0)
    expected = rng.integers(0, k, count)
    left = rng.random(count) < np.where(expected % 2, 0.02, 0.4)
    steps = left * np.where(expected % 2, 1, -1)
    return ((expected + steps) % k).astype(np.uint8), expected.astype(np.uint8)


def test_labels_with_other_differences_are_in_other_groups() -> None:
    row, expected = uneven()
    steps = (row != expected).astype(np.uint8)
    groups = grouping(steps, expected, K)
    assert groups is not None
    assert len({*groups[::2]} & {*groups[1::2]}) == 0
    assert int(groups.max()) < MAX_GROUPS


def test_groups_save_what_they_promise() -> None:
    row, expected = uneven()
    data = encode_labels(row, K, context=expected)
    assert data[0] == GROUPS
    least = COUNT / 2 * sum(-p * np.log2(p) - (1 - p) * np.log2(1 - p) for p in (0.02, 0.4)) / 8
    assert len(data) < 1.03 * least
    assert np.array_equal(decode_labels(data, COUNT, K, context=expected), row)


def test_what_is_alike_or_short_stays_together() -> None:
    rng = np.random.default_rng(1)
    expected = rng.integers(0, K, COUNT).astype(np.uint8)
    assert grouping((rng.random(COUNT) < 0.2).astype(np.uint8), expected, K) is None
    row, expected = uneven(300)
    assert grouping((row != expected).astype(np.uint8), expected, K) is None
    assert grouping(row[:0], expected[:0], K) is None


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 300), st.integers(0, 2000), st.integers(2, MAX_GROUPS), st.integers(0, 99), st.booleans())
def test_what_is_taken_apart_is_put_together(k: int, count: int, number: int, seed: int, plain: bool) -> None:
    rng = np.random.default_rng(seed)
    kind = np.uint8 if k <= 256 else np.uint16
    row, expected = rng.integers(0, k, (2, count)).astype(kind)
    groups = rng.integers(0, number, k).astype(np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDCODE_NUMBA", "0" if plain else "1")
        parts = part(row, expected, groups)
        assert [found.tolist() for found in parts] == [
            row[groups[expected] == group].tolist() for group in range(len(parts))
        ]
        assert np.array_equal(unite(parts, expected, groups), row)


def test_the_plain_path_writes_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    row, expected = uneven()
    data = encode_labels(row, K, context=expected)
    monkeypatch.setenv("FEDCODE_NUMBA", "0")
    assert encode_labels(row, K, context=expected) == data
    assert np.array_equal(decode_labels(data, COUNT, K, context=expected), row)


def body(number: int, groups: bytes, *parts: bytes) -> bytes:
    return bytes((GROUPS, number)) + groups + b"".join(varint(len(one)) for one in parts) + b"".join(parts)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (body(1, b""), "2 to 8 groups, not in 1"),
        (body(9, bytes(8)), "not in 9"),
        (body(2, b""), "cut short"),
        (body(3, b"\x03", b"", b"", b""), "is 3 where there are 3"),
        (body(2, b"\x02", b"\x01\x00", b"\x01\x00") + b"\x00", "1 bytes too many"),
        (body(2, b"\x02", b"\x01\x00")[:-3] + varint(1 << 40), "is possible"),
        (body(2, b"\x00", b"\x01\x00", b"\x01\x00"), "take"),  # all are in the first group
        (body(2, b"\x02", b"\x03pco", b"\x01\x00"), "does not hold"),  # a context within
        (body(2, b"\x02", body(2, b"\x02"), b"\x01\x00"), "does not hold"),  # groups within
        (bytes((GROUPS,)), "cut short"),
    ],
)
def test_groups_that_lie_are_refused(data: bytes, says: str) -> None:
    assert decode_labels(body(2, b"\x02", b"\x01\x00", b"\x01\x03"), 4, 2, context=[0, 0, 1, 1]).tolist() == [
        0,
        0,
        0,
        0,
    ]
    with pytest.raises(MessageError, match=says):
        decode_labels(data, 4, 2, context=[0, 0, 1, 1])


def test_damaged_groups_are_refused_or_labels() -> None:
    row, expected = uneven(20_000)
    data = encode_labels(row, K, context=expected)
    assert data[0] == GROUPS
    rng = np.random.default_rng(2)
    for place in [*range(1, 60), *rng.integers(0, len(data), 100).tolist()]:
        damaged = bytearray(data)
        damaged[place] ^= int(rng.integers(1, 256))
        try:
            found = decode_labels(bytes(damaged), row.size, K, context=expected)
        except MessageError:
            continue
        assert found.shape == row.shape
        assert int(found.max()) < K
    for size in range(0, len(data), 29):
        with pytest.raises(MessageError):
            decode_labels(data[:size], row.size, K, context=expected)
