from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fedcode.errors import DataError
from fedcode.experiments.plan import Plan
from fedcode.experiments.results import Results
from fedcode.experiments.tables import tables
from tests.experiments.conftest import SMALL, Made

FILE = "codebook-silence.json"


def changed(made: Made, folder: Path, change: Any) -> Path:
    """The file of results with something in it changed."""
    document = json.loads((made.folder / FILE).read_text())
    change(document)
    (folder / FILE).write_text(json.dumps(document))
    return folder / FILE


def test_what_is_written_is_read_again(made: Made, tmp_path: Path) -> None:
    results = Results(made.folder)
    results.folder = tmp_path
    path = results.write(SMALL, tables)
    assert path.read_bytes() == (made.folder / FILE).read_bytes()


def test_a_file_is_one_line_a_cell(made: Made) -> None:
    lines = (made.folder / FILE).read_text().splitlines()
    for cell in SMALL.cells():
        assert sum(f'"{cell.key}": {{' in line for line in lines) == 1


def test_tables_are_stored_with_the_papers_count(made: Made) -> None:
    stored = json.loads((made.folder / FILE).read_text())["tables"][SMALL.key]
    assert [table["title"].split(": ")[1].split(" (")[0] for table in stored] == ["reductions", "accuracy and bytes"]


def test_records_serve_every_experiment(made: Made) -> None:
    fedavg = SMALL.cells()[0]
    other = Plan("small-iid", dataset="digits", rounds=2)
    assert made.results.of([fedavg])[0] is not None
    assert fedavg.key in {cell.key for cell in other.cells()}


def test_processes_that_write_at_once_lose_nothing(made: Made, tmp_path: Path) -> None:
    every = made.results.records

    def write(cell: Any) -> None:
        results = Results(tmp_path)
        results.add(cell.key, every[cell.key])
        results.write(SMALL, tables)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, SMALL.cells()))
    assert Results(tmp_path).records == every


def test_plans_merge_by_their_key(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.write(Plan("small-iid", seeds=(0,)), tables)
    results.write(Plan("small-iid", seeds=(1,)), tables)
    results.write(Plan("small-iid", scale="paper"), tables)
    plans = Results(tmp_path).plans["small-iid"]
    assert {key: plan.seeds for key, plan in plans.items()} == {"small": (0, 1), "paper": (0,)}


def test_files_of_benchmarks_beside_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "coding.json").write_text('{"speed": 1}')
    (tmp_path / "list.json").write_text("[]")
    assert Results(tmp_path).records == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("plans"),
        lambda document: document.update(cells=[]),
        lambda document: next(iter(document["cells"].values())).pop("cell"),
        lambda document: next(iter(document["cells"].values()))["cell"].pop("rounds"),
        lambda document: document["plans"].update(small={"name": "nothing"}),
    ],
)
def test_a_damaged_file_is_named(change: Any, made: Made, tmp_path: Path) -> None:
    changed(made, tmp_path, change)
    with pytest.raises(DataError, match=r"codebook-silence\.json is damaged"):
        Results(tmp_path)


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(DataError, match=r"codebook-silence\.json cannot be read"):
        Results(tmp_path)


@pytest.mark.parametrize("settings", [{"clusters": 63}, {"gone": 1}])
def test_a_record_of_settings_that_mean_something_else_by_now_is_run_again(
    settings: dict[str, int], made: Made, tmp_path: Path
) -> None:
    key = SMALL.cells()[1].key
    changed(made, tmp_path, lambda document: document["cells"][key]["cell"]["settings"].update(settings))
    assert set(Results(tmp_path).records) == {cell.key for cell in SMALL.cells()} - {key}
