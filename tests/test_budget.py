"""Codebooks for a budget of bits: the error against the best quantiser's, the size against the budget."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import fedcode
from fedcode import budget
from fedcode.coding import encode_labels
from fedcode.label_blocks import BLOCK, encode_block
from fedcode.row import row_of

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

MILLION = 1_000_000


@cache
def made(name: str) -> Floats:
    rng = np.random.default_rng(5)
    layers = rng.standard_normal(MILLION) * np.repeat(rng.lognormal(-4, 1, MILLION // 100), 100)
    layers[:2000] = 1 + 0.1 * rng.standard_normal(2000)
    found: dict[str, Any] = {
        "gaussian": rng.standard_normal(MILLION),
        "laplacian": rng.laplace(size=MILLION),
        "layers": layers,
        "heavy tails": rng.standard_t(3, MILLION),
        "mostly zero": np.where(rng.random(MILLION) < 0.8, 0, layers),
        "offset": 100 + rng.standard_normal(MILLION),
    }
    values: Floats = found[name].astype(np.float32)
    return values


def signal_to_noise(values: Floats, codebook: fedcode.Codebook) -> float:
    """In dB, the signal being what the values vary by."""
    wide = values.astype(np.float64)
    return float(10 * np.log10(wide.var() / np.square(wide - codebook.decode()).mean()))


def entropy(labels: npt.NDArray[Any]) -> float:
    share = np.bincount(labels.reshape(-1)) / labels.size
    share = share[share > 0]
    return float(-(share * np.log2(share)).sum())


def coded(codebook: fedcode.Codebook) -> float:
    """Bits a value, in blocks as in a model's file."""
    row = codebook.labels.reshape(-1)
    return 8 * sum(len(encode_block(row[at : at + BLOCK], codebook.k)) for at in range(0, row.size, BLOCK)) / row.size


@pytest.mark.parametrize(
    ("name", "bits", "best"),
    [("gaussian", 1, 4.64), ("gaussian", 2, 10.55), ("laplacian", 1, 5.8), ("laplacian", 2, 11.4)],
)
def test_the_published_figures(name: str, bits: float, best: float) -> None:
    assert signal_to_noise(made(name), fedcode.cluster(made(name), bits=bits)) >= best - 0.1


def best_quantisers(x: Doubles, weight: Doubles) -> list[tuple[float, float]]:
    """Entropies and noises of entropy-constrained quantisers of a density, each found by Lloyd's alternation.

    Reference: Chou, Lookabaugh and Gray, Entropy-constrained vector quantization, 1989.
    """
    variance = float((weight * x * x).sum())
    found = []
    for step in np.geomspace(0.02, 4, 40):
        price = step * step / 8  # what a bit may cost in squared error
        centers = np.arange(-np.ceil(x[-1] / step), np.ceil(x[-1] / step) + 1) * step
        share = np.full(centers.size, 1 / centers.size)
        for _ in range(300):
            # the lower hull of parabolas: between neighbours that both have values, one threshold
            while True:
                length = -price * np.log2(share)
                middles = (centers[1:] ** 2 - centers[:-1] ** 2 + np.diff(length)) / (2 * np.diff(centers))
                keep = np.concatenate([[True], np.diff(middles) > 0, [True]])
                if keep.all():
                    break
                centers, share = centers[keep], share[keep]
            edges = np.concatenate([[0], np.searchsorted(x, middles), [x.size]])
            mass = np.diff(np.concatenate([[0], np.cumsum(weight)])[edges])
            total = np.diff(np.concatenate([[0], np.cumsum(weight * x)])[edges])
            some = mass > 1e-9
            before, centers, share = centers, total[some] / mass[some], mass[some] / mass[some].sum()
            if before.size == centers.size and np.abs(before - centers).max() < 1e-6:
                break
        noise = variance - float((share * centers * centers).sum())
        found.append((float(-(share * np.log2(share)).sum()), 10 * float(np.log10(variance / noise))))
    return sorted(found)


@pytest.mark.parametrize("name", ["gaussian", "laplacian"])
def test_within_a_tenth_of_a_decibel_of_the_best_quantiser(name: str) -> None:
    x = np.linspace(-16, 16, 64_001)
    weight = np.exp(-x * x / 2) if name == "gaussian" else np.exp(-np.abs(x))
    best = best_quantisers(x, weight / weight.sum())
    rates, signals = (np.array(column) for column in zip(*best, strict=True))
    assert np.interp([1.0, 2.0], rates, signals) == pytest.approx(
        [4.64, 10.55] if name == "gaussian" else [5.8, 11.4], abs=0.05
    )
    for bits in (0.25, 0.5, 0.75, 1.5, 2.5, 3.5):
        found = fedcode.cluster(made(name), bits=bits)
        least = float(np.interp(entropy(found.labels), rates, signals))
        assert signal_to_noise(made(name), found) >= least - 0.1, bits


@pytest.mark.parametrize("bits", [0.05, 0.3, 1, 2.5, 6])
@pytest.mark.parametrize("name", ["gaussian", "laplacian", "layers", "heavy tails", "offset"])
def test_from_a_million_on_the_coded_size_is_the_budget(name: str, bits: float) -> None:
    found = fedcode.cluster(made(name), bits=bits)
    assert coded(found) == pytest.approx(bits, rel=0.02)
    assert 8 * len(encode_labels(found.labels, found.k)) / MILLION == pytest.approx(bits, rel=0.02)


