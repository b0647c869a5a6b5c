"""Partitions: nothing lost, nothing twice, the same for the same draw, and as skewed as asked for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedcode.data import partition
from fedcode.errors import ArgumentError, DataError

LABELS = np.arange(5000) % 10


def draw(kind: str, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    if kind == "equal":
        return list(partition.equal(LABELS, 10, rng))
    if kind == "shards":
        return list(partition.shards(LABELS, 10, rng, per_client=2))
    return list(partition.dirichlet(LABELS, 10, float(kind), rng))


KINDS = ["equal", "shards", "10", "0.1"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_example_is_held_once_and_indices_ascend(kind: str) -> None:
    parts = draw(kind)
    assert len(parts) == 10
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(LABELS)))
    assert all((np.diff(part) > 0).all() for part in parts)


@pytest.mark.parametrize("kind", KINDS)
def test_the_generator_alone_decides(kind: str) -> None:
    once, again, other = draw(kind), draw(kind), draw(kind, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(once, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(once, other, strict=True))


def test_skew_is_what_was_asked_for() -> None:
    assert partition.concentration(LABELS, draw("10")) == 1.0
    assert partition.concentration(LABELS, draw("0.1")) < 0.7
    assert max(len(np.unique(LABELS[part])) for part in draw("shards")) <= 3
    sizes = [len(part) for part in draw("equal")]
    assert max(sizes) - min(sizes) <= 1


def test_shares_of_a_class_are_dirichlet() -> None:
    # a share of Dir_N(beta) has the mean 1/N and the variance (1/N)(1 - 1/N) / (N beta + 1)
    shares = []
    for seed in range(400):
        parts = partition.dirichlet(np.zeros(1000), 5, 1.0, np.random.default_rng(seed), minimum=0)
        shares.append([len(part) / 1000 for part in parts])
    measured = np.array(shares)
    np.testing.assert_allclose(measured.mean(0), 0.2, atol=0.04)  # four deviations of a mean of 400
    np.testing.assert_allclose(measured.var(), 0.2 * 0.8 / 6, rtol=0.15)


def test_a_minimum_that_is_kept_and_one_that_cannot_be() -> None:
    for seed in range(20):
        parts = partition.dirichlet(LABELS, 10, 0.1, np.random.default_rng(seed), minimum=50)
        assert min(len(part) for part in parts) >= 50
    with pytest.raises(ArgumentError, match=r"beta=0\.001 gave each at least 400: of 1000 draws"):
        partition.dirichlet(LABELS, 10, 0.001, np.random.default_rng(0), minimum=400)


@pytest.mark.parametrize(
    ("clients", "beta", "complaint"),
    [
        (0, 1.0, "at least 1 client"),
        (600, 1.0, "need 6000"),
        (10, 0.0, "beta must be"),
        (10, float("nan"), "beta must be"),
    ],
)
def test_what_cannot_be_split(clients: int, beta: float, complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint):
        partition.dirichlet(LABELS, clients, beta, np.random.default_rng(0))
    with pytest.raises(ArgumentError, match="one-dimensional"):
        partition.equal(LABELS.reshape(10, -1), 2, np.random.default_rng(0))


def test_it_is_kept_in_a_file(tmp_path: Path) -> None:
    parts = partition.dirichlet(LABELS, 10, 0.1, np.random.default_rng(0))
    partition.save(tmp_path / "partition.json", parts)
    again = partition.load(tmp_path / "partition.json", len(LABELS))
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"clients": [[0, 1], [1]]},
        {"clients": [[0, 1]]},
        {"clients": [["a"]]},
        {"clients": None},
        {"clients": [[0, 2**80, 1]]},
    ],
)
def test_a_file_that_is_no_partition_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "partition.json"
    path.write_text(json.dumps({"format": "fedcode partition 1", "examples": 3, "clients": [[0, 1], [2]]} | change))
    with pytest.raises(DataError, match=r"partition\.json is no valid partition"):
        partition.load(path)


def test_a_file_that_is_missing_or_of_another_set(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        partition.load(tmp_path / "nothing.json")
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        partition.load(tmp_path / "text.json")
    partition.save(tmp_path / "p.json", [np.arange(3)])
    with pytest.raises(DataError, match="divides 3 examples, the data set has 4"):
        partition.load(tmp_path / "p.json", 4)
