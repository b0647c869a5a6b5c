"""`fedcode reproduce` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedcode.cli import main
from fedcode.experiments.catalogue import EXPERIMENTS
from tests.experiments.conftest import SMALL, Made

ARGUMENTS = ["reproduce", "codebook-silence", "--dataset", "digits", "--rounds", "2", "--seeds", "0"]


def test_the_list_names_every_experiment_and_what_was_measured(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list", "--json", "--results", str(made.folder)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == list(EXPERIMENTS)
    assert found["codebook-silence"]["measured"] == {SMALL.key: "3 of 3"}
    assert main(["reproduce", "--list", "--results", str(made.folder)]) == 0
    said = capsys.readouterr().out
    assert "table-resnet20" in said
    assert "lines: the settings that its table sets side by side." in said


def test_one_command_runs_an_experiment_and_prints_and_stores_its_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results"), "--workers", "1"]
    command = ["reproduce", "codebook-silence", "--dataset", "digits", "--rounds", "1", "--seeds", "0", *where]
    command += ["--method", "fedavg"]
    assert main(command) == 0
    said = capsys.readouterr()
    assert "accuracy and bytes (digits, 1 round)" in " ".join(said.out.split())
    assert "round 1/1" in said.err
    assert main([*command, "--json", "-q"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    document = json.loads(said.out)
    assert (len(document["done"]), document["failed"], document["stopped"]) == (1, {}, False)
    stored = json.loads((tmp_path / "results" / "codebook-silence.json").read_text())
    assert document["tables"] == stored["tables"]["digits, 1 round"]


def test_a_run_that_is_done_is_printed_at_once(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ARGUMENTS, "--out", str(made.runs), "--results", str(made.folder)]) == 0
    said = capsys.readouterr()
    assert "FedCode, codebook rounds silent" in said.out
    assert "round" not in said.err


def test_time_that_is_over_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main([*ARGUMENTS, *where, "--minutes", "0"]) == 0
    assert "The same command goes on from here." in capsys.readouterr().err


def test_data_that_is_not_here_ends_with_the_sentence_that_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results"), "--data-dir", str(tmp_path)]
    assert main(["reproduce", "figure-clusters", *where]) == 3
    said = capsys.readouterr()
    assert "not run" in said.out
    assert "Run: fedcode data get cifar100" in said.err


def test_runs_are_brought_home_and_the_page_is_made(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--results", str(tmp_path / "results")]
    assert main(["reproduce", "--collect", str(made.runs), *home]) == 0
    assert "codebook-silence.json" in capsys.readouterr().err
    assert main(["reproduce", "--document", str(tmp_path / "page.md"), *home]) == 0
    assert "(digits, 2 rounds)" in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name an experiment"),
        (["table-resnet"], "there is no experiment 'table-resnet'; there are table-resnet20"),
        (["small-iid", "--scale", "large"], "paper, small"),
        (["small-iid", "--dataset", "mnist"], "cifar10, cifar100, speechcommands, digits"),
        (["small-iid", "--rounds", "0"], "1 round or more"),
        (["small-iid", "--seeds", "a"], "--seeds are whole numbers"),
        (["small-iid", "--seeds", "1,1"], "--seeds are different numbers"),
        (["small-iid", "--method", "fedcodec"], "there is no method 'fedcodec'"),
        (["small-iid", "--precision", "float8"], "precision must be one of float32, bf16"),
        (["small-iid", "--workers", "0"], "workers must be 1 or more"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_can(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *arguments, "--out", str(tmp_path), "--results", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err
