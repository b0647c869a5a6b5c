"""The server's optimiser over every method that averages, and its rules written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedcode
from fedcode import methods
from fedcode.averaging import OPTIMISERS, Averaging
from fedcode.client import receive, reply
from fedcode.errors import ArgumentError
from fedcode.rehearsal import Rehearsal, same

AVERAGING = [name for name in methods.names() if issubclass(methods.class_of(name), Averaging)]


def test_every_method_that_averages_has_one() -> None:
    assert set(methods.names()) - set(AVERAGING) == {"gtopk"}  # whose server sums and picks
    for name in AVERAGING:
        assert methods.options(name)["server"] == "none"
        assert {"server_lr", "server_momentum"} <= set(methods.options(name))


@pytest.mark.parametrize("name", AVERAGING)
def test_each_makes_another_model_and_the_default_makes_the_mean(name: str) -> None:
    found = {}
    for server in OPTIMISERS:
        rehearsal = Rehearsal.of(fedcode.method(name, server=server, server_lr=0.5))
        rehearsal.rounds(3)
        found[server] = rehearsal.server.model
        assert np.isfinite(found[server].vector).all()
    plain = Rehearsal.of(fedcode.method(name, server_lr=0.5))
    plain.rounds(3)
    assert same(plain.server.model, found["none"])
    assert len({model.vector.tobytes() for model in found.values()}) == len(OPTIMISERS)


def trained(server: str, goals: list[Any], **settings: Any) -> list[Any]:
    """What the server's weights are after each round in which one client answers with a goal."""
    end = fedcode.method("fedavg", server=server, **settings).server({"w": np.zeros(2, np.float32)})
    found = []
    for goal in goals:
        task = receive(end.message_for("a"))
        end.accept("a", reply(task, {"w": np.array(goal, np.float32)}, examples=3, client="a")[0])
        end.finish_round()
        found.append(end.state["w"].astype(np.float64))
    return found


GOALS = [[1.0, -2.0], [0.5, 0.25], [3.0, -1.0], [-1.0, 0.0]]


def written_out(server: str, lr: float, beta: float) -> list[Any]:
    """Hsu et al., 2019 (momentum); Reddi et al., 2021, algorithm 2 (Adam), whose tau is 1e-3 and beta 2 0.99."""
    weights, speed, square, found = np.zeros(2), np.zeros(2), np.zeros(2), []
    for goal in np.array(GOALS):
        change = goal - weights
        if server == "none":
            step = change
        elif server == "adam":
            speed = beta * speed + (1 - beta) * change
            square = 0.99 * square + 0.01 * change**2
            step = speed / (np.sqrt(square) + 1e-3)
        else:
            speed = beta * speed + change
            step = speed if server == "momentum" else change + beta * speed
        weights = weights + lr * step
        found.append(weights)
    return found


@pytest.mark.parametrize("server", OPTIMISERS)
@pytest.mark.parametrize(("lr", "beta"), [(1.0, 0.5), (0.1, 0.9), (0.5, 0.0)])
def test_the_rules_written_out(server: str, lr: float, beta: float) -> None:
    found = trained(server, GOALS, server_lr=lr, server_momentum=beta)
    np.testing.assert_allclose(found, written_out(server, lr, beta), rtol=1e-5, atol=1e-6)


def test_statistics_are_the_mean_whatever_the_optimiser() -> None:
    model = {"w": np.zeros(2, np.float32), "n.running_mean": np.zeros(2, np.float32)}
    server = fedcode.method("fedavg", server="momentum", server_lr=0.1).server(model)
    for goal in (1.0, 5.0):
        task = receive(server.message_for("a"))
        after = {"w": np.ones(2, np.float32), "n.running_mean": np.full(2, goal, np.float32)}
        server.accept("a", reply(task, after, examples=1, client="a")[0])
        server.finish_round()
        assert server.state["n.running_mean"].tolist() == [goal, goal]


def test_a_round_without_a_reply_moves_nothing() -> None:
    rehearsal = Rehearsal.of(fedcode.method("fedavg", server="momentum", server_momentum=0.9))
    rehearsal.rounds(2)
    before, speed = rehearsal.server.model, rehearsal.server.kept["optimiser.speed"].copy()
    rehearsal.server.message_for("a")
    rehearsal.server.finish_round()
    assert same(rehearsal.server.model, before)
    np.testing.assert_array_equal(rehearsal.server.kept["optimiser.speed"], speed)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"server": "sgd"}, "server must be one of none, momentum, nesterov, adam: got 'sgd'"),
        ({"server_lr": 0}, "server_lr must be above 0"),
        ({"server_momentum": 1}, "server_momentum must be from 0 to below 1"),
        ({"server_momentum": -0.1}, "server_momentum must be from 0 to below 1"),
    ],
)
def test_a_wrong_setting_is_told(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        fedcode.method("delta", **settings)
