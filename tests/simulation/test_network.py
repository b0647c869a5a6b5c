"""The quick way in and out of a network is the careful one's equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedcode.errors import WrongModelError
from fedcode.simulation.network import Network
from fedcode.state import State, flatten
from tests.simulation import small


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.out = nn.Linear(3, 5)
        self.out.weight = self.embedding.weight


class Replacing(nn.Module):
    """A module whose buffer is another tensor after every step."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + x.mean(0)
        result: Tensor = self.linear(x)
        return result


class Empty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("nothing", torch.zeros(0, 3))
        self.register_buffer("many", torch.tensor(7, dtype=torch.int32))


class Renaming(nn.Module):
    """A module whose state has other names than its tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def state_dict(self, *_: object, **__: object) -> dict[str, Tensor]:  # type: ignore[override]
        return {f"other.{name}": value.detach() for name, value in self.linear.named_parameters()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:  # type: ignore[override]
        for name, value in self.linear.named_parameters():
            value.data.copy_(state[f"other.{name}"])


MODULES: dict[str, Callable[[], nn.Module]] = {
    "usual": small.Network,
    "tied": Tied,
    "bfloat16": lambda: nn.Linear(4, 3).to(torch.bfloat16),
    "one value": lambda: nn.Linear(1, 1, bias=False),
    "replacing": Replacing,
    "empty": Empty,
    "renaming": Renaming,
    "channels last": lambda: nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last),  # type: ignore[call-overload]
}


def changed(state: State) -> State:
    rng = np.random.default_rng(0)
    vector = rng.standard_normal(state.vector.size).astype(np.float32)
    vector.setflags(write=False)  # as a message's values are
    return State(state.layout, vector, state.counters + 3)


@pytest.mark.parametrize("name", MODULES)
def test_in_and_out_as_the_careful_way_has_it(name: str) -> None:
    ours, theirs = MODULES[name](), MODULES[name]()
    network, state = Network(ours), changed(flatten(theirs))
    network.load(state)
    state.load_into(theirs)
    for key, value in theirs.state_dict().items():
        assert ours.state_dict()[key].dtype == value.dtype
        assert torch.equal(ours.state_dict()[key], value)
    got, expected = network.state(state.layout), flatten(theirs)
    assert got.vector.tobytes() == expected.vector.tobytes()
    assert got.counters.tolist() == expected.counters.tolist()


def test_a_tensor_that_was_replaced_is_found() -> None:
    module = Replacing()
    network, layout = Network(module), flatten(module).layout
    network.load(flatten(module))
    module(torch.ones(4, 2))
    assert network.state(layout).statistics.tolist() == [1.0, 1.0] or network.state(layout).vector[-2:].tolist() == [
        1,
        1,
    ]
    network.load(State(layout, np.full(layout.values, 5, np.float32), np.zeros(0, np.int64)))
    assert module.mean.tolist() == [5.0, 5.0]


def test_counters_of_64_bits_without_a_sign_take_the_careful_way() -> None:
    module = nn.Linear(2, 2)
    module.register_buffer("steps", torch.tensor(3, dtype=torch.uint64))
    network, state = Network(module), flatten(module)
    network.load(State(state.layout, state.vector + 1, state.counters + 1))
    assert network.state(state.layout).counters.tolist() == [4]


def test_the_state_of_another_model_is_refused() -> None:
    network, other = Network(nn.Linear(2, 2)), flatten(nn.Linear(3, 2))
    with pytest.raises(WrongModelError):
        network.load(other)
    with pytest.raises(WrongModelError):
        network.state(other.layout)
