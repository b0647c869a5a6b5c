"""What importing brings in, what is public, and which file may use which."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedcode
from fedcode.errors import MissingExtraError, extra, require

PACKAGE = Path(fedcode.__file__).parent

# Layers from the ground up; a file may use files of its own layer and of those below. Files of the core that
# stand in no list are the core's (CORE), where the rule is that nothing above may be used.
ABOVE_THE_CORE = [{"models", "data"}, {"simulation", "flower"}, {"experiments"}, {"report"}, {"commands", "cli"}]
HEAVY = {"torch", "flwr", "typer", "rich", "sklearn", "safetensors", "matplotlib"}
LAZY = {"numba", "pcodec"}


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_importing_fedcode_brings_in_nothing_heavy() -> None:
    heavy = sorted(HEAVY | LAZY | {"numpy"})
    code = f"import sys, fedcode; print(sorted(set({heavy}) & set(sys.modules)))"
    assert run(code).stdout == "[]\n"


def test_importing_fedcode_brings_in_nothing_but_itself() -> None:
    """So it costs nothing beside what numpy costs; no clock is needed to see it."""
    code = "import sys, numpy; before = set(sys.modules); import fedcode; print(sorted(set(sys.modules) - before))"
    assert run(code).stdout in ("['__future__', 'fedcode']\n", "['fedcode']\n")


def test_what_the_core_needs_is_loaded_when_it_is_used() -> None:
    code = "import sys, numpy, fedcode; fedcode.Codebook; fedcode.encode; fedcode.receive; fedcode.Server"
    assert run(f"{code}; print(sorted(set({sorted(LAZY)}) & set(sys.modules)))").stdout == "[]\n"


def test_the_core_works_without_torch() -> None:
    code = "import sys, numpy, fedcode; fedcode.decode(fedcode.encode({'w': numpy.arange(9.0)}))"
    got = run(f"{code}; print(sorted(set({sorted(HEAVY)}) & set(sys.modules)))")
    assert (got.stdout, got.stderr) == ("[]\n", "")


def test_the_commands_import_nothing_heavy_until_they_run() -> None:
    code = "import sys; from fedcode.cli import app; app(); print('torch' in sys.modules, 'numba' in sys.modules)"
    assert run(code).stdout == "False False\n"


def test_every_public_name_can_be_loaded_and_has_a_docstring() -> None:
    names = sorted(set(fedcode.__all__) - {"__version__"})
    assert fedcode.__all__ == [*names, "__version__"]
    for name in names:
        assert getattr(fedcode, name).__doc__, name
    assert set(dir(fedcode)) == set(fedcode.__all__)


def test_what_type_checkers_see_is_what_is_public() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    shown = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.If)
        for inner in node.body
        if isinstance(inner, ast.ImportFrom) and inner.level == 0 and (inner.module or "").startswith("fedcode")
        for alias in inner.names
    }
    assert shown == set(fedcode.__all__) - {"__version__"}


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'fedcode' has no attribute 'centroids'"):
        fedcode.__getattr__("centroids")


def test_a_missing_extra_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)  # what makes an import fail
    with pytest.raises(MissingExtraError, match=r"pip install 'fedcode\[cli\]'"):
        require("typer", "cli")


@pytest.mark.parametrize(
    ("module", "code", "extra"),
    [
        ("torch", "fedcode.simulate('fedavg', rounds=1)", "train"),
        ("torch", "import fedcode.models", "train"),
        ("torch", "import fedcode.data", "train"),
        ("torch", "import fedcode.simulation", "train"),
        ("torch", "fedcode.decode(fedcode.encode({}), tensors=True)", "train"),
        ("sklearn", "from fedcode import data; data.digits()", "train"),
        ("flwr", "import fedcode.flower", "flower"),
        ("typer", "from fedcode.errors import require; require('typer', 'cli')", "cli"),
    ],
)
def test_what_needs_an_extra_names_the_pip_command(module: str, code: str, extra: str) -> None:
    got = run(f"import sys; sys.modules['{module}'] = None; import fedcode; {code}")
    said = got.stderr.splitlines()[-1]
    assert said.startswith("fedcode.errors.MissingExtraError: ")
    assert said.endswith(f"Run: pip install 'fedcode[{extra}]'")


def test_a_mistake_of_ours_is_no_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError) as caught, extra("train"):
        importlib.import_module("fedcode.nowhere")
    assert not isinstance(caught.value, MissingExtraError)


def test_the_command_without_typer_is_one_sentence() -> None:
    got = run("import sys; sys.modules['typer'] = None; from fedcode.cli import main; sys.exit(main(['doctor']))")
    assert got.returncode == 4
    assert got.stderr == "fedcode: typer is needed here and not installed. Run: pip install 'fedcode[cli]'\n"


def imports(file: Path) -> Iterator[tuple[str, bool]]:
    """The modules that a file imports, and whether at its top (not in a function, not for types alone)."""

    def walk(node: ast.AST, top: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.Import):
                yield from ((alias.name, top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{file}: relative import"
                module = child.module or ""
                yield module, top
                yield from ((f"{module}.{alias.name}", top) for alias in child.names)
            yield from walk(child, top and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    yield from walk(ast.parse(file.read_text()), True)


def layer(module: str) -> int:
    """0 for the core; `fedcode.data.digits` stands with `data`."""
    part = module.split(".")[1] if "." in module else ""
    return next((level for level, parts in enumerate(ABOVE_THE_CORE, 1) if part in parts), 0)


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_no_file_uses_what_stands_above_it(file: Path) -> None:
    own = layer("fedcode." + ".".join(file.relative_to(PACKAGE).with_suffix("").parts))
    for module, top in imports(file):
        if module.split(".")[0] == "fedcode":
            assert layer(module) <= own, f"uses {module}, which stands above it"
        if own == 0:
            heavy = HEAVY | LAZY if top else HEAVY
            assert module.split(".")[0] not in heavy, f"the core imports {module}"


def test_the_layering_test_sees_imports(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text("import torch\ndef f():\n    from fedcode import cli\n")
    assert list(imports(file)) == [("torch", True), ("fedcode", False), ("fedcode.cli", False)]
    assert layer("fedcode.cli") > layer("fedcode.data.digits") > layer("fedcode.wire")
