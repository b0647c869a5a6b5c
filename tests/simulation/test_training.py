"""Local training is what a person would write, plus what methods ask of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedcode.data import Dataset
from fedcode.errors import ArgumentError
from fedcode.simulation import draws, train
from fedcode.simulation.given import own_dataset
from fedcode.simulation.job import Bench, Job
from fedcode.simulation.training import batches, make_optimizer
from fedcode.state import flatten
from tests.simulation.small import Network, config, points

INDICES = np.arange(7, 57)
USUAL: dict[str, Any] = {
    **{"epochs": 2, "batch": 16, "optimizer": "adam", "lr": 0.01},
    **{"seed": 3, "round": 2, "client": "client-1"},
}


@pytest.fixture
def dataset() -> Dataset:
    return own_dataset(points())


def network(make: Callable[[], nn.Module] = Network) -> nn.Module:
    torch.manual_seed(0)
    return make()


def values(model: nn.Module) -> np.ndarray[Any, Any]:
    return flatten(model).vector


def by_hand(
    model: nn.Module, dataset: Dataset, optimizer: torch.optim.Optimizer, pull: float = 0.0, mask: Tensor | None = None
) -> float:
    """The same training, written out: the loss of the last epoch."""
    order = torch.Generator().manual_seed(draws.number("order", 3, 2, "client-1"))
    start = [parameter.detach().clone() for parameter in model.parameters()]
    total = 0.0
    model.train()
    for _ in range(2):
        total = 0.0
        for chosen in torch.split(torch.randperm(50, generator=order), 16):
            rows = 7 + chosen
            loss = nn.functional.cross_entropy(model(dataset.train_inputs[rows]), dataset.train_labels[rows])
            total += float(loss.detach()) * len(chosen)
            away = sum(((now - before) ** 2).sum() for now, before in zip(model.parameters(), start, strict=True))
            optimizer.zero_grad()
            torch.autograd.backward(loss + pull / 2 * away)
            optimizer.step()
            if mask is not None:
                first = next(model.parameters())
                first.data *= mask
    return total / 50


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("adam", lambda of: torch.optim.Adam(of, 0.01)),
        ("sgd", lambda of: torch.optim.SGD(of, 0.01)),
        ("momentum", lambda of: torch.optim.SGD(of, 0.01, momentum=0.9)),
    ],
)
def test_it_is_the_plain_loop(name: str, make: Any, dataset: Dataset) -> None:
    ours, theirs = network(), network()
    loss = train(ours, dataset, INDICES, **{**USUAL, "optimizer": name})
    expected = by_hand(theirs, dataset, make(theirs.parameters()))
    assert loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(values(ours), values(theirs), rtol=1e-4, atol=1e-6)
    assert np.abs(values(ours) - values(network())).max() > 0.001  # it moved


def test_the_pull_of_fedprox_is_a_term_of_the_loss(dataset: Dataset) -> None:
    ours, theirs, free = network(), network(), network()
    train(ours, dataset, INDICES, **{**USUAL, "optimizer": "sgd"}, proximal=5.0)
    train(free, dataset, INDICES, **{**USUAL, "optimizer": "sgd"})
    by_hand(theirs, dataset, torch.optim.SGD(theirs.parameters(), 0.01), pull=5.0)
    np.testing.assert_allclose(values(ours), values(theirs), rtol=1e-4, atol=1e-6)
    assert np.abs(values(ours) - values(free)).max() > 1e-4


def test_a_mask_is_obeyed_in_every_step(dataset: Dataset) -> None:
    ours, theirs = network(), network()
    mask = np.ones(flatten(ours).layout.values, bool)
    mask[:64:2] = False  # of the first layer's 128 weights
    for model in (ours, theirs):
        next(model.parameters()).data *= torch.from_numpy(mask[:128]).view(16, 8)
    train(ours, dataset, INDICES, **USUAL, mask=mask)
    by_hand(theirs, dataset, torch.optim.Adam(theirs.parameters(), 0.01), mask=torch.from_numpy(mask[:128]).view(16, 8))
    assert (values(ours)[:64:2] == 0).all()
    assert (values(ours)[1:64:2] != 0).all()
    np.testing.assert_allclose(values(ours), values(theirs), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("method", "settings"), [("fedprox", {"mu": 5.0}), ("fedsparsify", {"initial": 0.5})])
def test_what_a_message_asks_reaches_training(method: str, settings: dict[str, Any]) -> None:
    chosen = config(method, settings=settings, epochs=2)
    found = Bench(chosen, given_points())
    server = chosen.made().server(network(), federation=b"training")
    server.accept("client-1", found.work(Job(1, "client-1", server.message_for("client-1"), b"", INDICES)).reply)
    server.finish_round()
    start = server.model.vector
    result = found.work(Job(2, "client-1", server.message_for("client-1"), b"", INDICES))
    assert result.reply
    trained, weights = values(found.model), server.layout.weights
    if method == "fedsparsify":
        assert 0.4 < (trained[:weights] == 0).mean() < 0.6
    else:
        free = Bench(config(epochs=2), given_points())
        free.work(Job(2, "client-1", config().made().server(server.model).message_for("client-1"), b"", INDICES))
        moved = [np.linalg.norm(vector[:weights] - start[:weights]) for vector in (trained, values(free.model))]
        assert 0 < moved[0] < 0.8 * moved[1]


def given_points() -> Any:
    from fedcode.simulation import given

    return given(config(), points(), Network)


def test_it_depends_on_seed_round_and_client_alone(dataset: Dataset) -> None:
    class Dropping(Network):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(nn.functional.dropout(x, 0.5, self.training))

    def trained(**changes: Any) -> bytes:
        model = network(Dropping)
        torch.manual_seed(int(np.random.default_rng().integers(1000)))  # whatever was drawn before
        train(model, dataset, INDICES, **{**USUAL, **changes})
        return values(model).tobytes()

    assert trained() == trained()
    assert len({trained(), trained(seed=4), trained(round=3), trained(client="client-2")}) == 4


def test_the_callers_generator_stays_as_it_was(dataset: Dataset) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(Network().requires_grad_(True), dataset, INDICES, **USUAL)
    torch.manual_seed(5)
    model = network()
    torch.manual_seed(5)
    train(model, dataset, INDICES, **USUAL)
    assert (torch.rand(3) == expected).all()


def test_what_is_frozen_stays(dataset: Dataset) -> None:
    model = network()
    frozen = next(model.parameters()).requires_grad_(False)
    before = frozen.clone()
    train(model, dataset, INDICES, **USUAL, proximal=0.1)
    assert (frozen == before).all()


@pytest.mark.parametrize(("examples", "size", "lengths"), [(32, 16, [16, 16]), (33, 16, [16, 17]), (1, 16, [1])])
def test_a_lone_example_joins_the_batch_before(examples: int, size: int, lengths: list[int]) -> None:
    parts = list(batches(examples, size, torch.Generator().manual_seed(0)))
    assert [len(part) for part in parts] == lengths
    assert sorted(torch.cat(parts).tolist()) == list(range(examples))


def test_bfloat16_computes_coarsely_and_keeps_float32_weights(dataset: Dataset) -> None:
    fine, coarse = network(), network()
    kinds = []
    coarse.out.register_forward_hook(lambda *call: kinds.append(call[2].dtype))  # type: ignore[union-attr]
    exact = train(fine, dataset, INDICES, **USUAL)
    loss = train(coarse, dataset, INDICES, **USUAL, precision="bf16")
    assert set(kinds) == {torch.bfloat16}
    assert {value.dtype for value in coarse.parameters()} == {torch.float32}
    assert loss == pytest.approx(exact, rel=0.05)
    assert not np.array_equal(values(fine), values(coarse))


def test_compiled_the_compiled_network_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def kernels(graph: Any, inputs: list[Any]) -> Any:  # as a compiler gets them, here left as they are
        calls.append(len(inputs))
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=kernels))
    message = config().made().server(network(), federation=b"training").message_for("client-1")
    job = Job(1, "client-1", message, b"", INDICES)
    plain, with_compile = Bench(config(), given_points()), Bench(config(compile=True), given_points())
    assert plain.work(job).reply == with_compile.work(job).reply
    trained = len(calls)
    assert trained > 0
    assert plain.look(flatten(network()), [(0, 30)]) == with_compile.look(flatten(network()), [(0, 30)])
    assert len(calls) > trained


def test_an_optimizer_that_is_not_there() -> None:
    with pytest.raises(ArgumentError, match="there are adam, sgd, momentum"):
        make_optimizer("lion", [], 0.1)