@pytest.mark.parametrize("bits", [0.05, 0.3, 1, 2.5, 4, 6])
def test_where_most_values_are_zero_the_centers_count_too(bits: float) -> None:
    found = fedcode.cluster(made("mostly zero"), bits=bits)
    size = coded(found) + 32 * max(0, found.k - budget.FREE) / MILLION
    assert size <= 1.02 * bits
    if bits < 4:  # at more, there are as many centers as there may be
        assert size >= 0.98 * bits


def test_labels_of_neighbours_that_are_alike_cost_less_than_their_entropy_and_buy_more() -> None:
    rng = np.random.default_rng(0)
    values = (rng.standard_normal(MILLION) * np.repeat(np.array([0.01, 1]), MILLION // 2)).astype(np.float32)
    found = fedcode.cluster(values, bits=2)
    assert coded(found) == pytest.approx(2, rel=0.02)
    assert entropy(found.labels) > 2.04


def test_more_bits_less_error() -> None:
    signals = [
        signal_to_noise(made("layers"), fedcode.cluster(made("layers"), bits=bits))
        for bits in (0.05, 0.1, 0.3, 1, 2, 3, 4, 5, 6)
    ]
    assert all(less < more for less, more in pairwise(signals))


@pytest.mark.parametrize("bits", [0.05, 1, 6])
@pytest.mark.parametrize("size", [1, 2, 10, 1000, 5000, 50_000])
def test_of_fewer_values_the_entropy_is_no_more_than_the_budget(size: int, bits: float) -> None:
    found = fedcode.cluster(made("layers")[:size], bits=bits)
    assert entropy(found.labels) <= bits
    assert (np.diff(found.centers) > 0).all()
    if size >= 5000:
        assert entropy(found.labels) == pytest.approx(bits, rel=0.1)


def test_every_center_is_the_mean_of_its_values_and_cells_do_not_overlap() -> None:
    values = made("laplacian")
    found = fedcode.cluster(values, bits=1.5)
    count = np.bincount(found.labels)
    assert (np.bincount(found.labels, values) / count) == pytest.approx(found.centers, rel=1e-5, abs=1e-6)
    order = np.argsort(values, kind="stable")
    assert (np.diff(found.labels[order].astype(int)) >= 0).all()


def test_the_cells_are_even_but_for_the_dead_zone() -> None:
    rule = budget.quantise(row_of(made("gaussian")), 3.0)
    gaps = np.diff(rule.thresholds[2:-2])
    step = np.median(gaps)
    middle = gaps.size // 2
    assert np.delete(gaps, middle) == pytest.approx(step, rel=0.02)
    assert gaps[middle] >= step * 0.98


@pytest.mark.parametrize("bits", [0.05, 2, 6])
@pytest.mark.parametrize("scale", [1e-43, 1e-35, 1e-3, 1e6, 1e36])
def test_any_scale(scale: float, bits: float) -> None:
    values = (made("gaussian")[:20_000] * np.float64(scale)).astype(np.float32)
    found = fedcode.cluster(values, bits=bits)
    assert entropy(found.labels) <= bits
    assert found.decode().std(dtype=np.float64) <= 1.01 * values.std(dtype=np.float64)
    if scale > 1e-40:
        usual = signal_to_noise(made("gaussian")[:20_000], fedcode.cluster(made("gaussian")[:20_000], bits=bits))
        assert signal_to_noise(values, found) == pytest.approx(usual, abs=0.1)


@pytest.mark.parametrize("bits", [0.05, 1, 4])
@pytest.mark.parametrize("outlier", [1e4, -1e12, 3e38])
def test_one_far_outlier_is_kept(outlier: float, bits: float) -> None:
    values = np.append(made("gaussian")[:100_000], np.float32(outlier))
    found = fedcode.cluster(values, bits=bits)
    assert found.decode()[-1] == np.float32(outlier)
    assert entropy(found.labels) <= bits


@pytest.mark.parametrize("distinct", [[-3, -1, 0, 0.5, 2], [0.1, 0.2, 1e20, 2e20, 3e20], [-3e9, -2e9, -1e9, -1e-3, 1]])
@pytest.mark.parametrize("size", [1000, 100_000])
def test_values_that_the_budget_can_hold_are_kept_as_they_are(distinct: list[float], size: int) -> None:
    values = np.random.default_rng(0).choice(np.array(distinct, np.float32), size)
    assert np.array_equal(fedcode.cluster(values, bits=3).decode(), values)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes(dtype: torch.dtype) -> None:
    values = torch.from_numpy(made("layers")[:200_000].copy()).to(dtype)
    found, expected = fedcode.cluster(values, bits=2), fedcode.cluster(values.float(), bits=2)
    wide = values.float().numpy()
    assert signal_to_noise(wide, found) == pytest.approx(signal_to_noise(wide, expected), abs=0.05)


@pytest.mark.parametrize("name", ["gaussian", "layers"])
def test_the_plain_path_finds_nearly_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = made(name)[:300_000]
    expected = signal_to_noise(values, fedcode.cluster(values, bits=2))
    monkeypatch.setenv("FEDCODE_NUMBA", "0")
    found = fedcode.cluster(values, bits=2)
    assert signal_to_noise(values, found) >= expected - 0.04  # one hundredth
    assert coded(found) == pytest.approx(2, rel=0.02)
