"""Runs that were made elsewhere are brought home."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fedcode.errors import DataError
from fedcode.experiments.collection import PLANS, bring_home, remember, remembered
from fedcode.experiments.plan import Plan
from fedcode.experiments.results import Results
from tests.experiments.conftest import SMALL, Made

NEEDED = ("config.toml", "history.jsonl", "summary.json", "recoded.jsonl")


def test_finished_runs_become_records(made: Made, tmp_path: Path) -> None:
    brought = tmp_path / "runs"
    for path in made.runs.rglob("*"):
        if path.name in (*NEEDED, PLANS):
            place = brought / path.relative_to(made.runs)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
    home = tmp_path / "results"
    assert [path.name for path in bring_home(brought, [], Results(home))] == ["codebook-silence.json"]
    assert (home / "codebook-silence.json").read_bytes() == (made.folder / "codebook-silence.json").read_bytes()


def test_files_of_results_are_merged(made: Made, tmp_path: Path) -> None:
    results = Results(tmp_path)
    own = SMALL.cells()[0]
    results.add(own.key, made.results.records[own.key] | {"recoded": "mine"})
    bring_home(made.folder, [], results)
    records = Results(tmp_path).records
    assert set(records) == {cell.key for cell in SMALL.cells()}
    assert records[own.key]["recoded"] == "mine"  # what is here already stays


def test_runs_that_are_under_way_are_left_out(made: Made, tmp_path: Path) -> None:
    brought = tmp_path / "runs"
    shutil.copytree(made.runs, brought)
    unfinished = SMALL.cells()[1]
    (brought / unfinished.key / "summary.json").unlink()
    bring_home(brought, [], Results(tmp_path / "results"))
    assert unfinished.key not in Results(tmp_path / "results").records


def test_runs_without_a_note_of_what_they_are_for_need_to_be_told(made: Made, tmp_path: Path) -> None:
    brought = tmp_path / "runs"
    shutil.copytree(made.runs, brought, ignore=shutil.ignore_patterns(PLANS))
    with pytest.raises(DataError, match="Name the experiments"):
        bring_home(brought, [], Results(tmp_path / "results"))
    bring_home(brought, [SMALL], Results(tmp_path / "results"))
    assert len(Results(tmp_path / "results").records) == 3


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        bring_home(tmp_path / "nothing", [], Results(tmp_path))


def test_what_runs_are_for_is_noted_once(tmp_path: Path) -> None:
    remember([Plan("small-iid", seeds=(0,))], tmp_path)
    remember([Plan("small-iid", seeds=(1,)), Plan("frontier")], tmp_path)
    found = remembered(tmp_path)
    assert [(plan.name, plan.seeds) for plan in found] == [("frontier", (0,)), ("small-iid", (0, 1))]


def test_a_damaged_note_is_named(tmp_path: Path) -> None:
    (tmp_path / PLANS).write_text('[{"name": "nothing"}]')
    with pytest.raises(DataError, match=r"plans\.json is damaged"):
        remembered(tmp_path)
