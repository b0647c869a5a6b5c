"""The example of a method of one's own is one: it keeps to the contract, runs, and is as its page says."""

from __future__ import annotations

import importlib.util
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import fedcode
from fedcode import methods
from fedcode.cli import main
from fedcode.contract import Contract
from fedcode.ends import Method
from fedcode.errors import ArgumentError, FedcodeError
from fedcode.rehearsal import Rehearsal
from fedcode.wire import Message

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own_method.py"
PAGE = (ROOT / "docs" / "own-method.md").read_text()


@pytest.fixture
def example() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("own_method", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["own_method"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("own_method")
    methods._registered.pop("rounded", None)


class TestOwnMethod(Contract):
    @pytest.fixture
    def method(self, example: ModuleType) -> Method:
        return fedcode.method("rounded")


def test_weights_come_back_as_halves_and_no_larger_than_asked(example: ModuleType) -> None:
    rehearsal = Rehearsal.of(fedcode.method("rounded", largest=0.1))
    task = rehearsal.task("a")
    body = Message.from_bytes(rehearsal.answer("a")).section(example.HALVES)
    weights = np.frombuffer(body, "<f2")
    assert weights.size == task.start.layout.weights
    assert np.abs(weights).max() == np.float16(0.1)


def test_weights_larger_than_asked_are_refused(example: ModuleType) -> None:
    careful, free = (Rehearsal.of(fedcode.method("rounded", largest=largest)) for largest in (0.1, 100.0))
    careful.server.message_for("a")
    with pytest.raises(FedcodeError, match=r"asked for weights up to 0\.1, and sent others"):
        careful.server.accept("a", free.answer("a"))
    with pytest.raises(ArgumentError, match="largest must be above 0"):
        fedcode.method("rounded", largest=65536.0)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    methods._registered.pop("rounded")
    fedavg, rounded = capsys.readouterr().out.splitlines()
    assert fedavg.startswith("fedavg: accuracy ")
    up = [float(re.findall(r"(\S+) MB up", line)[0]) for line in (fedavg, rounded)]
    assert up[1] == pytest.approx(up[0] / 2, rel=0.05)


def test_a_run_finds_it_by_the_pages_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    block = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
    group, line = re.findall(r'\[project\.entry-points\."(.*?)"\]\n(\S+ = ".*")', block)[0]
    about = tmp_path / "my_methods-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-methods\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{line}\n".replace('"', ""))
    (tmp_path / "my_methods.py").write_text(EXAMPLE.read_text())
    monkeypatch.syspath_prepend(str(tmp_path))
    methods._entry_points.cache_clear()
    try:
        few = ["--rounds", "1", "--clients", "2", "--epochs", "1", "--fraction", "0.1", "--workers", "1"]
        command = re.findall(r"fedcode (run .*rounded.*)", PAGE)[0].split()
        assert main([*command, *few, "--out", str(tmp_path / "runs"), "--quiet"]) == 0
        assert (tmp_path / "runs" / "rounded" / "summary.json").exists()
    finally:
        methods._entry_points.cache_clear()
        methods._registered.pop("rounded", None)
        sys.modules.pop("my_methods", None)
    assert "Traceback" not in capsys.readouterr().err
