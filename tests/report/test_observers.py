"""What runs are followed by: each written and read back."""

from __future__ import annotations

import csv
import math
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from fedcode.errors import ArgumentError, MissingExtraError
from fedcode.events import RoundDone, RunDone, RunStarted
from fedcode.report import history
from fedcode.report.gathering import gather
from fedcode.report.measures import measures
from fedcode.report.observers import observers
from tests.report.conftest import line, write_run

ROOT = Path(__file__).parents[2]
CONFIG = {"label": "fedcode", "method": "fedcode", "rounds": 4, "clients": 3, "settings": {"clusters": 64}}
SUMMARY = {"accuracy": {"best": 0.4, "best_round": 4}, "dtr": {"down": 2.0, "up": None, "total": 3.0}}
LINES = [line(number, 2**20, 2**19, number / 10 if number != 2 else None, 3, None) for number in range(1, 5)]


def follow(names: list[str], folder: Path, first: int = 0, stop: int = 4) -> None:
    """A run whose first rounds were done by another process."""
    with observers(names, folder) as made:
        for observer in made:
            observer.on(RunStarted(CONFIG, 3, 4, 100, LINES[:first]))
            for record in LINES[first:stop]:
                observer.on(RoundDone(record, {}))
            if stop == 4:
                observer.on(RunDone(SUMMARY))


def scalars(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder / "tensorboard" / "fedcode"))
    found.Reload()
    return found


@pytest.mark.filterwarnings("ignore")  # of its own dependencies
def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    follow(["tensorboard"], tmp_path)
    found = scalars(tmp_path)
    assert [(event.step, event.value) for event in found.Scalars("accuracy")] == [
        (1, pytest.approx(0.1)),
        (3, pytest.approx(0.3)),
        (4, pytest.approx(0.4)),
    ]
    assert [event.value for event in found.Scalars("megabytes/so far")] == [1.5, 3.0, 4.5, 6.0]
    assert [event.value for event in found.Scalars("seconds/training")] == [0.5] * 4
    (name,) = found.Tags()["tensors"]
    text = found.Tensors(name)
    assert b"settings.clusters = 64" in text[0].tensor_proto.string_val[0]


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_has_a_resumed_run_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    follow(["tensorboard"], tmp_path, stop=3)
    follow(["tensorboard"], tmp_path, first=2)  # the third round was lost with the process
    assert [event.step for event in scalars(tmp_path).Scalars("megabytes/down")] == [1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore")
def test_mlflow_reads_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    from mlflow.tracking import MlflowClient

    follow(["mlflow"], tmp_path, stop=3)
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("fedcode")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "KILLED"
    follow(["mlflow"], tmp_path, first=2)
    (run,) = client.search_runs([experiment.experiment_id])  # the same one
    assert (run.info.status, run.info.run_name) == ("FINISHED", "fedcode")
    assert run.data.params["settings.clusters"] == "64"
    assert run.data.metrics["best_accuracy"] == pytest.approx(0.4)
    assert run.data.metrics["dtr_total"] == 3.0
    assert "dtr_up" not in run.data.metrics
    sent = client.get_metric_history(run.info.run_id, "megabytes/so far")
    assert [(metric.step, metric.value) for metric in sent] == [(1, 1.5), (2, 3.0), (3, 4.5), (4, 6.0)]
    reached = client.get_metric_history(run.info.run_id, "accuracy")
    assert [metric.step for metric in reached] == [1, 3, 4]


def test_csv_is_the_history(tmp_path: Path) -> None:
    follow(["csv"], tmp_path, first=1)
    with (tmp_path / "fedcode" / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == history.COLUMNS
    assert [int(row["round"]) for row in rows] == [1, 2, 3, 4]
    assert [row["accuracy"] for row in rows] == ["0.1", "", "0.3", "0.4"]
    assert [int(row["bytes_down"]) for row in rows] == [2**20] * 4


def test_parquet_is_the_history(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    follow(["parquet"], tmp_path)
    table = pyarrow.read_table(tmp_path / "fedcode" / "history.parquet")
    assert tuple(table.column_names) == history.COLUMNS
    assert table["accuracy"].to_pylist() == [0.1, None, 0.3, 0.4]
    assert table["megabytes"].to_pylist() == [1.5, 3.0, 4.5, 6.0]


def test_a_label_is_no_formula(tmp_path: Path) -> None:
    write_run(tmp_path / "x", label="=HYPERLINK(1)")
    history.write_csv(tmp_path / "out.csv", gather([tmp_path]).traces)
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("'=HYPERLINK(1),")


def test_what_there_is_not_is_refused_before_anything_runs() -> None:
    with (
        pytest.raises(ArgumentError, match="one of tensorboard, mlflow, csv, parquet: got 'wandb'"),
        observers(["wandb"], "x"),
    ):
        pass


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_what_is_not_installed_names_the_pip_command(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in [module for module in sys.modules if module.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'fedcode\[{name}\]'"), observers([name], tmp_path):
        pass


def test_a_user_writes_an_observer_in_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "examples" / "observer.py"
    source = path.read_text()
    assert len(source[source.index("class ") :].split("\n\n\n")[0].splitlines()) <= 10
    watch = runpy.run_path(str(path), run_name="__main__")["watch"]
    *rounds, last = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in rounds] == ["round 1", "round 2", "round 3"]
    assert last == f"{watch.seconds:.1f} seconds in all"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_is_left_out(value: float) -> None:
    assert "loss" not in measures({"loss": value, "bytes": {"down": 0, "up": 0}})
