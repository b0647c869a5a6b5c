"""A network that does not fit the data is refused before anything is trained or kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedcode
from fedcode.errors import ArgumentError
from fedcode.simulation.config import NETWORKS, Config
from fedcode.simulation.given import first_model, given
from fedcode.simulation.trial import INPUTS, check_fit
from tests.simulation import small

IMAGES = np.zeros((60, 3, 40, 40), np.float32)


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(small.FEATURES, small.CLASSES)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.linear(x), x


class Broken(Pair):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        del x
        raise KeyError("of its own")


def one_number_a_row(output: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output, labels, reduction="none")


NUMBERS = (small.points()[0], small.points()[0][:, 0])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"data": "digits", "model": "resnet20"}, "made for inputs of shape 3 x 32 x 32, and these are of shape 1 x 8"),
        ({"data": "digits", "model": "resnet20"}, "The network for these is digits"),
        ({"data": "digits", "model": nn.Linear(9, 10)}, "your network cannot take digits: RuntimeError"),
        ({"model": nn.Linear(9, 3)}, "It is given batches of shape 8 x 8 (torch.float32)"),
        ({"model": nn.Linear(9, 3), "batch": 4}, "It is given batches of shape 4 x 8 (torch.float32)"),
        ({"model": Broken()}, "your network cannot take your data: KeyError: 'of its own'"),
        ({"model": nn.Linear(8, 2)}, "outputs of shape 8 x 2 for 8 examples of 3 classes; 8 x 3 is expected"),
        ({"model": nn.Linear(8, 2)}, "Give its last layer 3 outputs"),
        ({"model": nn.Sequential(nn.Linear(8, 3), nn.Flatten(0))}, "returns outputs of shape 24 for 8 examples"),
        ({"model": Pair()}, "returns tuple; a tensor is expected"),
        ({"model": nn.Linear(8, 1), "data": NUMBERS}, "outputs of shape 8 x 1 for labels of shape 8; the squared"),
        ({"model": nn.Linear(8, 3), "loss": one_number_a_row}, "cannot be trained with this loss: RuntimeError"),
        ({"model": nn.Linear(8, 2), "loss": nn.CrossEntropyLoss()}, "and labels of shape 8 (torch.int64)"),
    ],
)
def test_what_does_not_fit_is_said_before_the_first_round(settings: dict[str, Any], said: str, tmp_path: Path) -> None:
    usual = {"data": small.points(), "partition": "equal", "clients": 2, "rounds": 1, "workers": 1}
    with pytest.raises(ArgumentError) as caught:
        fedcode.simulate("fedavg", out=tmp_path / "run", **{**usual, **settings})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_test_input_that_only_evaluation_refuses() -> None:
    class Trained(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            if not self.training:
                raise ValueError("it cannot be evaluated")
            return super().forward(x)

    config = small.config()
    with pytest.raises(ArgumentError, match="ValueError: it cannot be evaluated"):
        check_fit(config, given(config, small.points(), Trained(8, 3)))


def test_more_outputs_than_classes_and_other_sizes_of_image_fit() -> None:
    config = small.config()
    check_fit(config, given(config, small.points(), nn.Linear(8, 5)))
    config = small.config(network="resnet20")
    check_fit(config, given(config, (IMAGES, np.arange(60) % 3)))


def test_nothing_is_changed_by_it() -> None:
    config, model = small.config(), small.Network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    check_fit(config, given(config, small.points(), model))
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())
    assert all(value.grad is None for value in model.parameters())


def test_one_example_is_enough() -> None:
    config = small.config()
    inputs, labels = np.zeros((1, 8), np.float32), np.array([2])
    check_fit(config, given(config, (inputs, labels, inputs[:0], labels[:0]), small.Network()))


def test_what_the_networks_are_said_to_be_made_for() -> None:
    assert set(INPUTS) == set(NETWORKS)
    for name, shape in INPUTS.items():
        data = (np.zeros((4, *shape), np.float32), np.array([0, 1, 0, 1]))
        config = Config(dataset="own", network=name)
        found = given(config, data)
        check_fit(config, found)
        assert first_model(config, found)(torch.zeros(2, *shape)).shape == (2, 2)
