"""Every line of every experiment is something that the simulator takes."""

from __future__ import annotations

import pytest

from fedcode.errors import ArgumentError
from fedcode.experiments.catalogue import EXPERIMENTS, experiment
from fedcode.experiments.plan import Plan
from fedcode.experiments.runner import How, config_of
from fedcode.methods import names

ALL = [name for name in EXPERIMENTS if name != "figure-bounds"]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dataset", [None, "digits", "cifar10"])
def test_every_cell_is_a_run_that_the_simulator_takes(name: str, dataset: str | None) -> None:
    for scale in ("paper", "small"):
        plan = Plan(name, scale=scale, dataset=dataset, everything=True)
        cells = plan.cells()
        assert cells
        for cell in cells:
            config = config_of(cell, How())
            assert (config.rounds, config.seed, config.label) == (cell.rounds, cell.seed, cell.key)
            assert config.per_round == cell.clients_per_round


@pytest.mark.parametrize("name", ALL)
def test_a_line_is_compared_with_fedavg_trained_alike(name: str) -> None:
    for line in Plan(name, scale="paper", everything=True).lines():
        for cell, other in zip(line.cells, line.against, strict=bool(line.against)):
            assert other.method == "fedavg"
            alike = ("dataset", "network", "rounds", "clients", "participation", "epochs", "beta", "seed", "fraction")
            assert all(getattr(cell, name) == getattr(other, name) for name in alike)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("table-resnet20", 16),
        ("table-mobilenet", 16),
        ("table-yamnet", 4),
        ("table-comparison", 4),
        ("table-frequencies", 7),
        ("figure-clusters", 5),
        ("figure-epochs", 8),
        ("figure-tradeoff", 21),
        ("figure-volume", 6),
        ("codebook-silence", 3),
        ("small-iid", 8),
        ("small-noniid", 10),
    ],
)
def test_each_experiment_has_its_lines(name: str, lines: int) -> None:
    assert len(Plan(name).lines()) == lines


def test_the_comparison_and_the_frontier_know_every_method() -> None:
    for name in ("table-comparison", "frontier"):
        assert {cell.method for cell in Plan(name, everything=True).cells()} == set(names())


def test_the_silent_ablation_differs_from_fedcode_in_its_codebook_rounds_alone() -> None:
    fedcode, silent = (line.cells[0].document()["settings"] for line in Plan("codebook-silence").lines()[1:])
    assert {name for name in fedcode if fedcode[name] != silent[name]} == {"codebook_rounds"}
    assert experiment("codebook-silence").seeds == (0, 1, 2)


def test_fewer_and_longer_rounds_do_the_same_work() -> None:
    for line in Plan("small-iid", scale="paper").lines():
        assert line.cells[0].rounds * line.cells[0].epochs == 240


def test_an_unknown_experiment_is_refused_with_the_names_of_all() -> None:
    with pytest.raises(ArgumentError, match=r"table-resnet20.*small-noniid"):
        experiment("table-resnet")
