"""What comes with the extra, and what the page says."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from flwr.serverapp.strategy import FedAvg

from docs.make_flower import PAGE, page
from fedcode.flower import FedCode, codebook_mod

ROOT = Path(__file__).parents[2]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_extra_is_flower_without_its_simulation() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [need for need in project["optional-dependencies"]["flower"] if "flwr" in need] == ["flwr==1.41.0"]


def test_neither_ray_nor_torch_is_brought_in() -> None:
    code = "import sys, fedcode.flower; print(sorted({'ray', 'torch', 'sklearn'} & set(sys.modules)))"
    assert run(code).stdout == "[]\n"


def test_without_flower_the_error_names_the_command() -> None:
    done = run("import sys; sys.modules['flwr'] = None; import fedcode.flower")
    assert "pip install 'fedcode[flower]'" in done.stderr.splitlines()[-1]


def test_the_strategy_takes_fedavg_s_arguments_by_place_and_name() -> None:
    theirs = list(inspect.signature(FedAvg.__init__).parameters)
    ours = inspect.signature(FedCode.__init__).parameters
    assert list(ours)[: len(theirs)] == theirs
    assert all(ours[name].kind == inspect.Parameter.POSITIONAL_OR_KEYWORD for name in theirs)
    for name in theirs[1:]:
        default = inspect.signature(FedAvg.__init__).parameters[name].default
        assert ours[name].default == (0.0 if name == "fraction_evaluate" else default), name
    assert inspect.signature(FedCode.start).parameters.keys() == inspect.signature(FedAvg.start).parameters.keys()


def test_what_is_measured_stands_on_the_page() -> None:
    if not (ROOT / "results/flower.json").exists():
        pytest.skip("results/flower.json has not been measured: make bench writes it")
    assert PAGE.read_text() == page(), "run .venv/bin/python docs/make_flower.py"


def test_the_page_has_every_argument() -> None:
    text = PAGE.read_text()
    own = [name for name, one in inspect.signature(FedCode.__init__).parameters.items() if one.kind == one.KEYWORD_ONLY]
    for name in [*own, *codebook_mod.__dataclass_fields__]:
        assert re.search(rf"`{name}\b=?", text), name
