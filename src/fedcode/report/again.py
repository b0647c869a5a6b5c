"""How a run is made again: its settings as TOML that `fedcode run --config` takes, and the command."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fedcode.errors import ArgumentError
from fedcode.report.trace import Trace
from fedcode.toml import write_toml

FILE = "again.toml"
_LEFT_OUT = ("method", "settings", "versions", "machine", "data_dir", "label", "scale")  # the last: of a cell
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")


def settings(traces: Sequence[Trace]) -> list[tuple[list[str], str]]:
    """TOML for every group of runs that can be run by one command, with their labels.

    >>> trace = Trace.of({"method": "fedavg", "rounds": 2, "settings": {"server": "none"}}, [], None, "here")
    >>> print(settings([trace])[0][1], end="")
    methods = ["fedavg"]
    rounds = 2
    <BLANKLINE>
    [fedavg]
    server = "none"
    """
    groups: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = []
    for trace in traces:
        common = {name: value for name, value in trace.config.items() if name not in _LEFT_OUT and value is not None}
        own = trace.config.get("settings")
        for shared, methods, labels in groups:
            if shared == common and trace.method not in methods:
                methods[trace.method] = own
                labels.append(trace.label)
                break
        else:
            groups.append((common, {trace.method: own}, [trace.label]))
    found = []
    for common, methods, labels in groups:
        tables = {name: dict(own) for name, own in methods.items() if isinstance(own, Mapping) and own}
        try:
            text = write_toml({"methods": list(methods), **_flat(common), **tables})
        except (ArgumentError, TypeError):
            text = f"# the settings of {', '.join(repr(label) for label in labels)} cannot be written as TOML\n"
        found.append((labels, text))
    return found


def command() -> str:
    """The command that takes the settings."""
    return f"fedcode run --config {FILE}"


def where(trace: Trace) -> str:
    """What a run was run on: versions and machine, as one line."""
    said = trace.summary or trace.config
    parts = []
    for name in ("versions", "machine"):
        found = said.get(name)
        if isinstance(found, Mapping):
            parts.append(", ".join(f"{key} {value}" for key, value in found.items() if value is not None))
    return "; ".join(parts)


def paragraph(text: str) -> str:
    """Text as HTML that a button can copy."""
    return f'<div class="copyable"><button type="button" class="copy">Copy</button><pre>{html.escape(text)}</pre></div>'


def _flat(common: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in common.items() if not isinstance(value, Mapping) and _PLAIN.fullmatch(name)}
