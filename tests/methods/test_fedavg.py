"""FedAvg and its server's optimisers against McMahan et al., algorithm 1, and Reddi et al., algorithm 2."""

from __future__ import annotations

import numpy as np
import pytest

import fedcode
from fedcode.errors import ArgumentError
from fedcode.wire import Section
from tests.methods.reference import mean_row, rest_of, weighted_mean
from tests.methods.rounds import STATISTICS, TRAINED, WEIGHTS, Ends, Floats, assert_same, model, placed, row, sent_row


def test_three_rounds_as_the_algorithm_says() -> None:
    ends, state = Ends.of("fedavg"), model()
    for _ in range(3):
        exchanges = ends.round()
        for found in exchanges.values():
            assert_same(found.start, state)
        trained = {client: found.trained for client, found in exchanges.items()}
        state = weighted_mean(trained, TRAINED) | rest_of(trained)
        assert_same(ends.state, state)


def test_what_travels_is_the_vector_as_float32() -> None:
    found = Ends.of("fedavg").exchange("client-0")
    for message, state in ((found.message, found.start), (found.reply, found.trained)):
        values = np.frombuffer(message.section(Section.VALUES), "<f4")
        np.testing.assert_array_equal(values, row(state, (*TRAINED, *STATISTICS)))


def test_nothing_is_kept_by_a_client_and_the_paper_counts_raw_models() -> None:
    ends = Ends.of("fedavg")
    found = ends.exchange("client-0")
    assert ends.memories["client-0"] == b""
    method = ends.server.method
    assert method.paper_bits(found.message, ends.server.layout) == 32 * WEIGHTS
    assert method.paper_bits(found.reply, ends.server.layout) == 32 * WEIGHTS


@pytest.mark.parametrize("optimiser", ["none", "momentum", "nesterov", "adam"])
def test_the_servers_optimiser_takes_the_mean_change_as_a_gradient(optimiser: str) -> None:
    beta, lr = 0.6, 0.5
    ends = Ends.of("fedavg", server=optimiser, server_momentum=beta, server_lr=lr)
    weights = row(model())
    speed: Floats = np.zeros(WEIGHTS)
    square: Floats = np.zeros(WEIGHTS)
    for _ in range(3):
        exchanges = ends.round()
        change = mean_row({client: row(found.trained) for client, found in exchanges.items()}) - weights
        if optimiser == "none":
            step = change
        elif optimiser == "adam":
            speed = beta * speed + (1 - beta) * change
            square = 0.99 * square + 0.01 * change**2
            step = speed / (np.sqrt(square) + 1e-3)
        else:
            speed = beta * speed + change
            step = speed if optimiser == "momentum" else change + beta * speed
        weights = sent_row(weights + lr * step)
        trained = {client: found.trained for client, found in exchanges.items()}
        assert_same(ends.state, placed(weights, model()) | rest_of(trained))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"server": "sgd"}, "server must be one of none, momentum, nesterov, adam: got 'sgd'"),
        ({"server_lr": 0}, "server_lr must be above 0: got 0"),
        ({"server_momentum": 1}, "server_momentum must be from 0 to below 1: got 1"),
        ({"server_lrr": 1}, "fedavg has no setting 'server_lrr'.*Did you mean 'server_lr'"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_may_be(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        fedcode.method("fedavg", **settings)
