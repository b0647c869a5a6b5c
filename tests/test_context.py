"""Labels given what both ends hold: back exactly, and close to the conditional entropy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from fedcode import cluster, context
from fedcode.clustering import nearest
from fedcode.coding import decode_labels, encode_labels
from fedcode.context import difference, follow
from fedcode.packing import label_type


def conditional_entropy(row: Any, given_it: Any, k: int) -> float:
    """The bytes that labels cost at best when each place's other label is known: H(row | given)."""
    both = np.bincount(given_it.astype(np.int64) * k + row, minlength=k * k).reshape(k, k).astype(float)
    of = np.broadcast_to(both.sum(1, keepdims=True), both.shape)
    seen = both > 0
    return float((both[seen] * np.log2(of[seen] / both[seen])).sum()) / 8


@pytest.fixture
def _one_thread() -> Iterator[None]:
    """The layers are small: threads that wait for each other would take most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def federated(rounds: int, k: int, clients: int = 3) -> list[tuple[str, Any, Any]]:
    """What a real run on the digits sends, clustered both ways: labels, and those of the base that both ends hold."""
    from sklearn.datasets import load_digits

    torch.manual_seed(0)
    images, classes = load_digits(return_X_y=True)
    inputs, targets = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(classes)
    network = torch.nn.Sequential(
        torch.nn.Linear(64, 384), torch.nn.ReLU(), torch.nn.Linear(384, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
    )
    parameters = list(network.parameters())
    model = torch.nn.utils.parameters_to_vector(parameters).detach().numpy().copy()
    held = None
    sent: list[tuple[str, Any, Any]] = []
    for number in range(rounds):
        book = cluster(model, k, start=None if held is None else held.centers)
        if held is not None:
            sent.append((f"broadcast {number}", book, held))
        held = book
        total = np.zeros(model.size)
        for client in range(clients):
            torch.nn.utils.vector_to_parameters(torch.from_numpy(book.decode()), parameters)
            optimiser = torch.optim.Adam(parameters, 1e-3)
            for _ in range(2):
                order = torch.randperm(len(inputs) // clients) * clients + client
                for batch in torch.split(order, 64):
                    optimiser.zero_grad()
                    torch.nn.functional.cross_entropy(network(inputs[batch]), targets[batch]).backward()  # type: ignore[no-untyped-call]
                    optimiser.step()
            trained = torch.nn.utils.parameters_to_vector(parameters).detach().numpy()
            reply = cluster(trained, k, start=book.centers)
            if client == 0:
                sent.append((f"reply {number}", reply, book))
            total += reply.decode()
        model = (total / clients).astype(np.float32)
    return sent


@pytest.mark.usefixtures("_one_thread")
@pytest.mark.parametrize("k", [16, 64])
def test_labels_of_a_real_run_cost_four_per_cent_above_their_conditional_entropy_at_most(k: int) -> None:
    sent = federated(5, k)
    assert len(sent) == 9
    for name, book, held in sent:
        expected = nearest(held.centers, book.centers)[held.labels]
        data = encode_labels(book.labels, k, context=expected)
        least = conditional_entropy(book.labels, held.labels, k)
        assert len(data) <= 1.04 * least, f"{name}: {len(data)} bytes for {least:.0f}"
        assert len(data) < 0.7 * len(encode_labels(book.labels, k))
        assert np.array_equal(decode_labels(data, book.labels.size, k, context=expected), book.labels)


@pytest.mark.parametrize("k", [16, 64, 256])
@pytest.mark.parametrize("moved", [0.02, 0.2, 0.6])
def test_labels_of_drifting_weights_cost_four_per_cent_above_it_at_most(k: int, moved: float) -> None:
    rng = np.random.default_rng(9)
    weights = rng.laplace(0, 0.02, 400_000).astype(np.float32)
    held = cluster(weights, k)
    weights = held.decode() + rng.normal(0, moved * 0.3 * 0.04 / k**0.7, weights.size).astype(np.float32)
    book = cluster(weights, k, start=held.centers)
    expected = nearest(held.centers, book.centers)[held.labels]
    data = encode_labels(book.labels, k, context=expected)
    least = conditional_entropy(book.labels, held.labels, k)
    assert len(data) <= 1.04 * least + 64
    assert np.array_equal(decode_labels(data, book.labels.size, k, context=expected), book.labels)


# ---- differences


@pytest.mark.parametrize("k", [2, 3, 4, 5, 64, 255, 256, 257, 65535, 65536])
def test_a_difference_leads_back_wherever_the_labels_stand(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = np.unique(np.clip([0, 1, 2, k // 2 - 1, k // 2, k // 2 + 1, k - 2, k - 1], 0, k - 1)).astype(label_type(k))
    row, expected = (found.reshape(-1) for found in np.meshgrid(edges, edges))
    steps = difference(row, expected, k)
    assert int(steps.max()) < k
    assert np.array_equal(follow(steps, expected, k), row)
    assert (steps[row == expected] == 0).all()
    monkeypatch.setenv("FEDCODE_NUMBA", "0")
    assert np.array_equal(difference(row, expected, k), steps)
    assert np.array_equal(follow(steps, expected, k), row)


def test_near_differences_are_small_numbers_in_turn() -> None:
    expected = np.full(5, 10, np.uint8)
    assert difference(np.array([10, 9, 11, 8, 12], np.uint8), expected, 64).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_the_number_of_threads_changes_no_difference(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_LEAST", 10)
    monkeypatch.setenv("FEDCODE_THREADS", threads)
    rng = np.random.default_rng(3)
    row, expected = rng.integers(0, 64, (2, 1000)).astype(np.uint8)
    steps = difference(row, expected, 64)
    assert steps.tolist() == [2 * d if d < 32 else 2 * (64 - d) - 1 for d in ((row - expected) % 64).tolist()]
    assert np.array_equal(follow(steps, expected, 64), row)
