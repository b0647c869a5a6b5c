"""The values of greatest magnitude and how their positions are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedcode.errors import MessageError
from fedcode.topk import read_positions, share_of, top, write_positions

# few different magnitudes, so that many are equal
VALUES = arrays(np.float32, st.integers(1, 60), elements=st.integers(-4, 4).map(np.float32))


@given(VALUES, st.integers(1, 70))
def test_the_greatest_are_found_and_of_equals_the_first(values: Any, count: int) -> None:
    by_hand = sorted(range(values.size), key=lambda i: (-abs(values[i]), i))[:count]
    assert top(values, count).tolist() == sorted(i for i in by_hand if values[i])


def test_zeros_are_never_among_them() -> None:
    assert top(np.array([0, 2, 0, -0.0], np.float32), 3).tolist() == [1]
    assert top(np.zeros(5, np.float32), 5).size == 0


def test_a_share_is_rounded_down_and_at_least_one() -> None:
    assert [share_of(0.25, size) for size in (1, 3, 4, 7, 8, 1000)] == [1, 1, 1, 1, 2, 250]
    assert share_of(1.0, 17) == 17


@given(st.sets(st.integers(0, 999), max_size=60))
def test_positions_are_read_as_written(drawn: set[int]) -> None:
    row = np.array(sorted(drawn), np.int64)
    assert np.array_equal(read_positions(write_positions(row, 1000), 1000), row)


@pytest.mark.parametrize("data", [b"", b"\x01", b"\xff\xff\x7f", b"\x00\x01", b"\x05\x01\x02"])
def test_what_is_no_section_of_positions_is_refused(data: bytes) -> None:
    with pytest.raises(MessageError):
        read_positions(data, 1000)
