"""Cells are run once, go on from where they were, and stand aside for other processes."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fedcode import rundir
from fedcode.errors import DataError
from fedcode.events import Event, RoundDone, RunStarted
from fedcode.experiments import runner
from fedcode.experiments.cell import Cell
from fedcode.experiments.plan import Plan
from fedcode.experiments.recoding import Recoding
from fedcode.experiments.results import RECODED, Results
from fedcode.experiments.runner import How, reproduce
from tests.data.official import cifar, speech
from tests.experiments.conftest import SMALL, Made

FEDCODE = SMALL.cells()[1]


def fail(*_: object, **__: object) -> Any:
    raise AssertionError("nothing was to be trained")


def test_every_cell_is_recorded_with_what_it_was_run_on(made: Made) -> None:
    assert [cell.key for cell in made.outcome.done] == [cell.key for cell in SMALL.cells()]
    assert (made.outcome.failed, made.outcome.busy, made.outcome.stopped) == ({}, [], False)
    document = json.loads((made.folder / "codebook-silence.json").read_text())
    assert list(document["cells"]) == sorted(cell.key for cell in SMALL.cells())
    for record in document["cells"].values():
        assert (record["cell"]["scale"], record["cell"]["seed"]) == ("digits", 0)
        assert record["computed"] == {"device": "cpu", "workers": 1, "precision": "float32", "compile": False}
        assert {"machine", "versions", "accuracy", "bytes"} <= set(record["summary"])
        assert {len(values) for values in record["history"].values()} == {2}
        assert sum(record["history"]["bytes_up"]) == record["summary"]["bytes"]["up"]


def test_what_was_run_is_not_run_again(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "events", fail)
    by_record = reproduce([SMALL], made.results, How(runs=tmp_path))
    by_directory = reproduce([SMALL], Results(tmp_path / "results"), How(runs=made.runs))
    assert len(by_record.done) == len(by_directory.done) == 3
    assert Results(tmp_path / "results").records == made.results.records


def test_time_that_is_over_stops_between_rounds_and_the_next_call_goes_on(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan("codebook-silence", dataset="digits", rounds=2, seeds=(0,), methods=("fedcode",))
    over = False
    monkeypatch.setattr(runner, "monotonic", lambda: 1e9 if over else 0.0)

    def hear(cell: Cell, event: Event) -> None:
        nonlocal over
        over |= cell == FEDCODE and isinstance(event, RoundDone)

    results = Results(tmp_path / "results")
    for other in (SMALL.cells()[0], SMALL.cells()[2]):
        results.add(other.key, made.results.records[other.key])
    first = reproduce([plan], results, How(runs=tmp_path, workers=1, minutes=5), hear)
    assert first.stopped
    assert [cell.method for cell in first.done] == ["fedavg"]
    kept = rundir.read(tmp_path / FEDCODE.key)
    assert (len(kept.history), kept.summary) == (1, None)

    over = False
    heard: list[Event] = []
    second = reproduce([plan], results, How(runs=tmp_path, workers=1), lambda _, event: heard.append(event))
    assert len(second.done) == 3
    assert [len(event.history) for event in heard if isinstance(event, RunStarted)] == [1]
    own, whole = results.records[FEDCODE.key], made.results.records[FEDCODE.key]
    assert own["history"] == whole["history"]
    assert own["recoded"] == whole["recoded"]


def test_no_time_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "events", fail)
    outcome = reproduce([SMALL], Results(tmp_path / "results"), How(runs=tmp_path, minutes=0))
    assert (outcome.stopped, outcome.done) == (True, [])


def test_a_run_that_was_killed_between_its_round_and_its_line_counts_it_once(made: Made, tmp_path: Path) -> None:
    """The lines about codings may be ahead of the checkpoint that the run goes on from; they are cut off."""
    watched = Recoding(fail, tmp_path)  # type: ignore[arg-type]
    lines = (made.runs / FEDCODE.key / RECODED).read_text()
    (tmp_path / RECODED).write_text(lines)
    watched.rewind(1)
    assert (tmp_path / RECODED).read_text() == lines.splitlines(keepends=True)[0]


def test_a_cell_that_another_process_runs_is_passed_over(made: Made, tmp_path: Path) -> None:
    results, how = Results(tmp_path / "results"), How(runs=tmp_path, workers=1)
    held = SMALL.cells()[0]
    for other in SMALL.cells()[1:]:  # done before, so that only the held one is left
        results.add(other.key, made.results.records[other.key])
    with rundir.RunDirectory(tmp_path / held.key).opened():
        outcome = reproduce([SMALL], results, how)
    assert outcome.busy == [held]
    assert outcome.done == SMALL.cells()[1:]
    assert not outcome.failed


def test_a_cell_that_was_held_is_run_once_the_others_are_done(made: Made, tmp_path: Path) -> None:
    results = Results(tmp_path / "results")
    held, other, third = SMALL.cells()
    results.add(third.key, made.results.records[third.key])
    for cell in (held, other):  # runs that were killed after their last round: nothing is left to train
        shutil.copytree(made.runs / cell.key, tmp_path / cell.key)
        (tmp_path / cell.key / "summary.json").unlink()
    with ExitStack() as lock:
        lock.enter_context(rundir.RunDirectory(tmp_path / held.key).opened())

        def hear(cell: Cell, event: Event) -> None:
            if cell == other and isinstance(event, RunStarted):
                lock.close()  # the other process died

        outcome = reproduce([SMALL], results, How(runs=tmp_path, workers=1), hear)
    assert (outcome.busy, outcome.done) == ([], [other, third, held])
    assert results.records[held.key]["summary"]["accuracy"] == made.results.records[held.key]["summary"]["accuracy"]


def test_a_cell_that_another_process_took_while_its_data_was_read_is_busy_and_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, events = SMALL.cells()[0], runner.events
    with ExitStack() as lock:

        def late(cell: Cell, how: How) -> Generator[Event]:
            lock.enter_context(rundir.RunDirectory(tmp_path / cell.key).opened())
            return events(cell, how)

        monkeypatch.setattr(runner, "events", late)
        with pytest.raises(runner.InUse):
            runner.run_cell(cell, How(runs=tmp_path, workers=1), runner.Clock(None))


def test_data_that_is_not_here_leaves_its_cells_empty_and_the_others_run(tmp_path: Path) -> None:
    cifar(tmp_path / "data", count=60)
    plan = Plan("table-resnet20", scale="paper", rounds=1, methods=("fedavg",))
    few = [cell for cell in plan.cells() if cell.beta == 10 and cell.participation == 0.1]
    how = How(runs=tmp_path / "runs", data_dir=str(tmp_path / "data"), workers=1)
    found: dict[str, Any] = {}
    for cell in few:
        try:
            found[cell.dataset] = runner.run_cell(cell, how, runner.Clock(None))
        except DataError as error:
            found[cell.dataset] = str(error)
    assert found["cifar10"]["summary"]["parameters"] == 269_722
    assert "fedcode data get cifar100" in found["cifar100"]


@pytest.mark.parametrize(
    ("dataset", "network", "parameters"),
    [
        ("cifar100", "resnet20", 275_572),
        ("speechcommands", "yamnet", 3_207_756),
    ],
)
def test_a_network_trains_on_its_own_data_from_official_files(
    dataset: str, network: str, parameters: int, tmp_path: Path
) -> None:
    """Few clients and examples: the files are small ones in the official formats."""
    speech(tmp_path / "data", clips=4) if dataset == "speechcommands" else cifar(tmp_path / "data", dataset, 200)
    cell = Cell(method="fedcode", dataset=dataset, network=network, rounds=1, clients=2, epochs=1)
    how = How(runs=tmp_path / "runs", data_dir=str(tmp_path / "data"), workers=1)
    record = runner.run_cell(cell, how, runner.Clock(None))
    assert record is not None
    assert record["summary"]["parameters"] == parameters
    assert record["recoded"]["bytes"]["packed"]["up"] > 2 * parameters * 6 / 8  # six bits a label, K=64
    assert 0 <= record["summary"]["accuracy"]["best"] <= 1


def test_what_cannot_be_run_is_named_with_the_reason(tmp_path: Path) -> None:
    plan = Plan("table-yamnet", rounds=1)
    (tmp_path / "data").mkdir()
    outcome = reproduce([plan], Results(tmp_path / "results"), How(runs=tmp_path, data_dir=str(tmp_path / "data")))
    assert len(outcome.failed) == 4
    assert all("Speech Commands" in str(error) for error in outcome.failed.values())
    table = json.loads((tmp_path / "results" / "table-yamnet.json").read_text())["tables"]["small, 1 round"][-1]
    assert [row[1] for row in table["rows"]] == ["not run"] * 4


def test_a_stopped_run_goes_on_in_the_precision_it_began_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = SMALL.cells()[0]
    ticks = itertools.count()
    monkeypatch.setattr(runner, "monotonic", lambda: 60.0 * next(ticks))
    results = Results(tmp_path / "results")
    plan = Plan("codebook-silence", dataset="digits", rounds=2, seeds=(0,), methods=("fedavg",))
    reproduce([plan], results, How(runs=tmp_path, workers=1, minutes=2.5, precision="bf16"))
    assert len(rundir.read(tmp_path / cell.key).history) == 1
    record = runner.run_cell(cell, How(runs=tmp_path, workers=1, precision="float32"), runner.Clock(None))
    assert record is not None
    assert record["computed"]["precision"] == "bf16"
