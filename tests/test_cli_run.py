"""`fedcode run` and `fedcode methods` as a user meets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fedcode import rundir
from fedcode.cli import DATA, DONE, INTERRUPTED, USAGE, main
from fedcode.commands.run import show
from fedcode.methods import names
from fedcode.server import Server
from fedcode.simulation import plan

ROOT = Path(__file__).parents[1]
SMALL = ["--clients", "3", "--rounds", "2", "--epochs", "1", "--workers", "1"]


@pytest.fixture(autouse=True)
def plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods, run once."""
    place = tmp_path_factory.mktemp("runs") / "three"
    methods = ["fedavg", "fedcode", "delta"]
    assert main(["run", *methods, *SMALL, "--set", "fedcode.clusters=16", "--out", str(place), "-q"]) == DONE
    return place


def table(out: str) -> dict[str, list[str]]:
    """The rows of a printed table by their first cell."""
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if "│" in line]
    return {row[0]: row[1:] for row in rows}


def document(text: str) -> Any:
    return json.loads(text)


def test_methods_run_one_after_the_other_and_are_kept(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for method in ("fedavg", "fedcode", "delta"):
        files = {path.name for path in (runs / method).iterdir()}
        assert {"config.toml", "history.jsonl", "summary.json", "model.safetensors", "partition.json"} <= files
        found = rundir.read(runs / method)
        assert found.config["versions"]["fedcode"]
        assert [line["round"] for line in found.history] == [1, 2]
    partitions = {(runs / method / "partition.json").read_bytes() for method in ("fedavg", "fedcode", "delta")}
    assert len(partitions) == 1
    assert rundir.read(runs / "fedcode").config["settings"]["clusters"] == 16
    capsys.readouterr()


def test_the_table(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--resume", str(runs)]) == DONE  # all are finished: nothing is left but the table
    got = capsys.readouterr()
    assert "kept in" in got.err
    rows = table(got.out)
    summaries = {method: rundir.read(runs / method).summary for method in rows}
    for method, cells in rows.items():
        said = summaries[method]
        assert said is not None
        against = said["accuracy"]["best"] - summaries["fedavg"]["accuracy"]["best"]  # type: ignore[index]
        assert cells == [
            f"{100 * said['accuracy']['best']:.2f}",
            f"{100 * said['accuracy']['final']:.2f}",
            "" if method == "fedavg" else f"{100 * against:+.2f}",
            f"{said['bytes']['down'] / 2**20:.2f}",
            f"{said['bytes']['up'] / 2**20:.2f}",
            *(f"{said['dtr'][direction]:.1f}" for direction in ("down", "up", "total")),
            f"{said['bits_per_parameter']:.2f}",
            f"{said['seconds']:.1f}",
        ]


def test_the_summary_has_every_figure(runs: Path) -> None:
    for method in ("fedavg", "fedcode", "delta"):
        said = document((runs / method / "summary.json").read_text())
        history = rundir.read(runs / method).history
        assert said["method"] == method
        assert said["accuracy"]["best"] == max(line["accuracy"] for line in history)
        assert said["accuracy"]["final"] == history[-1]["accuracy"]
        assert said["rounds"] == 2
        for direction in ("down", "up"):
            assert said["bytes"][direction] == sum(line["bytes"][direction] for line in history)
            assert said["bytes"][direction] == sum(
                client[direction] for line in history for client in line["per_client"].values()
            )
        messages = sum(line["messages"][direction] for line in history for direction in ("down", "up"))
        both = said["bytes"]["down"] + said["bytes"]["up"]
        assert said["bits_per_parameter"] == pytest.approx(8 * both / (messages * said["parameters"]))
        assert said["seconds"] == pytest.approx(sum(sum(line["seconds"].values()) for line in history))
        counted = {"fedavg": 1.0, "delta": None}
        for direction in ("down", "up", "total"):
            assert (said["dtr"][direction] == pytest.approx(1, abs=1e-4)) is (method == "fedavg")
            if method in counted:
                assert said["paper_dtr"][direction] == counted[method]
            else:
                assert 1 < said["paper_dtr"][direction] < 8  # four bits of 32, and a codebook


def test_json_is_one_document(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--resume", str(runs), "--json"]) == DONE
    said = document(capsys.readouterr().out)
    assert said["out"] == str(runs)
    assert [run["method"] for run in said["runs"]] == ["fedavg", "fedcode", "delta"]


def test_the_readme_shows_what_a_run_printed(capsys: pytest.CaptureFixture[str]) -> None:
    stored = document((ROOT / "results" / "demo.json").read_text())
    show(stored["config"], stored["runs"])
    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert printed in (ROOT / "README.md").read_text()
    methods = [run["method"] for run in stored["runs"]]
    assert f"fedcode run {' '.join(methods)}\n" in (ROOT / "Makefile").read_text()


def test_what_the_demo_is_to_show() -> None:
    runs = {run["method"]: run for run in document((ROOT / "results" / "demo.json").read_text())["runs"]}
    best = {method: run["accuracy"]["best"] for method, run in runs.items()}
    total = {method: run["dtr"]["total"] for method, run in runs.items()}
    assert total["fedcode"] > 13  # the paper's kind of reduction
    assert best["delta"] > best["fedavg"] - 0.01
    assert total["delta"] > total["fedcode"]


def test_the_readmes_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = (ROOT / "README.md").read_text().split("```python\n", 1)[1].split("```", 1)[0]
    assert "rounds=30" in example
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(example.replace("rounds=30", "rounds=1, workers=1"), found)
    assert found["run"].summary["rounds"] == 1


def test_a_line_for_every_round_and_none_if_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "fedavg", *SMALL, "--out", str(tmp_path / "a")]) == DONE
    said = capsys.readouterr().err.splitlines()
    assert [line.split("  accuracy")[0] for line in said[:2]] == ["fedavg  round 1/2", "fedavg  round 2/2"]
    assert main(["run", "fedavg", *SMALL, "--out", str(tmp_path / "b"), "--quiet"]) == DONE
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fedcod"], "there is no method 'fedcod'; there are fedavg, "),
        (["fedcod"], "Did you mean 'fedcode'?"),
        ([], "name the methods to run; there are fedavg"),
        (["fedavg", "fedavg"], "each method can be run once"),
        (["fedavg", "--dataset", "digit"], "dataset must be one of digits, cifar10, cifar100, speechcommands"),
        (["fedavg", "--dataset", "digit"], "Did you mean 'digits'?"),
        (["fedavg", "--model", "resnet"], "network must be one of digits, resnet20"),
        (["fedavg", "--optimizer", "adamw"], "optimizer must be one of adam, sgd, momentum"),
        (["fedavg", "--precision", "fp16"], "precision must be one of float32, bf16"),
        (["fedavg", "--partition", "iid"], "partition must be one of dirichlet, equal, shards"),
        (["fedavg", "--rounds", "0"], "rounds must be 1 or more"),
        (["fedavg", "--participation", "1.5"], "participation must be above 0 and up to 1: got 1.5"),
        (["fedavg", "--device", "abacus"], "the device 'abacus' cannot be used here"),
        (["fedavg", "--beta", "-1"], "beta must be a positive number"),
        (["fedcode", "--set", "fedcode.cluster=3"], "fedcode has no setting 'cluster'; it has clusters, "),
        (["fedcode", "--set", "fedcode.cluster=3"], "Did you mean 'clusters'?"),
        (["fedcode", "--set", "fedcode.clusters=many"], "fedcode.clusters is a whole number"),
        (["fedcode", "--set", "fedcode.clusters=2.5"], "fedcode.clusters is a whole number"),
        (["delta", "--set", "delta.debias=maybe"], "delta.debias is true or false"),
        (["fedcode", "--set", "clusters=3"], "a setting is written METHOD.SETTING=VALUE"),
        (["fedcode", "--set", "fedzip.keep=0.2"], "there are settings for fedzip, which is not run"),
        (["fedavg", "--round", "3"], "No such option '--round'. (Did you mean one of:"),
        (["--resume", "somewhere", "fedavg"], "--resume goes on with the runs as they were begun"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", *arguments]) == USAGE
    got = capsys.readouterr()
    assert said in got.err
    assert got.out == ""
    assert got.err.count("\n") == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--model", "resnet20"],
        ["--device", "abacus"],
        ["--clients", "5000"],
        ["--dataset", "cifar10", "--data-dir", "nowhere"],
        ["--log", "carrier-pigeon"],
    ],
)
@pytest.mark.parametrize("out", [[], ["--out", "a/b/c"], ["--out", "there"]])
def test_a_refused_run_leaves_nothing_behind(
    options: list[str],
    out: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").touch()
    assert main(["run", "fedavg", *options, *out]) in (USAGE, DATA)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine", "there"]
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_that_fails_later_keeps_its_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails_in_round(number: int) -> None:
        usual = Server.finish_round

        def finish_round(self: Server) -> Any:
            if self.round == number:
                raise ZeroDivisionError("a defect")
            return usual(self)

        monkeypatch.setattr(Server, "finish_round", finish_round)
        with pytest.raises(ZeroDivisionError):
            main(["run", "fedavg", *SMALL, "--out", str(tmp_path / "run")])
        monkeypatch.undo()

    fails_in_round(1)
    assert not (tmp_path / "run").exists()
    fails_in_round(2)
    assert len(rundir.read(tmp_path / "run" / "fedavg").history) == 1
    assert main(["run", "--resume", str(tmp_path / "run"), "-q"]) == DONE
    capsys.readouterr()


def test_a_file_of_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "study.toml"
    text = 'methods = ["fedavg", "fedcode"]\nclients = 3\nrounds = 5\nepochs = 1\n[fedcode]\nclusters = 8\n'
    study.write_text(text)
    assert main(["run", "--config", str(study), "--rounds", "1", "--out", str(tmp_path / "out"), "-q"]) == DONE
    found = rundir.read(tmp_path / "out" / "fedcode").config
    assert (found["clients"], found["rounds"], found["settings"]["clusters"]) == (3, 1, 8)
    capsys.readouterr()


def test_a_runs_own_settings_make_the_run_again(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_fedcode = str(runs / "fedcode" / "config.toml")
    assert main(["run", "--config", of_fedcode, "--out", str(tmp_path / "again"), "-q"]) == DONE
    models = [place / "fedcode" / "model.safetensors" for place in (runs, tmp_path / "again")]
    assert models[0].read_bytes() == models[1].read_bytes()
    capsys.readouterr()


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("methods = [", DATA, "is no TOML"),
        ('methods = "fedavg"', USAGE, "methods is a list of names"),
        ('methods = ["fedavg"]\nrouns = 3', USAGE, "there is no setting 'rouns'. Did you mean 'rounds'?"),
        ('methods = ["fedavg"]\nrounds = "3"', USAGE, "rounds is a whole number, 30 unless given: got '3'"),
        ('methods = ["fedcode"]\n[fedcode]\nclusters = "many"', USAGE, "fedcode.clusters is a whole number"),
    ],
)
def test_a_file_of_settings_that_is_wrong(
    text: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.toml").write_text(text)
    assert main(["run", "--config", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out")]) == code
    assert said in capsys.readouterr().err


def test_a_directory_with_runs_is_not_begun_again(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (runs / plan.PLAN).read_bytes()
    assert main(["run", "stc", *SMALL, "--out", str(runs)]) == DATA
    assert "holds runs already. Go on with them (--resume)" in capsys.readouterr().err
    assert (runs / plan.PLAN).read_bytes() == before


@pytest.mark.parametrize(
    ("place", "options", "said"),
    [
        (".", ["--rounds", "9"], "holds a run with rounds = 2; it cannot go on with 9"),
        ("fedcode", [], "It is one run's own directory: give"),
        ("nothing", [], "holds no runs to go on with"),
    ],
)
def test_what_cannot_be_gone_on_with(
    place: str, options: list[str], said: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--resume", str(runs / place), *options]) == DATA
    assert said in capsys.readouterr().err


def test_two_runs_on_one_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = tmp_path / "draw"
    begin = ["run", "fedavg", "--participation", "0.4", *SMALL, "-q"]
    assert main([*begin, "--save-draw", str(draw), "--out", str(tmp_path / "one")]) == DONE
    assert {path.name for path in draw.iterdir()} == {"partition.json", "initial.safetensors", "trace.json"}
    assert main([*begin, "--seed", "5", "--draw", str(draw), "--out", str(tmp_path / "other")]) == DONE
    one, other = (rundir.read(tmp_path / name / "fedavg") for name in ("one", "other"))
    assert [line["clients"] for line in one.history] == [line["clients"] for line in other.history]
    partitions = [tmp_path / name / "fedavg" / "partition.json" for name in ("one", "other")]
    assert partitions[0].read_bytes() == partitions[1].read_bytes()
    assert one.history[-1]["accuracy"] != other.history[-1]["accuracy"]  # the order of the examples is the seed's
    capsys.readouterr()


class Command:
    """`fedcode run` in a process of its own, whose lines are read as they come."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "fedcode.cli", "run", *arguments]
        environment = os.environ | {"FEDCODE_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def wait_for(self, what: str) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if what in line:
                return
        raise AssertionError(f"it ended without {what!r}")

    def end(self, number: int | None = None) -> tuple[int, str, str]:
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate()
        return self.process.returncode, out, err


def test_interrupted_and_killed_it_goes_on(tmp_path: Path) -> None:
    begin = ["fedcode", "--clients", "3", "--rounds", "8", "--epochs", "1", "--workers", "1"]
    place, whole = tmp_path / "run", tmp_path / "whole"
    first = Command(*begin, "--out", str(place))
    first.wait_for("round 2/8")
    code, _, err = first.end(signal.SIGINT)
    assert code == INTERRUPTED
    assert err.splitlines()[-2:] == [f"Go on with: fedcode run --resume {place}", "fedcode: interrupted."]
    second = Command("--resume", str(place))
    second.wait_for("round 5/8")
    assert second.end(signal.SIGKILL)[0] == -signal.SIGKILL
    code, out, err = Command("--resume", str(place), "--json").end()
    assert code == DONE, err
    assert "fedcode  goes on after round" in err
    assert main(["run", *begin, "--out", str(whole), "-q"]) == DONE
    one, other = rundir.read(place / "fedcode"), rundir.read(whole / "fedcode")
    assert [{**line, "seconds": 0} for line in one.history] == [{**line, "seconds": 0} for line in other.history]
    models = [(path / "fedcode" / "model.safetensors").read_bytes() for path in (place, whole)]
    assert models[0] == models[1]
    assert document(out)["runs"] == [one.summary]


def test_the_methods_are_listed_with_their_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == DONE
    said = capsys.readouterr().out
    assert all(f"│ {name} " in said for name in names())
    assert "clusters=64" in said
    assert main(["methods", "--json"]) == DONE
    found = document(capsys.readouterr().out)
    assert set(found) == set(names())
    assert found["fedcode"]["settings"]["downlink"] == 0.2
    assert main(["methods", "fedcode"]) == DONE
    said = capsys.readouterr().out
    assert "Source:" in said
    assert table(said)["uplink"] == ["0.5", ""]
    assert table(said)["server"] == ["none", "none, momentum, nesterov, adam"]
    assert table(said)["labels"] == ["context", "packed, entropy, context"]


def test_a_method_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "fedkode"]) == USAGE
    assert "Did you mean 'fedcode'?" in capsys.readouterr().err
