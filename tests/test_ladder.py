"""Centres in even steps, and weights that stay where they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcode.base import Base
from fedcode.errors import MessageError
from fedcode.ladder import STAY, Ladder
from fedcode.layout import Layout
from fedcode.reader import varint


def weights(seed: int = 0, count: int = 4000) -> Any:
    return (0.05 * np.random.default_rng(seed).laplace(size=count)).astype(np.float32)


def base(ladder: Ladder) -> Base:
    none = np.empty(0, np.float32)
    return Base(Layout(()), ladder.centers, np.zeros(1, np.uint8), none, np.empty(0, np.int64))


def test_a_ladder_has_its_rungs_over_sixteen_times_the_rms() -> None:
    row = weights()
    ladder = Ladder.over(row, 64)
    rms = float(np.sqrt(np.square(row, dtype=np.float64).mean()))
    assert 16 * rms / 64 <= ladder.step < 16 * rms / 64 * 1.008  # rounded up to eight bits
    centers = ladder.centers
    assert np.abs(row - centers[ladder.labels(row)]).max() <= 0.5001 * ladder.step
    assert abs(centers[0] - row.min()) <= ladder.step
    assert abs(centers[-1] - row.max()) <= ladder.step


def test_centres_are_exact() -> None:
    ladder = Ladder.over(weights() + np.float32(100), 4096)
    numbers = np.arange(ladder.lowest, ladder.lowest + ladder.count)
    assert (ladder.centers.astype(np.float64) == numbers * ladder.step).all()
    assert Ladder.of(ladder.centers) == ladder


def test_a_ladder_that_fits_is_kept_and_one_that_does_not_is_made_anew() -> None:
    row = weights()
    ladder = Ladder.over(row, 64)
    for factor in (0.75, 1.0, 1.4):
        assert Ladder.over(row * np.float32(factor), 64, base(ladder)).step == ladder.step
    for factor in (0.5, 1.8):
        assert Ladder.over(row * np.float32(factor), 64, base(ladder)).step != ladder.step


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1000), st.floats(0, 3))
def test_a_weight_stays_until_it_has_clearly_left(seed: int, far: float) -> None:
    row = weights(seed, 500)
    ladder = Ladder.over(row, 64)
    was = ladder.labels(row)
    moved = row + np.float32(far * ladder.step) * np.random.default_rng(seed).normal(size=row.size).astype(np.float32)
    after = Ladder.over(moved, 64, base(ladder))
    if after.step != ladder.step:
        return
    expected: Any = (was.astype(int) + ladder.lowest - after.lowest).clip(0, after.count - 1)
    found = after.labels(moved, expected.astype(np.uint8))
    off = moved / np.float64(after.step) - after.lowest
    near = np.abs(off - expected) <= STAY
    assert (found[near] == expected[near]).all()
    assert np.abs(off - found).max() <= STAY + 1e-6
    assert (np.abs(found.astype(int) - expected) <= np.abs(off - expected) + STAY).all()  # never farther than it went


def test_numba_and_numpy_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    row = weights(1, 100_000)
    ladder = Ladder.over(row, 64)
    expected = np.random.default_rng(2).integers(0, ladder.count, row.size).astype(np.uint8)
    compiled = ladder.labels(row), ladder.labels(row, expected)
    monkeypatch.setenv("FEDCODE_NUMBA", "0")
    assert (ladder.labels(row) == compiled[0]).all()
    assert (ladder.labels(row, expected) == compiled[1]).all()


@pytest.mark.parametrize(
    "row",
    [
        [0.0],
        [1e-45],
        [-3.0],
        [5.0, 5.0],
        [0.0, 3e38],
        [-1e37, 1e37],
        [100.0, 100.001],
        [0.0] * 9999 + [1.0],
        [1e-30, 1.0],
    ],
)
def test_odd_weights_have_a_ladder_too(row: list[float]) -> None:
    values = np.array(row, np.float32)
    ladder = Ladder.over(values, 64)
    assert 2 <= ladder.count <= 1 << 16
    assert Ladder.from_bytes(ladder.to_bytes()) == ladder
    centers = ladder.centers
    assert np.isfinite(centers).all()
    assert (np.diff(centers) > 0).all()
    assert np.abs(values - centers[ladder.labels(values)].astype(np.float64)).max() <= 0.51 * ladder.step


def test_what_is_no_ladder() -> None:
    for centers in ([1.0], [], [1.0, 1.0], [0.0, 1.0, 3.0], [0.3, 1.3]):
        assert Ladder.of(np.array(centers, np.float32)) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x3f\x00",
        b"\x00\x00" + varint(0) + varint(5),  # a step of 0
        b"\x00\xbf" + varint(0) + varint(5),  # below 0
        b"\x80\x7f" + varint(0) + varint(5),  # infinite
        b"\x7f\x7f" + varint(0) + varint(5),  # whose third rung is
        b"\x00\x3f" + varint(0) + varint(1),
        b"\x00\x3f" + varint(0) + varint((1 << 16) + 1),
        b"\x00\x3f" + varint((1 << 17) + 1) + varint(5),
        b"\x00\x3f" + varint(0) + varint(5) + b"\x00",
    ],
)
def test_hostile_ladders_are_refused(data: bytes) -> None:
    with pytest.raises(MessageError):
        Ladder.from_bytes(data)
