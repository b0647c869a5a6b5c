from __future__ import annotations

import pytest

from fedcode.errors import ArgumentError
from fedcode.experiments.plan import Plan, parameters


def test_a_plan_runs_one_seed_after_the_other_and_fedavg_first() -> None:
    cells = Plan("codebook-silence", dataset="digits").cells()
    assert [cell.seed for cell in cells] == [0] * 3 + [1] * 3 + [2] * 3
    assert [cell.method for cell in cells[:3]] == ["fedavg", "fedcode", "fedcode"]


def test_cells_that_lines_share_are_run_once() -> None:
    cells = Plan("table-frequencies").cells()
    assert len(cells) == len(set(cells)) == 7


def test_a_data_set_of_the_experiments_own_keeps_its_lines_alone() -> None:
    labels = [line.label for line in Plan("table-resnet20", dataset="cifar10").lines()]
    assert len(labels) == 8
    assert all(label.startswith("CIFAR-10, ") for label in labels)


def test_the_data_set_that_an_experiment_has_anyway_changes_nothing() -> None:
    assert Plan("small-iid", dataset="cifar10") == Plan("small-iid")
    assert Plan("table-resnet20", dataset="cifar10") != Plan("table-resnet20")


def test_another_data_set_takes_the_place_of_both() -> None:
    labels = [line.label for line in Plan("table-resnet20", dataset="digits").lines()]
    assert len(labels) == 8
    assert all(label.startswith("digits, ") for label in labels)


def test_methods_can_be_chosen_and_what_they_are_compared_with_stays() -> None:
    plan = Plan("small-iid", methods=("delta",))
    assert [cell.method for cell in plan.cells()] == ["fedavg", "delta", "fedavg", "delta"]


def test_the_rounds_can_be_set_and_stand_apart() -> None:
    plan = Plan("small-iid", rounds=3)
    assert {cell.rounds for cell in plan.cells()} == {3}
    assert plan.key != Plan("small-iid").key


def test_what_is_non_iid_can_be_so_to_another_degree() -> None:
    plan = Plan("table-resnet20", dataset="cifar10", beta=2.0)
    assert {cell.beta for cell in plan.cells()} == {10.0, 2.0}
    assert plan.key == "small, cifar10, beta 2"


def test_the_count_stays_that_of_the_papers_own_rounds() -> None:
    line = Plan("table-resnet20", dataset="digits", rounds=1).lines()[1]
    size = line.counted()
    assert size is not None
    assert (size.rounds, size.parameters) == (60, 269_722)


def test_plans_of_one_key_join() -> None:
    one = Plan("small-iid", seeds=(0, 2), methods=("delta",))
    other = Plan("small-iid", seeds=(1,), methods=("fedzip",), everything=True)
    both = one.and_also(other)
    assert (both.seeds, both.methods, both.everything) == ((0, 1, 2), ("delta", "fedzip"), True)
    assert one.and_also(Plan("small-iid")).methods == ()  # no choice is the wider one


@pytest.mark.parametrize("wrong", [{"name": "nothing"}, {"scale": "large"}, {"rounds": 0}, {"beta": 0.0}])
def test_what_cannot_be_run_is_refused_at_once(wrong: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        Plan(**{"name": "small-iid", **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("network", "classes", "low", "high"),
    [
        ("resnet20", 10, 269_722, 269_722),
        ("resnet20", 100, 275_572, 275_572),
        ("mobilenetv2", 10, 2.2e6, 2.3e6),
        ("yamnet", 12, 3.18e6, 3.24e6),
    ],
)
def test_networks_have_the_papers_number_of_parameters(network: str, classes: int, low: float, high: float) -> None:
    assert low <= parameters(network, classes) <= high
