from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedcode.errors import ArgumentError
from fedcode.experiments.cell import Cell

CELL = Cell(method="fedcode", dataset="cifar10", network="resnet20", rounds=60)


def test_the_small_scale_is_a_fifth_of_the_examples_and_a_third_of_the_rounds() -> None:
    small = CELL.at("small")
    assert (small.scale, small.rounds, small.fraction) == ("small", 20, 0.2)
    assert CELL.at("paper") == CELL
    assert replace(CELL, rounds=1).at("small").rounds == 1


def test_the_digits_have_a_scale_of_their_own() -> None:
    digits = CELL.on("digits")
    assert (digits.scale, digits.network, digits.rounds, digits.fraction) == ("digits", "digits", 30, 1.0)
    assert digits.at("small") == digits == digits.at("paper")
    assert replace(CELL, rounds=1000).on("digits").rounds == 30
    assert replace(CELL, rounds=30).on("digits").rounds == 15


@pytest.mark.parametrize(
    ("dataset", "network", "moved"),
    [
        ("cifar100", "mobilenetv2", "mobilenetv2"),  # images for images: the network stays
        ("speechcommands", "mobilenetv2", "yamnet"),
        ("cifar10", "resnet20", "resnet20"),
    ],
)
def test_another_data_set_gets_a_network_that_fits(dataset: str, network: str, moved: str) -> None:
    assert replace(CELL, network=network).on(dataset).network == moved


@pytest.mark.parametrize(
    "change",
    [
        {"method": "fedavg"},
        {"settings": (("clusters", 16),)},
        {"dataset": "cifar100"},
        {"network": "mobilenetv2"},
        {"rounds": 61},
        {"clients": 11},
        {"participation": 0.1},
        {"epochs": 8},
        {"beta": 0.1},
        {"seed": 1},
        {"scale": "small"},
        {"fraction": 0.2},
        {"lr": 1e-2},
        {"batch": 64},
        {"optimizer": "sgd"},
    ],
)
def test_whatever_decides_the_result_is_in_the_key(change: dict[str, Any]) -> None:
    assert replace(CELL, **change).key != CELL.key


def test_a_default_that_is_spelled_out_is_the_same_cell() -> None:
    assert replace(CELL, settings=(("clusters", 64),)).key == CELL.key


def test_a_changed_default_is_another_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedcode.methods.fedcode import FedCode

    before = CELL.key
    monkeypatch.setattr(FedCode, "settings", lambda _: {"clusters": 32})
    assert CELL.key != before


def test_a_key_can_be_a_folder_and_says_what_it_is() -> None:
    key = replace(CELL, beta=0.1, seed=7).at("small").key
    assert key.startswith("small-cifar10-noniid-fedcode-s7-")
    assert key.replace("-", "").replace("_", "").isalnum()


def test_a_cell_comes_back_from_its_document() -> None:
    cell = replace(CELL, settings=(("clusters", 16), ("uplink", 1.0)), seed=3).at("small")
    again = Cell.of(cell.document())
    assert again.key == cell.key
    assert replace(again, settings=()) == replace(cell, settings=())


@pytest.mark.parametrize("wrong", [lambda: CELL.at("large"), lambda: CELL.on("mnist")])
def test_an_unknown_scale_or_data_set_is_refused_with_the_right_ones(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match=r"paper, small|digits"):
        wrong()


def test_at_least_one_client_takes_part() -> None:
    assert replace(CELL, participation=0.01).clients_per_round == 1
    assert replace(CELL, participation=0.1).clients_per_round == 1
    assert CELL.clients_per_round == 10
