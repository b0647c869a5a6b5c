"""Replies added into sums: in float64, in place, and with or without compiled loops the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedcode.accumulate import add, add_labels


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain":
        monkeypatch.setenv("FEDCODE_NUMBA", "0")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_each_product_is_taken_in_float64(dtype: Any) -> None:
    values = np.array([1, 3, 7, 200], dtype) / dtype(1)
    total = np.array([0.1, 0.2, 0.3, 0.4])
    expected = total + (1 / 3) * values.astype(np.float64)
    add(total, values, 1 / 3)
    assert total.tolist() == expected.tolist()


def test_small_values_are_not_lost_beside_large_ones() -> None:
    total = np.zeros(1)
    for _ in range(1000):
        add(total, np.array([1e-8], np.float32), 1)
    add(total, np.array([1.0], np.float32), 1)
    assert total[0] - 1 == pytest.approx(1e-5, rel=1e-6)  # in float32 the sum would be 1


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_labels_add_what_their_decoded_values_would(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    centers = np.sort(rng.normal(size=200).astype(np.float32))
    labels = rng.integers(0, 200, 1000).astype(dtype)
    by_labels, by_values = np.ones(1000), np.ones(1000)
    add_labels(by_labels, centers, labels, 0.3)
    add(by_values, centers[labels], 0.3)
    assert by_labels.tolist() == by_values.tolist()


def test_a_part_of_a_sum_is_added_to_in_place() -> None:
    total = np.zeros(10)
    add(total[2:5], np.ones(3, np.float32), 2)
    add_labels(total[5:7], np.array([4, 8], np.float32), np.array([1, 0], np.uint8), 0.5)
    assert total.tolist() == [0, 0, 2, 2, 2, 4, 2, 0, 0, 0]
    add(total[:0], np.ones(0, np.float32), 1)


def test_read_only_values_are_taken() -> None:
    total = np.zeros(2)
    add(total, np.frombuffer(np.ones(2, np.float32).tobytes(), np.float32), 1)
    assert total.tolist() == [1, 1]
