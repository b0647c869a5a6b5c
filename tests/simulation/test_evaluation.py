"""The model on the test set, in pieces that add up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fedcode.simulation import evaluation
from fedcode.simulation.evaluation import mean, pieces, score
from fedcode.simulation.given import own_dataset
from tests.simulation.small import Network, points


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    made = Network()
    made.state_dict()["norm.running_mean"] += 0.5
    return made


def test_accuracy_and_loss_are_those_of_the_whole_set(model: nn.Module) -> None:
    dataset = own_dataset(points())
    model.eval()
    with torch.no_grad():
        output = model(dataset.test_inputs)
    right = (output.argmax(1) == dataset.test_labels).float().mean()
    loss = nn.functional.cross_entropy(output, dataset.test_labels)
    model.train()  # evaluation must not use the batch's own statistics, nor change any
    before = model.state_dict()["norm.running_mean"].clone()
    accuracy, mean_loss = mean([score(model, dataset, 0, 30)], dataset.classes)
    assert accuracy == pytest.approx(float(right))
    assert mean_loss == pytest.approx(float(loss), rel=1e-5)
    assert (model.state_dict()["norm.running_mean"] == before).all()


def test_pieces_add_up(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = own_dataset(points())
    whole = mean([score(model, dataset, 0, 30)], dataset.classes)
    monkeypatch.setattr(evaluation, "PIECE", 7)
    assert pieces(dataset) == [(0, 7), (7, 14), (14, 21), (21, 28), (28, 30)]
    parts = mean([score(model, dataset, *piece) for piece in pieces(dataset)], dataset.classes)
    assert parts == pytest.approx(whole, rel=1e-5)


def test_without_classes_there_is_a_loss_alone() -> None:
    inputs = np.ones((10, 2), np.float32)
    dataset = own_dataset((inputs, inputs[:, :1], inputs, inputs[:, :1]))
    model = nn.Linear(2, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    assert mean([score(model, dataset, 0, 10)], dataset.classes) == (None, 1.0)


def test_without_test_examples_there_is_nothing() -> None:
    inputs, labels, _, _ = points()
    dataset = own_dataset((inputs, labels, inputs[:0], labels[:0]))
    assert pieces(dataset) == []
    assert mean([], dataset.classes) == (None, None)


def test_a_loss_of_ones_own(model: nn.Module) -> None:
    dataset = own_dataset(points())
    own = score(model, dataset, 0, 30, loss=lambda output, _: output.sum() * 0 + 7)
    assert own.loss == pytest.approx(7 * 30)
