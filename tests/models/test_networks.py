"""The networks: exact parameter counts, the shapes of the literature, training that works, state that crosses."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedcode
from fedcode import models

# name, classes, trained parameters, input
NETWORKS = [
    ("resnet20", 10, 269_722, (3, 32, 32)),
    ("resnet20", 100, 275_572, (3, 32, 32)),
    ("mobilenetv2", 10, 2_236_682, (3, 32, 32)),
    ("mobilenetv2", 100, 2_351_972, (3, 32, 32)),
    ("yamnet", 12, 3_207_756, (1, 96, 64)),
    ("digits", 10, 25_978, (1, 8, 8)),
]


def built(name: str, classes: int, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network: nn.Module = getattr(models, name)(classes=classes)
    return network


@pytest.mark.parametrize(("name", "classes", "parameters", "shape"), NETWORKS)
def test_parameters_and_logits(name: str, classes: int, parameters: int, shape: tuple[int, ...]) -> None:
    network = built(name, classes)
    assert sum(p.numel() for p in network.parameters() if p.requires_grad) == parameters
    assert network.eval()(torch.zeros(2, *shape)).shape == (2, classes)


@pytest.mark.parametrize(("name", "classes", "shape"), [(n, c, s) for n, c, _, s in NETWORKS if c != 100])
def test_a_batch_can_be_learned(name: str, classes: int, shape: tuple[int, ...]) -> None:
    network = built(name, classes)
    generator = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(8, *shape, generator=generator), torch.arange(8)
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    losses = []
    for _ in range(6):
        loss = nn.functional.cross_entropy(network(inputs), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("name", ["resnet20", "mobilenetv2", "yamnet", "digits"])
def test_the_seed_decides_the_first_weights(name: str) -> None:
    once, again, other = (built(name, 10, seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(once[key], again[key]) for key in once)
    assert not all(torch.equal(once[key], other[key]) for key in once)


@pytest.mark.parametrize("name", ["resnet20", "mobilenetv2", "yamnet", "digits"])
def test_a_network_crosses_as_a_message(name: str) -> None:
    state = built(name, 10).state_dict()
    decoded = fedcode.decode(fedcode.encode(state))
    assert set(decoded) == set(state)
    assert all(decoded[key].shape == tuple(state[key].shape) for key in state)


def test_shortcuts_without_parameters_keep_every_second_pixel() -> None:
    block = models.resnet20.__globals__["Block"](2, 4, stride=2)
    image = torch.arange(2 * 4 * 4.0).view(1, 2, 4, 4)
    passed = block.shortcut(image)
    assert passed.shape == (1, 4, 2, 2)
    assert torch.equal(passed[:, 1:3], image[:, :, ::2, ::2])
    assert not passed[:, [0, 3]].any()


def test_nothing_is_drawn_while_training() -> None:
    """Dropout would make a client's result depend on more than its data's order."""
    for name in ("resnet20", "mobilenetv2", "yamnet", "digits"):
        assert not [m for m in built(name, 10).modules() if isinstance(m, nn.Dropout)]
