"""FedProx against algorithm 2 of Li et al.: FedAvg's ends, and a pull towards the start in local training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import fedcode
from fedcode.data import Dataset
from fedcode.errors import ArgumentError
from fedcode.simulation.training import train
from tests.methods.reference import rest_of, weighted_mean
from tests.methods.rounds import TRAINED, Ends, assert_same, model


def test_three_rounds_are_fedavgs_with_mu_asked_for() -> None:
    ends, state = Ends.of("fedprox", mu=0.1), model()
    for _ in range(3):
        exchanges = ends.round()
        for found in exchanges.values():
            assert found.task.asks == {"proximal": 0.1}
            assert_same(found.start, state)
        trained = {client: found.trained for client, found in exchanges.items()}
        state = weighted_mean(trained, TRAINED) | rest_of(trained)
        assert_same(ends.state, state)


@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_local_training_minimises_the_loss_and_half_mu_of_the_squared_distance(mu: float) -> None:
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=(4, 1)).astype(np.float32)
    network = nn.Linear(3, 1, bias=False)
    start = rng.normal(size=3)
    with torch.no_grad():
        network.weight.copy_(torch.tensor(start[None, :]))
    data = torch.from_numpy(inputs), torch.from_numpy(targets)
    train(
        network, Dataset("line", *data, *data, classes=0), np.arange(4),
        epochs=5, batch=4, optimizer="sgd", lr=0.1, seed=0, round=1, client="client-0", proximal=mu,
    )  # fmt: skip
    weights = start.copy()
    for _ in range(5):  # one batch an epoch, whatever its order
        loss = 2 * inputs.T.astype(np.float64) @ (inputs @ weights - targets[:, 0]) / 4
        weights -= 0.1 * (loss + mu * (weights - start))
    np.testing.assert_allclose(network.weight.detach().numpy()[0], weights, rtol=1e-5)


def test_the_count_and_the_memory_are_fedavgs() -> None:
    prox, plain = Ends.of("fedprox"), Ends.of("fedavg")
    found, other = prox.exchange("client-0"), plain.exchange("client-0")
    assert prox.memories["client-0"] == b""
    for message, same in ((found.message, other.message), (found.reply, other.reply)):
        counted = prox.server.method.paper_bits(message, prox.server.layout)
        assert counted == plain.server.method.paper_bits(same, plain.server.layout)


@pytest.mark.parametrize("mu", [-0.1, float("inf"), float("nan")])
def test_a_wrong_mu_is_named(mu: float) -> None:
    with pytest.raises(ArgumentError, match="mu must be 0 or more: got"):
        fedcode.method("fedprox", mu=mu)
