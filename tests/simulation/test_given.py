"""Data and models that a user brings, in any form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import fedcode
from fedcode.data import Dataset
from fedcode.errors import ArgumentError
from fedcode.events import Event, RoundDone
from fedcode.simulation import Config, Run
from fedcode.simulation.given import own_dataset
from tests.simulation.small import Network, points

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_data.py"
SMALL: dict[str, Any] = {"clients": 3, "rounds": 2, "epochs": 1, "batch": 16, "minimum": 5, "workers": 1}


def simulated(method: Any = "fedavg", **settings: Any) -> Run:
    usual = {"data": points(), "model": Network}
    return fedcode.simulate(method, **{**usual, **SMALL, **settings})


def tensors() -> list[Tensor]:
    return [torch.from_numpy(array) for array in points()]


@pytest.mark.parametrize(
    "data",
    [
        points(),
        list(points()),
        tensors(),
        points,
        [TensorDataset(*tensors()[:2]), TensorDataset(*tensors()[2:])],
        own_dataset(points()),
    ],
    ids=["arrays", "list", "tensors", "function", "torch datasets", "Dataset"],
)
def test_the_same_data_in_any_form_is_the_same_run(data: Any) -> None:
    assert simulated(data=data).summary["bytes"] == simulated().summary["bytes"]
    assert simulated(data=data).history[-1]["loss"] == simulated().history[-1]["loss"]


@pytest.mark.parametrize("data", [points()[:2], TensorDataset(*tensors()[:2])], ids=["arrays", "torch dataset"])
def test_every_fifth_example_is_a_test_example_where_none_are_given(data: Any) -> None:
    found = own_dataset(data)
    assert (found.examples, len(found.test_labels)) == (96, 24)
    assert found.train_inputs[:4].tolist() == torch.from_numpy(points()[0][:4]).tolist()
    assert found.test_inputs[0].tolist() == points()[0][4].tolist()


def test_a_module_is_where_training_begins_and_stays_as_it_was() -> None:
    torch.manual_seed(7)
    model = Network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    one, other = simulated(model=model, seed=0), simulated(model=Network, seed=0)
    assert all((model.state_dict()[name] == value).all() for name, value in before.items())
    assert one.history[0]["loss"] != other.history[0]["loss"]  # the seed draws the weights of a function's model
    assert simulated(model=model).state["out.weight"].tobytes() == one.state["out.weight"].tobytes()


def test_a_run_has_its_history_summary_and_state(tmp_path: Path) -> None:
    heard: list[Event] = []

    class Observer:
        def on(self, event: Event) -> None:
            heard.append(event)

    run = simulated("fedcode", settings={"clusters": 8}, observers=[Observer()], out=tmp_path)
    assert [line["round"] for line in run.history] == [1, 2]
    assert run.summary["settings"]["clusters"] == 8
    assert [dict(event.record) for event in heard if isinstance(event, RoundDone)] == run.history
    model = Network()
    run.load_into(model)
    assert (model.out.weight.detach().numpy() == run.state["out.weight"]).all()
    again = simulated("fedcode", settings={"clusters": 8}, out=tmp_path, resume=True)
    assert again.history == run.history
    assert again.state["out.weight"].tobytes() == run.state["out.weight"].tobytes()


def test_a_method_with_its_settings() -> None:
    assert simulated(fedcode.method("fedcode", clusters=4)).summary["settings"]["clusters"] == 4
    with pytest.raises(ArgumentError, match="the method brings its settings with it"):
        simulated(fedcode.method("fedcode"), settings={"clusters": 4})


def test_numbers_can_be_learned_with_any_loss() -> None:
    inputs = np.random.default_rng(0).standard_normal((200, 4)).astype(np.float32)
    targets = inputs @ np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32)
    settings: dict[str, Any] = {"model": nn.Linear(4, 1), "partition": "equal", "optimizer": "sgd", "lr": 0.05}
    squared = simulated(data=(inputs, targets), rounds=20, **{**settings, "epochs": 2})
    assert squared.history[-1]["loss"] < 0.05 * squared.history[0]["loss"]
    assert squared.summary["accuracy"] == {"best": None, "final": None, "best_round": None}
    own = simulated(data=(inputs, targets), loss=nn.functional.l1_loss, **settings)
    assert own.history[0]["loss"] != squared.history[0]["loss"]


def test_double_precision_is_made_single() -> None:
    inputs, labels, *tests = points()
    found = own_dataset((inputs.astype(np.float64), labels.astype(np.int32), *tests))
    assert (found.train_inputs.dtype, found.train_labels.dtype) == (torch.float32, torch.int64)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"data": points()[:3]}, "data= takes a Dataset, two arrays"),
        ({"data": 7}, "got int"),
        ({"data": (points()[0], points()[1][:5])}, "120 inputs and 5 labels; give one label each"),
        ({"data": (points()[0], points()[0].astype(int))}, "labels that are classes have one dimension"),
        ({"data": TensorDataset(torch.zeros(0, 2), torch.zeros(0))}, "the torch Dataset is empty"),
        ({"data": ([{"a": 1}, {"a": 2}], [0, 1])}, "arrays of numbers, all examples of one shape.* got list"),
        ({"data": ([[1.0], [1.0, 2.0]], [0, 1])}, "arrays of numbers, all examples of one shape.* got list"),
        ({"data": ([{"a": 1}, {"a": 2}], 1)}, "arrays of numbers"),
        ({"data": (points()[0], 1)}, "the first axis the example: got one number, 1"),
        ({"data": (points()[0], points()[1].astype(str))}, "arrays of numbers.* got ndarray"),
        ({"data": TensorDataset(torch.zeros(4, 2))}, r"must give pairs \(input, label\)"),
        ({"model": None}, "own data needs a network"),
        ({"model": 3}, "model= is a torch Module or a function that makes one; got int"),
        ({"data": "digit"}, "Did you mean 'digits'"),
        ({"model": "resnet"}, "network must be one of"),
        ({"roundes": 3}, "there is no setting 'roundes'. Did you mean 'rounds'"),
        ({"minimum": 100}, "Take fewer clients"),
        ({"data": (points()[0], points()[1].astype(np.float32)), "model": "digits"}, "these labels are none"),
        ({"data": (points()[0], points()[0]), "model": nn.Linear(8, 8)}, "these labels are none. Take 'equal'"),
    ],
)
def test_what_is_wrong_is_said(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        simulated(**settings)


def test_a_run_is_shown_as_one_line() -> None:
    run = simulated("fedavg")
    megabytes, best = run.summary["megabytes"], 100 * run.summary["accuracy"]["best"]
    volume = f"{megabytes['down']:.2f} MB down, {megabytes['up']:.2f} MB up"
    assert repr(run) == f"<Run fedavg: 2 rounds, best {best:.2f} %, {volume}, DTR 1.0>"
    numbers = {"data": (points()[0], points()[0]), "model": nn.Linear(8, 8), "partition": "equal", "rounds": 1}
    assert repr(simulated("fedavg", **numbers)).startswith("<Run fedavg: 1 round, 0.00 MB down")


def test_own_data_must_be_brought() -> None:
    with pytest.raises(ArgumentError, match='dataset "own" needs data'):
        fedcode.simulate("fedavg", dataset="own", network="own")


def test_a_dataset_keeps_its_own_preparation() -> None:
    inputs, labels, test_inputs, test_labels = tensors()
    data = Dataset("mine", inputs, labels, test_inputs, test_labels, 3, prepare=lambda batch: batch * 0)
    assert simulated(data=data).history[0]["loss"] != simulated().history[0]["loss"]


def test_settings_of_a_kind_that_none_is() -> None:
    with pytest.raises(ArgumentError, match=r"rounds is a whole number, 30 unless given: got 2\.5"):
        Config(rounds=2.5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="label must be letters"):
        Config(label="../elsewhere")


def test_the_example_is_short_and_runs() -> None:
    text = EXAMPLE.read_text()
    assert len([line for line in text.splitlines() if line.strip()]) <= 25
    got = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True)
    assert got.returncode == 0, got.stderr
    megabytes = [float(line.split()[-2]) for line in got.stdout.splitlines()]
    assert megabytes[1] < megabytes[0] / 5
