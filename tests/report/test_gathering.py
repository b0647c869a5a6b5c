"""Runs found where a caller says, and a sentence for each that is not whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedcode.errors import ArgumentError, RunError
from fedcode.experiments.results import FORMAT
from fedcode.report.gathering import gather
from tests.report.conftest import write_run

ROOT = Path(__file__).parents[2]


def test_a_directory_of_runs_gives_all_of_them(study: Path) -> None:
    found = gather([study])
    assert sorted(trace.label for trace in found.traces) == ["delta", "fedavg", "fedcode"]
    assert found.remarks == ()
    assert found.fedavg is not None
    assert found.fedavg.label == "fedavg"


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for day in ("monday", "tuesday"):
        write_run(tmp_path / day / "fedavg", "fedavg")
    labels = [trace.label for trace in gather([tmp_path / "monday", tmp_path / "tuesday" / "fedavg"]).traces]
    assert labels == ["monday/fedavg", "tuesday/fedavg"]
    write_run(tmp_path / "monday" / "again", "fedavg", label="fedavg")
    labels = [trace.label for trace in gather([tmp_path / "monday"]).traces]
    assert sorted(labels) == ["monday/fedavg (1)", "monday/fedavg (2)"]


def test_every_damage_is_a_sentence_and_the_rest_is_there(tmp_path: Path) -> None:
    write_run(tmp_path / "whole", "fedavg")
    (write_run(tmp_path / "a", rounds=2) / "config.toml").write_text("method = ")
    (write_run(tmp_path / "b", rounds=2) / "summary.json").write_text('{"method": ')
    history = write_run(tmp_path / "c", rounds=4) / "history.jsonl"
    lines = history.read_text().splitlines(keepends=True)
    history.write_text("".join([*lines[:2], "not JSON\n", *lines[3:]]))
    (write_run(tmp_path / "d", rounds=2) / "history.jsonl").write_bytes(b"\xff\xfe\n")
    (write_run(tmp_path / "e", rounds=2) / "history.jsonl").write_text("[1]\n")
    write_run(tmp_path / "f", rounds=2, wanted=5)
    found = gather([tmp_path, tmp_path / "nothing", ROOT / "pyproject.toml"])
    assert {trace.label: trace.rounds for trace in found.traces} == {"whole": 6, "b": 2, "c": 2, "e": 0, "f": 2}
    said = "\n".join(found.remarks)
    assert f"{tmp_path / 'a' / 'config.toml'} is damaged: " in said
    assert f"{tmp_path / 'b' / 'summary.json'} is damaged: " in said
    assert f"{history}, line 3, is damaged: " in said
    assert "The rounds before it are shown." in said
    assert f"{tmp_path / 'd' / 'history.jsonl'} cannot be read: " in said
    assert "an object is expected, got list" in said
    assert f"{tmp_path / 'f'} is not finished: 2 of 5 rounds are there." in said
    assert f"{tmp_path / 'nothing'} is neither a run's directory nor a file of results" in said
    assert f"{ROOT / 'pyproject.toml'} is no file of results" in said


def test_a_half_written_last_line_is_no_damage(tmp_path: Path) -> None:
    history = write_run(tmp_path / "run", rounds=3) / "history.jsonl"
    history.write_text(history.read_text() + '{"round": 4, "bytes"')
    found = gather([tmp_path / "run"])
    assert found.traces[0].rounds == 3
    assert found.remarks == ()


def test_nothing_to_show_is_an_error_that_says_why(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is no run's directory and holds none: there is no config\.toml"):
        gather([tmp_path])
    with pytest.raises(RunError, match="There is no run to show"):
        gather([])


def test_a_file_of_results_is_as_good_as_runs() -> None:
    found = gather([ROOT / "results" / "figure-volume.json"])
    document = json.loads((ROOT / "results" / "figure-volume.json").read_text())
    assert document["format"] == FORMAT
    assert [trace.label for trace in found.traces] == list(document["cells"])
    for trace, record in zip(found.traces, document["cells"].values(), strict=True):
        assert trace.accuracy.tolist() == record["history"]["accuracy"]
        assert trace.best == record["summary"]["accuracy"]["best"]
        assert trace.megabytes[-1] == pytest.approx(record["summary"]["megabytes"]["total"], rel=1e-4)


def test_runs_are_chosen_by_their_settings(tmp_path: Path) -> None:
    write_run(tmp_path / "a", settings={"clusters": 16})
    write_run(tmp_path / "b", settings={"clusters": 64}, beta=0.1)
    assert [trace.label for trace in gather([tmp_path], ["clusters=16"]).traces] == ["a"]
    assert [trace.label for trace in gather([tmp_path], ["beta=0.10", "dataset=digits"]).traces] == ["b"]
    with pytest.raises(ArgumentError, match="none of these runs has clusters=16 and beta=1"):
        gather([tmp_path], ["clusters=16", "beta=1"])
    with pytest.raises(ArgumentError, match=r"NAME=VALUE, as in dataset=cifar10: got 'clusters'"):
        gather([tmp_path], ["clusters"])


@pytest.mark.parametrize(
    "damage",
    [
        '{"format": "fedcode results 1", "cells": {"a": {}}}',
        '{"format": "fedcode results 1", "cells": [1]}',
        '{"cells": {}}',
        "[]",
        "{",
        '{"format": "fedcode results 1", "cells": {"a": {"cell": {}, "summary": {}, "history": {"bytes_down": [1]}}}}',
    ],
)
def test_a_damaged_file_of_results_is_a_sentence(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(damage)
    with pytest.raises(RunError, match=f"{path}"):
        gather([path])


def test_a_file_that_is_no_text_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(range(256)) * 1000)
    with pytest.raises(RunError) as caught:
        gather([path])
    assert str(caught.value) == f"{path} cannot be read: it is no text."
    write_run(tmp_path / "fedavg", "fedavg")
    assert gather([path, tmp_path / "fedavg"]).remarks == (f"{path} cannot be read: it is no text. It is left out.",)


def test_an_error_quotes_little_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"format": "fedcode results 1", "cells": {"a" * 10_000: "b" * 10_000}}))
    with pytest.raises(RunError) as caught:
        gather([path])
    assert len(str(caught.value)) < len(str(path)) + 200
    line = write_run(tmp_path / "run", rounds=1) / "history.jsonl"
    line.write_text(line.read_text().replace('"accuracy":', f'"accuracy": "{"c" * 10_000}", "was":'))
    with pytest.raises(RunError) as caught:
        gather([line.parent])
    assert len(str(caught.value)) < len(str(line)) + 200


def test_a_name_in_an_error_is_quoted(tmp_path: Path) -> None:
    history = write_run(tmp_path / "run", rounds=1) / "history.jsonl"
    history.write_text(
        json.dumps(json.loads(history.read_text()) | {"per_client": {"\x1b[31m": {"down": -1, "up": 0}}}) + "\n"
    )
    with pytest.raises(
        RunError, match=r"line 1, '\\x1b\[31m' is damaged: down should be a number of 0 or more, got -1"
    ):
        gather([tmp_path / "run"])
    path = tmp_path / "results.json"
    record = {
        "cell": {},
        "summary": {},
        "history": {"bytes_down": [-1], "bytes_up": [0], "messages_down": [0], "messages_up": [0]},
    }
    path.write_text(json.dumps({"format": "fedcode results 1", "cells": {"\x1b[31m": record}}))
    with pytest.raises(RunError, match=r"results\.json, '\\x1b\[31m', line 1 is damaged: bytes\.down"):
        gather([path])
