"""What is drawn depends on the seed alone; and a draw as files, for another program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedcode import safetensors_file
from fedcode.data import digits
from fedcode.errors import ArgumentError, DataError
from fedcode.events import RoundStarted
from fedcode.simulation import Config, Draw, draws, given, run
from fedcode.simulation.given import first_model
from fedcode.state import flatten
from tests.simulation.small import Network, config, points


def drawn(**settings: Any) -> Draw:
    chosen = config(**settings)
    return Draw.of(chosen, given(chosen, points(), Network))


def test_every_method_meets_the_same_draw() -> None:
    one, other = drawn(method="fedavg"), drawn(method="delta", lr=0.5, settings={"bits": 1.0})
    assert all((a == b).all() for a, b in zip(one.parts, other.parts, strict=True))
    assert (one.first.vector == other.first.vector).all()
    assert [one.participants(n) for n in range(1, 9)] == [other.participants(n) for n in range(1, 9)]


def test_another_seed_is_another_draw() -> None:
    one, other = drawn(), drawn(seed=1)
    assert any(len(a) != len(b) or (a != b).any() for a, b in zip(one.parts, other.parts, strict=True))
    assert (one.first.vector != other.first.vector).any()
    assert [one.participants(n) for n in range(1, 9)] != [other.participants(n) for n in range(1, 9)]


def test_what_else_is_drawn_at_random_moves_nothing() -> None:
    before = [part.tolist() for part in drawn().parts], torch.initial_seed()
    torch.manual_seed(123)
    np.random.seed(5)  # noqa: NPY002 - what somebody else's code may do
    assert [part.tolist() for part in drawn().parts] == before[0]
    assert torch.initial_seed() == 123  # and the caller's generator stays as it was


def test_who_takes_part() -> None:
    chosen = config(clients=20, participation=0.25)
    rounds = [draws.participants(chosen, number) for number in range(1, 201)]
    assert {len(names) for names in rounds} == {5}
    assert all(names == sorted(set(names), key=draws.index_of) for names in rounds)
    counts = [sum(f"client-{index}" in names for names in rounds) for index in range(20)]
    assert min(counts) > 25  # 50 on average, with a deviation of six
    assert max(counts) < 75


def test_at_least_one_client_takes_part() -> None:
    assert len(draws.participants(config(clients=4, participation=0.01), 1)) == 1


@pytest.mark.parametrize("partition", ["dirichlet", "equal", "shards"])
def test_every_example_has_one_holder(partition: str) -> None:
    parts = drawn(partition=partition).parts
    assert len(parts) == 4
    assert sorted(np.concatenate(list(parts))) == list(range(120))


def test_a_minimum_that_cannot_be_had() -> None:
    with pytest.raises(ArgumentError, match="Take fewer clients or a smaller minimum"):
        drawn(minimum=50)


def test_a_share_of_the_examples() -> None:
    found = given(Config(fraction=0.25))
    assert found.dataset.examples == round(0.25 * digits().examples)
    assert len(found.dataset.test_labels) == len(digits().test_labels)


def test_a_draw_crosses_as_files(tmp_path: Path) -> None:
    one = drawn(seed=3)
    one.save(tmp_path)
    other = drawn(seed=4).read(tmp_path)
    assert all((a == b).all() for a, b in zip(one.parts, other.parts, strict=True))
    assert (one.first.vector == other.first.vector).all()
    assert (one.first.counters == other.first.counters).all()
    assert [one.participants(n) for n in (1, 2, 3)] == [other.participants(n) for n in (1, 2, 3)]
    assert other.participants(4) == drawn(seed=4).participants(4)  # beyond the file the seed goes on


def test_another_program_can_read_the_files(tmp_path: Path) -> None:
    one = drawn()
    one.save(tmp_path)
    parts = json.loads((tmp_path / "partition.json").read_text())["clients"]
    assert parts == [part.tolist() for part in one.parts]
    assert json.loads((tmp_path / "trace.json").read_text())["rounds"] == [one.participants(n) for n in (1, 2, 3)]
    tensors = {tensor.name: tensor for tensor in safetensors_file.read(tmp_path / "initial.safetensors").tensors}
    expected = flatten(first_model(config(), given(config(), points(), Network))).arrays()
    assert set(tensors) == set(expected)
    weight = np.concatenate(list(tensors["hidden.weight"].pieces())).reshape(tensors["hidden.weight"].shape)
    assert (weight == expected["hidden.weight"]).all()


def test_a_run_on_a_draw_that_was_written(tmp_path: Path) -> None:
    (tmp_path / "draw").mkdir()
    rounds = [["client-3"], ["client-0", "client-1"]]
    (tmp_path / "draw" / "trace.json").write_text(json.dumps({"format": "fedcode trace 1", "rounds": rounds}))
    events = run(config(), data=points(), model=Network, draw=tmp_path / "draw", out=tmp_path / "run")
    started = [list(event.clients) for event in events if isinstance(event, RoundStarted)]
    assert started == [*rounds, drawn().participants(3)]
    assert (tmp_path / "run" / "trace.json").exists()  # the run goes on with it, wherever the draw is then


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[", "is no valid trace"),
        ('{"format": "other", "rounds": []}', "its format is 'other'"),
        ('{"format": "fedcode trace 1", "rounds": [["client-9"]]}', "round 1 must name some of 4 clients, each once"),
        ('{"format": "fedcode trace 1", "rounds": [["client-1", "client-1"]]}', "round 1 must name"),
        ('{"format": "fedcode trace 1", "rounds": [[]]}', "round 1 must name"),
        ('{"format": "fedcode trace 1", "rounds": 3}', "is no valid trace"),
    ],
)
def test_a_trace_that_is_wrong(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(content)
    with pytest.raises(DataError, match=said):
        drawn().read(tmp_path)


def test_a_draw_for_other_clients(tmp_path: Path) -> None:
    drawn(clients=3).save(tmp_path)
    with pytest.raises(DataError, match="is for 3 clients, the run has 4"):
        drawn().read(tmp_path)


def test_a_draw_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no directory"):
        drawn().read(tmp_path / "nothing")
