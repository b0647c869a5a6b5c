"""`fedcode report`, `fedcode plot`, what `fedcode run` leaves behind, and runs in a script or a notebook."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fedcode
from fedcode import rundir
from fedcode.cli import DATA, DONE, USAGE, main
from fedcode.commands.plot import NAMES
from fedcode.report.figures import FIGURES
from fedcode.report.link import Link
from tests.report.conftest import write_run

SMALL = ["--clients", "2", "--rounds", "2", "--epochs", "1", "--workers", "1", "-q"]


@pytest.fixture(autouse=True)
def plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


def test_a_report_of_a_study(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, table = tmp_path / "page.html", tmp_path / "all.csv"
    arguments = ["report", str(study), "-o", str(page), "--link", "nb-iot", "--title", "Mine", "--csv", str(table)]
    assert main(arguments) == DONE
    got = capsys.readouterr()
    assert "<title>Mine</title>" in page.read_text()
    assert len(table.read_text().splitlines()) == 1 + 3 * 6
    assert "On the air over nb-iot: 26 kbit/s down, 62 kbit/s up" in got.out
    assert got.out.count("*: the best of its column.") == 1
    assert "<p>Bold: the best of its column.</p>" in page.read_text()
    assert got.err == f"wrote {page}\n"
    assert main([*arguments, "--json"]) == DONE
    said = json.loads(capsys.readouterr().out)
    assert said["remarks"] == []
    assert [run["label"] for run in said["runs"]] == ["fedavg", "fedcode", "delta"]
    first, kept = said["runs"][0], rundir.read(study / "fedavg")
    assert kept.summary is not None
    assert first["accuracy"] == kept.summary["accuracy"]
    assert first["dtr"] == kept.summary["dtr"]
    assert first["bytes"]["down"] == sum(line["bytes"]["down"] for line in kept.history)
    assert (first["method"], first["dataset"], first["settings"], first["seed"]) == ("fedavg", "digits", {}, 0)
    assert first["rounds"] == 6
    assert first["air"]["link"]["name"] == "nb-iot"


def test_what_a_run_says_is_not_obeyed_by_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cell = {"method": "fedavg", "dataset": "\x1b]0;mine\x07", "clients": 2, "rounds": 0}
    history: dict[str, list[float]] = {
        name: []
        for name in ("accuracy", "loss", *(f"{what}_{way}" for what in ("bytes", "messages") for way in ("down", "up")))
    }
    record = {"cell": cell, "history": history, "summary": {}}
    path, page, table = tmp_path / "results.json", tmp_path / "page.html", tmp_path / "all.csv"
    path.write_text(json.dumps({"format": "fedcode results 1", "cells": {"a\x1b[31m\ud800": record}}))
    for more in ([], ["--json"]):
        assert main(["report", str(path), "-o", str(page), "--csv", str(table), *more]) == DONE
        said = capsys.readouterr()
        assert "\x1b" not in said.out + said.err
        said.out.encode()  # half a letter cannot be


def test_what_json_has_no_word_for_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "fedavg", "fedavg")
    config = (run / "config.toml").read_text()
    (run / "config.toml").write_text(
        config.replace('dataset = "digits"', "dataset = 1979-05-27").replace("10.0", "nan")
    )
    assert main(["report", str(run), "-o", str(tmp_path / "page.html"), "--json"]) == DONE
    (found,) = json.loads(capsys.readouterr().out)["runs"]
    assert found["dataset"] == "1979-05-27"
    assert found["beta"] is None


def test_a_run_and_a_report_name_their_figures_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["run", "fedavg", *SMALL, "--out", str(out), "--json"]) == DONE
    (summary,) = json.loads(capsys.readouterr().out)["runs"]
    assert main(["report", str(out), "-o", str(tmp_path / "page.html"), "--json"]) == DONE
    (found,) = json.loads(capsys.readouterr().out)["runs"]
    alike = ("label", "method", "settings", "accuracy", "megabytes", "dtr", "bits_per_parameter", "rounds")
    assert {name: found[name] for name in alike} == {name: summary[name] for name in alike}
    assert found["bytes"] == {way: summary["bytes"][way] for way in ("down", "up")}
    assert found["dataset"] == "digits"
    assert found["seed"] == 0


def test_what_is_not_whole_is_said_and_the_page_is_made(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(study), str(tmp_path / "nowhere"), "-o", str(page)]) == DONE
    words = f"{tmp_path / 'nowhere'} is neither a run's directory nor a file of results"
    assert f"fedcode: note: {words}" in capsys.readouterr().err
    assert words in html.unescape(page.read_text())


def test_nothing_to_report_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == DATA
    assert capsys.readouterr().err.startswith(f"fedcode: {tmp_path} is no run's directory and holds none")
    assert main(["report", str(tmp_path), "--link", "pigeon"]) == USAGE
    assert "DOWN/UP in Mbit/s" in capsys.readouterr().err


def test_plot_writes_what_its_name_ends_with(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "volume.svg"
    assert main(["plot", "volume", str(study), "-o", str(path)]) == DONE
    assert path.read_text().startswith("<?xml")
    assert capsys.readouterr().err == f"wrote {path}\n"
    assert main(["plot", "pie", str(study)]) == USAGE
    assert main(["plot", "volume", "-o", str(path)]) == USAGE


def test_the_help_says_what_each_figure_is_and_where_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuple(FIGURES) == NAMES
    assert main(["plot", "--help"]) == DONE
    said = capsys.readouterr().out
    for name in NAMES:
        assert re.search(rf"^ +{name} {{2,}}\w+ \w+", said, re.M), name
    assert "[default: (NAME.pdf)]" in said


def test_a_figure_over_one_k_is_drawn_with_a_remark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run", settings={"clusters": 16})
    assert main(["plot", "clusters", "run"]) == DONE
    assert (tmp_path / "clusters.pdf").exists()
    assert "fedcode: note: All of these runs have K=16" in capsys.readouterr().err


def test_a_run_leaves_its_page_and_what_it_takes_on_the_air(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["run", "fedavg", "fedcode", *SMALL, "--out", str(out), "--link", "3g", "--log", "csv"]) == DONE
    assert "On the air, 3g" in capsys.readouterr().out
    assert "fedcode" in (out / "report.html").read_text()
    for method in ("fedavg", "fedcode"):
        found = rundir.read(out / method).summary
        assert found is not None
        sent = found["bytes"]
        hours = Link.of("3g").hours(sent["down"], sent["up"]) / 2
        assert found["air"]["hours_per_client"] == pytest.approx(hours)
        assert len((out / method / "history.csv").read_text().splitlines()) == 3
    (out / "report.html").unlink()
    assert main(["run", "--resume", str(out), "--link", "lorawan", "--json", "-q"]) == DONE
    said = json.loads(capsys.readouterr().out)
    assert [run["air"]["link"]["name"] for run in said["runs"]] == ["lorawan"] * 2
    assert (out / "report.html").exists()


@pytest.mark.parametrize(("option", "value"), [("--link", "pigeon"), ("--log", "wandb")])
def test_what_cannot_be_done_is_said_before_anything_runs(tmp_path: Path, option: str, value: str) -> None:
    assert main(["run", "fedavg", *SMALL, "--out", str(tmp_path / "out"), option, value]) == USAGE
    assert not (tmp_path / "out" / "fedavg").exists()


def test_a_page_that_cannot_be_written_costs_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    (out / "report.html").mkdir(parents=True)
    assert main(["run", "fedavg", *SMALL[:-1], "--out", str(out)]) == DONE
    got = capsys.readouterr()
    assert "there is no page of these runs" in got.err
    assert "fedavg" in got.out


def test_runs_of_a_script_are_a_table_and_a_picture() -> None:
    settings: dict[str, Any] = {"clients": 2, "rounds": 2, "epochs": 1}
    fedavg, fedcode_ = (fedcode.simulate(name, **settings) for name in ("fedavg", "fedcode"))
    table = fedcode_.table(fedavg, link="4g")
    assert [row.split()[0] for row in str(table).splitlines()] == ["run", "fedcode", "fedavg"]
    assert f"{fedcode_.summary['megabytes']['down']:.2f}" in str(table).splitlines()[1]
    assert fedcode_._repr_html_().count("<tr>") == 2
    assert "<table" in table._repr_html_()
    figure = fedcode_.plot("volume", fedavg)
    labels = [str(line.get_label()) for line in figure.axes[0].get_lines()]
    assert labels == ["FedAvg", "FedCode"]
    again = fedcode.simulate("fedavg", **settings)
    assert [row.split("  ")[0] for row in str(fedavg.table(again)).splitlines()[1:]] == ["fedavg (1)", "fedavg (2)"]


@pytest.mark.parametrize(
    ("words", "number", "expected"),
    [
        ("fedcode re", 1, ["report", "reproduce"]),
        ("fedcode plot vol", 2, ["volume", "volume-linear"]),
        ("fedcode run fedp", 2, ["fedpaq", "fedprox"]),
    ],
)
def test_the_shell_completes(words: str, number: int, expected: list[str]) -> None:
    asked = {"_FEDCODE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    code = "import sys; sys.argv[0] = 'fedcode'; from fedcode.cli import main; sys.exit(main([]))"
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | asked)
    assert got.stdout.split() == expected


def test_the_doctor_says_where_data_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FEDCODE_DATA", str(tmp_path))
    assert main(["doctor", "--json"]) == DONE
    assert json.loads(capsys.readouterr().out)["data"][0].startswith(f"{tmp_path} (environment FEDCODE_DATA)")
    assert main(["doctor"]) == DONE
    assert "data is looked for in" in capsys.readouterr().out
