"""Codebooks against the exact optimum, found by an oracle of other people's making."""

from __future__ import annotations

from functools import cache
from typing import Any

import ckmeans
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from sklearn.datasets import load_digits

import fedcode
from fedcode import programme
from fedcode.histogram import ordered
from fedcode.row import row_of

Floats = npt.NDArray[np.float32]


@cache
def trained() -> Floats:
    """The weights of a small network with convolutions and BatchNorm after some training on digits."""
    images, classes = load_digits(return_X_y=True)
    inputs = torch.tensor(images / 16, dtype=torch.float32).view(-1, 1, 8, 8)
    targets = torch.tensor(classes)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = torch.nn.Sequential(
            torch.nn.Conv2d(1, 24, 3, padding=1),
            torch.nn.BatchNorm2d(24),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(24, 48, 3, padding=1),
            torch.nn.BatchNorm2d(48),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(192, 1000),
            torch.nn.ReLU(),
            torch.nn.Linear(1000, 10),
        )
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of so small a network, more would wait for one another
    for _ in range(2):
        for batch in range(0, 1792, 64):
            loss = torch.nn.functional.cross_entropy(network(inputs[batch:][:64]), targets[batch:][:64])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    torch.set_num_threads(threads)
    assert loss.item() < 0.5
    return np.concatenate([weight.detach().numpy().reshape(-1) for weight in network.parameters()])


def made() -> dict[str, Floats]:
    """Values of the shapes that occur: layers of many widths, scales near 1, spikes, gaps and far outliers."""
    rng = np.random.default_rng(1)
    size = 60_000
    layers = rng.standard_normal(size) * np.repeat(rng.lognormal(-4, 1, size // 100), 100)
    layers[:200] = 1 + 0.1 * rng.standard_normal(200)
    found: dict[str, Any] = {
        "layers": layers,
        "many layers": np.resize(layers, 90_000) * rng.normal(1, 0.05, 90_000),
        "laplacian": rng.laplace(size=size),
        "uniform": rng.random(size),
        "heavy tails": rng.standard_t(2, size),
        "cauchy": rng.standard_cauchy(size),
        "offset": 1000 + rng.standard_normal(size),
        "outlier": np.append(layers, 1e20),
        "mostly zero": np.where(rng.random(size) < 0.9, 0, layers),
        "one-sided": np.maximum(layers, 0),
        "clumps": np.where(rng.random(size) < 0.5, 1e-4, 1e-3) * rng.standard_normal(size) + rng.choice([1, -3], size),
        "integers": rng.integers(-100, 100, size),
        "bfloat16": (layers.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32),
        "tiny": 1e-35 * layers,
        "huge": 1e36 * layers,
        "sorted": np.sort(layers)[::2],
        "just too many to sort": layers[:4500],
    }
    return {name: values.astype(np.float32) for name, values in found.items()}


MADE = made()


def error(values: Floats, codebook: fedcode.Codebook) -> float:
    """The squared error."""
    return float(np.square(values.astype(np.float64) - codebook.decode()).sum())


def optimum(values: Floats, k: int) -> float:
    """The least squared error that is possible."""
    groups = ckmeans.ckmeans(values, k)
    return float(sum(np.square(group - group.mean()).sum() for group in groups))


@cache
def least_of(name: str, k: int) -> float:
    return optimum(MADE[name], k)


@pytest.mark.parametrize("k", [16, 64, 255])
def test_trained_weights_are_within_a_thousandth_of_the_optimum(k: int) -> None:
    values = trained()
    assert values.size > 200_000
    assert error(values, fedcode.cluster(values, k)) <= 1.001 * optimum(values, k)


@pytest.mark.parametrize("k", [3, 64, 200])
@pytest.mark.parametrize("name", MADE)
def test_made_weights_are_within_a_thousandth_of_the_optimum(name: str, k: int) -> None:
    values, least = MADE[name], least_of(name, k)
    codebook = fedcode.cluster(values, k)
    assert error(values, codebook) <= 1.001 * least
    # from earlier centres too, whether they are near or far off
    drift = (np.random.default_rng(k).normal(1, 0.02, codebook.k) * codebook.centers).astype(np.float32)
    for start in (codebook.centers, np.sort(drift), codebook.centers[: codebook.k // 2]):
        assert error(values, fedcode.cluster(values, k, start=start)) <= 1.001 * least


@pytest.mark.parametrize("k", [1000, 4096])
@pytest.mark.parametrize("name", ["layers", "many layers", "uniform", "offset", "outlier", "bfloat16"])
def test_many_centers_are_within_a_thousandth_of_the_optimum(
    name: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than the oracle can: beside the programme over every value, which agrees with it elsewhere."""
    values = MADE[name]
    found = error(values, fedcode.cluster(values, k))
    monkeypatch.setattr(programme, "FEW", values.size)
    least = fedcode.snap(values, programme.partition(ordered(row_of(values)), k)[0])
    assert found <= 1.001 * float(np.square(values.astype(np.float64) - least).sum())


@pytest.mark.parametrize("k", [3, 64])
@pytest.mark.parametrize("name", ["layers", "outlier", "mostly zero"])
def test_the_plain_path_is_within_a_hundredth(name: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCODE_NUMBA", "0")
    values = MADE[name]
    assert error(values, fedcode.cluster(values, k)) <= 1.01 * least_of(name, k)


@pytest.mark.parametrize("k", [2, 16, 100, 255])
@pytest.mark.parametrize("size", [300, 1000, 4096])
@pytest.mark.parametrize("name", ["layers", "cauchy", "mostly zero", "integers", "offset"])
def test_a_few_thousand_values_have_the_optimum(name: str, size: int, k: int) -> None:
    values = MADE[name][::13][:size]
    found, least = error(values, fedcode.cluster(values, k)), optimum(values, k)
    # what is left is the rounding of the centres to float32
    assert found <= least * (1 + 1e-6) + values.size * float(np.spacing(np.abs(values).max())) ** 2


@limits(max_examples=200, deadline=None)
@given(st.lists(st.integers(-40, 40), min_size=1, max_size=40), st.integers(2, 12))
def test_small_numbers_with_ties_have_the_optimum(numbers: list[int], k: int) -> None:
    values = np.array(numbers, np.float32)
    codebook = fedcode.cluster(values, k)
    assert codebook.k <= min(k, len(set(numbers)))
    assert error(values, codebook) == pytest.approx(optimum(values, min(k, values.size)), rel=1e-5, abs=1e-6)
