"""The server's optimiser: what each does with the mean of the replies, step by step as the papers write it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedcode
from fedcode.averaging import Averaging
from fedcode.ends import Turn
from fedcode.errors import FedcodeError
from fedcode.state import State, flatten


def model() -> State:
    rng = np.random.default_rng(0)
    return flatten({"w": rng.normal(size=(3, 4)).astype(np.float32), "n.running_mean": np.ones(2, np.float32)})


def steps(means: list[Any], **settings: Any) -> list[State]:
    """The models after rounds in which the replies' mean was each of `means`."""
    method: Any = fedcode.method("fedavg", **settings)
    assert isinstance(method, Averaging)
    turn = Turn(1, model(), None, {}, np.random.default_rng(0))
    found = []
    for mean in means:
        turn = replace(turn, number=turn.number + 1, model=method.moved(turn, mean))
        found.append(turn.model)
    return found


def means(count: int = 4) -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.normal(size=14) for _ in range(count)]


def test_none_takes_the_mean_itself() -> None:
    for mean, found in zip(means(), steps(means()), strict=True):
        assert np.array_equal(found.vector, mean.astype(np.float32))


def test_a_learning_rate_goes_part_of_the_way() -> None:
    before = model().weights.astype(np.float64)
    found = steps(means(1), server_lr=0.25)[0]
    assert found.weights == pytest.approx(before + 0.25 * (means(1)[0][:12] - before), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["momentum", "nesterov", "adam"])
def test_each_optimiser_follows_its_formula(name: str) -> None:
    lr, beta = 0.3, 0.6
    weights = model().weights.astype(np.float64)
    speed, square = np.zeros(12), np.zeros(12)
    for mean, found in zip(means(), steps(means(), server=name, server_lr=lr, server_momentum=beta), strict=True):
        change = mean[:12] - weights
        if name == "adam":
            speed = beta * speed + (1 - beta) * change
            square = 0.99 * square + 0.01 * change**2
            step = speed / (np.sqrt(square) + 1e-3)
        else:
            speed = beta * speed + change
            step = speed if name == "momentum" else change + beta * speed
        weights = (weights + lr * step).astype(np.float32).astype(np.float64)
        assert found.weights == pytest.approx(weights, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", ["none", "momentum", "nesterov", "adam"])
def test_statistics_are_the_mean_whatever_the_optimiser(name: str) -> None:
    for mean, found in zip(means(), steps(means(), server=name, server_lr=0.5), strict=True):
        assert np.array_equal(found.statistics, mean[12:].astype(np.float32))


@pytest.mark.parametrize("name", ["none", "momentum", "nesterov", "adam"])
def test_whatever_comes_in_weights_stay_finite(name: str) -> None:
    huge = [np.full(14, sign * 1e300) for sign in (1, -1, 1, 1, -1)]
    with np.errstate(all="raise", under="ignore"):
        for found in steps(huge, server=name, server_lr=3.0, server_momentum=0.9):
            assert np.isfinite(found.vector).all()


@pytest.mark.parametrize(
    "settings", [{"server": "sgd"}, {"server_lr": 0.0}, {"server_lr": -1.0}, {"server_lr": float("inf")},
                 {"server_lr": float("nan")}, {"server_momentum": 1.0}, {"server_momentum": -0.1}]
)  # fmt: skip
def test_settings_out_of_range_are_told(settings: dict[str, Any]) -> None:
    with pytest.raises(FedcodeError, match=next(iter(settings))):
        fedcode.method("fedavg", **settings)
