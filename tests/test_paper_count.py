"""The paper's own figures: reductions of its tables of results, megabytes of its table of volumes."""

from __future__ import annotations

import math
from typing import NamedTuple, get_args

import pytest

from fedcode.errors import ArgumentError
from fedcode.paper_count import MEGABYTE, Count, RunSize, codebook_bits, full_bits, label_bits, raw_bits

RESNET20_10, RESNET20_100 = 269_722, 275_572
# The paper says "about 2.2 million" and no more. The reductions move by under 0.01 a thousand parameters.
MOBILENET_10, MOBILENET_100 = 2_236_682, 2_351_972


class Row(NamedTuple):
    parameters: int
    clusters: int
    downlink: float
    uplink: float
    start: int
    rounds: int
    full: tuple[int, int]
    dtr: tuple[float, float, float]  # down, up, total, as printed


ROWS = {
    "ResNet-20, CIFAR-10": Row(RESNET20_10, 64, 0.2, 0.5, 2, 60, (14, 31), (22.8, 10.3, 14.2)),
    "ResNet-20, CIFAR-100": Row(RESNET20_100, 64, 0.2, 0.5, 2, 100, (22, 51), (24.2, 10.4, 14.6)),
    "ResNet-20, CIFAR-10, rho=0.1": Row(RESNET20_10, 64, 0.2, 0.5, 2, 600, (122, 301), (26, 10.6, 15)),
    "ResNet-20, CIFAR-100, rho=0.1": Row(RESNET20_100, 64, 0.2, 0.5, 2, 1000, (202, 501), (26.2, 10.6, 15.1)),
    "MobileNet, CIFAR-10": Row(MOBILENET_10, 128, 0.33, 0.5, 4, 100, (36, 52), (12.6, 8.7, 10.3)),
    "MobileNet, CIFAR-100": Row(MOBILENET_100, 128, 0.33, 0.5, 4, 200, (69, 102), (13.2, 8.9, 10.6)),
    "MobileNet, rho=0.1": Row(MOBILENET_10, 128, 0.33, 0.5, 4, 2000, (669, 1002), (13.7, 9.1, 10.9)),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_the_formula_gives_the_paper_s_reductions(row: Row) -> None:
    size = RunSize(row.parameters, row.clusters, row.downlink, row.uplink, row.start, row.rounds)
    assert (size.full_down, size.full_up) == row.full
    assert (size.dtr_down, size.dtr_up, size.dtr_total) == pytest.approx(row.dtr, abs=0.15)


# ResNet-20, CIFAR-100, ten clients, 100 rounds, K=64, R_cb=2: (F1, F2), printed megabytes and DTR, and the
# megabytes of the formula
VOLUMES = [
    ((1, 1), 394.21, 5.3, 394.70),
    ((0.5, 0.5), 201.08, 10.4, 201.54),
    ((0.2, 0.5), 143.92, 14.6, 144.38),
    ((0.33, 0.33), 138.01, 15.2, 138.46),
    ((0.1, 0.1), 47.35, 44.3, 47.79),
    ((0, 0), 7.9, 264.7, None),
]


@pytest.mark.parametrize(("frequencies", "printed", "dtr", "formula"), VOLUMES)
def test_the_printed_count_gives_the_paper_s_megabytes(
    frequencies: tuple[float, float], printed: float, dtr: float, formula: float | None
) -> None:
    def run(count: Count) -> RunSize:
        return RunSize(RESNET20_100, 64, *frequencies, start=2, rounds=100, clients=10, count=count)

    assert run("printed").bits_total / MEGABYTE == pytest.approx(printed, abs=0.05)
    assert run("printed").dtr_total == pytest.approx(dtr, abs=0.1)
    if formula is not None:
        assert run("formula").bits_total / MEGABYTE == pytest.approx(formula, abs=0.01)


def test_the_extreme_reductions_by_both_counts() -> None:
    def reduction(frequency: float, count: Count) -> float:
        return RunSize(RESNET20_100, 64, frequency, frequency, start=2, rounds=100, count=count).dtr_total

    assert reduction(0, "formula") == pytest.approx(251.1, abs=0.05)
    assert reduction(0, "printed") == pytest.approx(264.66, abs=0.01)
    assert reduction(0.1, "formula") == pytest.approx(43.99, abs=0.01)


def test_fedavg_s_volume_is_the_paper_s() -> None:
    size = RunSize(RESNET20_100, 64, 1, 1, start=2, rounds=100, clients=10)
    assert 2 * size.bits_fedavg / MEGABYTE == pytest.approx(2102.44, abs=0.015)


@pytest.mark.parametrize("count", get_args(Count))
def test_a_run_is_the_sum_of_its_messages(count: Count) -> None:
    size = RunSize(1234, 100, 0.25, 0.5, start=3, rounds=17, clients=6, count=count)
    whole, alone = full_bits(1234, 100, count), codebook_bits(100, count)
    down = sum(whole if i <= 3 or i % 4 == 0 else alone for i in range(1, 18))
    up = sum(whole if i <= 3 or i % 2 == 0 else alone for i in range(1, 18))
    assert (size.bits_down, size.bits_up, size.bits_total) == (6 * down, 6 * up, 6 * (down + up))
    assert size.bits_per_parameter == pytest.approx(6 * (down + up) / (2 * 6 * 17 * 1234))


@pytest.mark.parametrize("clusters", range(2, 300))
def test_labels_take_the_bits_that_their_number_needs(clusters: int) -> None:
    assert label_bits(clusters) == math.ceil(math.log2(clusters))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"parameters": 0}, "parameter"),
        ({"clusters": 1}, "2 clusters"),
        ({"downlink": 1.5}, "share of the rounds"),
        ({"uplink": -1}, "share of the rounds"),
        ({"start": -1}, "counts"),
        ({"rounds": 0}, "1 round"),
        ({"clients": 0}, "1 client"),
        ({"count": "other"}, "formula, printed"),
    ],
)
def test_what_cannot_be_counted_is_refused(wrong: dict[str, object], says: str) -> None:
    right: dict[str, object] = {
        "parameters": 10, "clusters": 4, "downlink": 0.5, "uplink": 0.5, "start": 1, "rounds": 3,
    }  # fmt: skip
    with pytest.raises(ArgumentError, match=says):
        RunSize(**right | wrong)  # type: ignore[arg-type]


def test_the_networks_of_the_package_have_the_paper_s_parameters() -> None:
    from fedcode import models

    def count(module: object) -> int:
        return sum(p.numel() for p in module.parameters())  # type: ignore[attr-defined]

    assert count(models.resnet20(classes=10)) == RESNET20_10
    assert count(models.resnet20(classes=100)) == RESNET20_100
    assert count(models.mobilenetv2(classes=10)) == MOBILENET_10
    assert count(models.mobilenetv2(classes=100)) == MOBILENET_100
    assert raw_bits(RESNET20_10) == 8_631_104
