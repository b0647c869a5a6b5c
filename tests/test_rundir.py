"""A run's directory: what is written, what is read back, what is refused."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcode import rundir, safetensors_file
from fedcode.errors import ArgumentError, RunError
from fedcode.rundir import RunDirectory
from fedcode.state import flatten
from fedcode.toml import write_toml


@pytest.fixture
def begun(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path / "run")
    with run.opened():
        run.begin({"method": "fedavg", "settings": {"server": "none"}})
        for number in (1, 2, 3):
            run.append({"round": number, "loss": 0.5})
    return run


def test_what_was_written_is_read(begun: RunDirectory) -> None:
    assert begun.begun
    assert not begun.finished
    found = rundir.read(begun.path)
    assert found.config == {"method": "fedavg", "settings": {"server": "none"}}
    assert [line["round"] for line in found.history] == [1, 2, 3]
    assert found.summary is None


def test_a_finished_run_has_a_summary_and_a_model(begun: RunDirectory) -> None:
    state = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "steps": np.array(7), "h": np.ones(2, np.float16)}
    with begun.opened():
        begun.finish({"accuracy": {"best": 0.5}}, flatten(state))
    assert begun.finished
    assert rundir.read(begun.path).summary == {"accuracy": {"best": 0.5}}
    tensors = {tensor.name: tensor for tensor in safetensors_file.read(begun.path / rundir.MODEL).tensors}
    assert {name: tensor.shape for name, tensor in tensors.items()} == {"w": (2, 3), "steps": (), "h": (2,)}
    assert np.concatenate(list(tensors["w"].pieces())).tolist() == [0, 1, 2, 3, 4, 5]
    assert [path.name for path in begun.path.iterdir() if path.name.startswith(".")] == []


def test_numbers_that_json_does_not_know_are_null(begun: RunDirectory) -> None:
    with begun.opened():
        begun.append({"round": 4, "loss": math.nan, "centers": (math.inf, 1.0)})
    assert rundir.read(begun.path).history[3] == {"round": 4, "loss": None, "centers": [None, 1.0]}


def test_a_checkpoint_comes_back(begun: RunDirectory) -> None:
    with begun.opened():
        assert begun.restore() is None
        for content in (b"first", b"second"):
            begun.save(content)
            assert begun.restore() == content


@pytest.mark.parametrize("damage", [lambda content: content[:3], lambda content: content[:-1] + b"x", lambda _: b""])
def test_a_damaged_checkpoint_is_refused(damage: Any, begun: RunDirectory) -> None:
    with begun.opened():
        begun.save(b"checkpoint")
    path = begun.path / rundir.CHECKPOINT
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RunError, match="its checksum does not fit"):
        begun.restore()


def test_the_history_is_cut_back_to_the_checkpoint(begun: RunDirectory) -> None:
    (begun.path / ".checkpoint.123.part").write_bytes(b"what a killed process left")
    with begun.opened():
        assert [line["round"] for line in begun.rewind(2)] == [1, 2]
    assert [line["round"] for line in rundir.read(begun.path).history] == [1, 2]
    assert not list(begun.path.glob(".*.part"))


def test_a_history_that_is_behind_its_checkpoint_is_refused(begun: RunDirectory) -> None:
    with begun.opened(), pytest.raises(RunError, match="the checkpoint is of round 4, and lines before it are missing"):
        begun.rewind(4)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (rundir.CONFIG, b"method = [", "config.toml is damaged"),
        (rundir.CONFIG, b"method = '\xff'", "config.toml cannot be read"),
        (rundir.HISTORY, b'{"round": 1}\n{"round"\n', "history.jsonl, line 2 is damaged"),
        (rundir.HISTORY, b'{"round": 1}\n{"round": 3}\n', "line 2 is of round 3"),
        (rundir.HISTORY, b"[1]\n", "an object is expected, got list"),
        (rundir.HISTORY, b"[" * 100_000 + b"\n", "is damaged"),
        (rundir.SUMMARY, b"{", "summary.json is damaged"),
    ],
)
def test_a_damaged_file_is_named(name: str, content: bytes, said: str, begun: RunDirectory) -> None:
    (begun.path / name).write_bytes(content)
    with pytest.raises(RunError, match=said):
        rundir.read(begun.path)


def test_a_last_line_that_is_half_written_is_left_out(begun: RunDirectory) -> None:
    with (begun.path / rundir.HISTORY).open("ab") as file:
        file.write(b'{"round": 4, "lo')
    assert [line["round"] for line in rundir.read(begun.path).history] == [1, 2, 3]


def test_a_directory_that_is_no_runs(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is no run's directory: it holds no config\.toml"):
        rundir.read(tmp_path)


def test_only_one_may_write(begun: RunDirectory) -> None:
    with begun.opened(), pytest.raises(RunError, match="is in use: another process runs there"), begun.opened():
        pass
    with begun.opened():
        pass  # the lock ends with whoever held it


def test_what_cannot_be_written_is_said(begun: RunDirectory) -> None:
    (begun.path / rundir.CHECKPOINT).mkdir()
    with begun.opened(), pytest.raises(RunError, match=r"cannot be written .* can go on from it once there is room"):
        begun.save(b"checkpoint")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lr": 0.001, "rounds": 30, "known": True, "method": "fedcode"},
        {"small": 1e-300, "large": 10**17, "negative": -0.0},
        {"text": 'quotes " and \\ and\nlines\tand \x7f and \u00e9\U0001f600'},
        {"list": ["a", "b"], "numbers": [1, 2.5], "nothing": []},
        {"settings": {"server": "none", "inner": {"deep": 1}}, "top": 2},
        {"a key with spaces": 1, "dotted.key": {"x": 1}},
    ],
)
def test_toml_is_read_back(settings: dict[str, Any]) -> None:
    assert tomllib.loads(write_toml(settings)) == settings


def test_toml_has_no_none_and_no_objects() -> None:
    assert write_toml({"device": None, "lr": 1.0}) == "lr = 1.0\n"
    with pytest.raises(ArgumentError, match="a setting is a number, a string"):
        write_toml({"model": object()})


def test_lines_are_json_alone(begun: RunDirectory) -> None:
    for line in (begun.path / rundir.HISTORY).read_text().splitlines():
        assert json.loads(line)["loss"] == 0.5


def test_a_number_of_thousands_of_digits_is_damage_too(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f"rounds = {'9' * 5000}\n")
    with pytest.raises(RunError, match=r"config\.toml is damaged: "):
        rundir.read(tmp_path)
