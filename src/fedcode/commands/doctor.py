"""`fedcode doctor`: what is installed here, what it runs on and where it looks."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from fedcode import __version__, kernels
from fedcode.commands import console
from fedcode.errors import MissingExtraError

_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)(?:\[(\w+)\])?[^;]*(?:;.*extra == ['\"]([\w-]+)['\"])?")


def doctor(as_json: console.Json = False) -> None:
    """Say what is installed, which device is used and where data is looked for.

    \b
    Examples:
      fedcode doctor
      fedcode doctor --json > machine.json
    """
    found = examine()
    if as_json:
        console.document(found)
        return
    rows = [("fedcode", found["fedcode"]), ("Python", found["python"]), ("system", found["system"])]
    rows += [("kernels", found["kernels"]), ("threads", str(found["threads"])), ("device", found["device"])]
    rows += [("data is looked for in", place) for place in found["data"]]
    console.table("This machine", ("", ""), rows, numbers=False)
    console.table(
        "What is installed",
        ("part", "state", "versions"),
        [(name, _state(part["missing"], name), _versions(part["installed"])) for name, part in found["parts"].items()],
        numbers=False,
    )


def examine() -> dict[str, Any]:
    """What `doctor` finds, as JSON has it.

    >>> examine()["parts"]["core"]["missing"]
    []
    """
    return {
        "fedcode": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "kernels": _kernels(),
        "threads": kernels.threads(),
        "device": _device(),
        "data": _data(),
        "parts": {name: _part(projects) for name, projects in parts().items()},
    }


def parts() -> dict[str, list[str]]:
    """The projects that the core and each extra need, as the package's own metadata states them.

    >>> "torch" in parts()["train"], "typer" in parts()["train"], "numpy" in parts()["core"]
    (True, True, True)
    """
    direct: dict[str, list[tuple[str, str | None]]] = {"core": []}
    for line in metadata.requires("fedcode") or []:
        match = _REQUIREMENT.match(line)
        assert match, line
        project, extra, part = match.groups()
        direct.setdefault(part or "core", []).append((project, extra))
    return {part: sorted(_flat(direct, part)) for part in direct}


def _flat(direct: dict[str, list[tuple[str, str | None]]], part: str) -> set[str]:
    """The projects of a part, those of the extras that it builds on included."""
    found: set[str] = set()
    for project, extra in direct[part]:
        if project == "fedcode":
            found |= _flat(direct, extra or "core")
        else:
            found.add(project)
    return found


def _part(projects: list[str]) -> dict[str, Any]:
    installed: dict[str, str] = {}
    for project in projects:
        try:
            installed[project] = metadata.version(project)
        except metadata.PackageNotFoundError:
            continue
    return {"installed": installed, "missing": [project for project in projects if project not in installed]}


def _kernels() -> str:
    if os.environ.get("FEDCODE_NUMBA", "1") == "0":
        return "plain numpy, as FEDCODE_NUMBA=0 says"
    return "compiled by numba" if kernels.available() else "plain numpy: numba cannot be imported"


def _device() -> str:
    if find_spec("torch") is None:
        return "none to train on: torch is not installed"
    import torch

    if torch.cuda.is_available():
        return ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    return "the processor; torch sees no GPU"


def _data() -> list[str]:
    try:
        from fedcode.data.places import places
    except MissingExtraError:
        return []  # nothing is looked for: the loaders are part of what is not installed
    return [str(place) for place in places()]


def _state(missing: list[str], part: str) -> str:
    if not missing:
        return "complete"
    return f"lacks {', '.join(missing)}: pip install 'fedcode[{part}]'"


def _versions(installed: dict[str, str]) -> str:
    return ", ".join(f"{project} {version}" for project, version in installed.items())
