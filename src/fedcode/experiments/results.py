"""What was measured: `results/NAME.json`, one file an experiment, a record for every cell that was run.

A record holds the cell, the run's summary (with machine and versions), how it was computed, and a history thin
enough to plot: accuracy, loss, bytes and messages by round. A cell that two experiments share is in both files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcode.errors import ArgumentError, DataError, FedcodeError
from fedcode.experiments.cell import Cell
from fedcode.experiments.held import held
from fedcode.experiments.plan import Plan
from fedcode.experiments.table import Table
from fedcode.files import new_file
from fedcode.rundir import RunRecord

FORMAT = "fedcode results 1"
RECODED = "recoded.jsonl"  # in a run's directory: what other codings of its labels would have cost
_COMPUTED = ("device", "workers", "precision", "compile")
_LEFT_OUT = ("method", "label", "settings", "parts")  # the cell says it, or the run's own directory
_THIN = (("accuracy",), ("loss",), ("bytes", "down"), ("bytes", "up"), ("messages", "down"), ("messages", "up"))

Record = dict[str, Any]


def record_of(cell: Cell, run: RunRecord, recoded: Mapping[str, Any] | None) -> Record:
    """A finished run as a record."""
    assert run.summary is not None
    return {
        "cell": cell.document(),
        "computed": {name: run.config.get(name) for name in _COMPUTED},
        "summary": _rounded({name: value for name, value in run.summary.items() if name not in _LEFT_OUT}),
        "recoded": recoded,
        "history": {"_".join(path): [_rounded(_of(line, path)) for line in run.history] for path in _THIN},
    }


def _of(line: Mapping[str, Any], path: Sequence[str]) -> Any:
    for name in path:
        line = line[name]
    return line


class Results:
    """The files of one folder. Records of all files serve all experiments.

    >>> Results(Path("nowhere")).records
    {}
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: dict[str, Record] = {}
        self.plans: dict[str, dict[str, Plan]] = {}
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
            document = _read(path)
            if document is not None:
                self._take(path, document)

    def of(self, cells: Iterable[Cell]) -> list[Record | None]:
        """The record of each cell, or None where it was not run."""
        return [self.records.get(cell.key) for cell in cells]

    def add(self, key: str, record: Record) -> None:
        """One more record; `write` keeps it."""
        self.records[key] = record

    def write(self, plan: Plan, tables: Callable[[Plan, Results], list[Table]]) -> Path:
        """Merge a plan and its records into the experiment's file, and make its tables anew.

        Several processes may do so at once: each takes over what the others have written.
        """
        path = self.folder / f"{plan.name}.json"
        with held(self.folder):
            document = (_read(path) if path.exists() else None) or {"plans": {}, "cells": {}, "tables": {}}
            self._take(path, document)
            plans = self.plans.setdefault(plan.name, {})
            plans[plan.key] = plan.and_also(plans[plan.key]) if plan.key in plans else plan
            plans = dict(sorted(plans.items()))
            wanted = {cell.key for one in plans.values() for cell in one.cells()}
            merged = {
                "format": FORMAT,
                "experiment": plan.name,
                "title": plan.experiment.title,
                "plans": {key: one.document() for key, one in plans.items()},
                "tables": {
                    key: [table.document() for table in tables(one, self)] for key, one in sorted(plans.items())
                },
                "cells": {key: self.records[key] for key in sorted(wanted & set(self.records))},
            }
            with new_file(path, force=True) as file:
                file.write(_lines(merged).encode())
        return path

    def _take(self, path: Path, document: Mapping[str, Any]) -> None:
        try:
            plans = [Plan.of(plan) for plan in document["plans"].values()]
            for key, record in document["cells"].items():
                if _current(key, record):
                    self.records.setdefault(key, record)
        except (AttributeError, KeyError, TypeError, ValueError, FedcodeError) as error:
            raise DataError(f"{path} is damaged: {error!r}. Restore it, or remove it and run again.") from error
        own = self.plans.setdefault(path.stem, {})
        for plan in plans:
            own[plan.key] = plan.and_also(own[plan.key]) if plan.key in own else plan


def _current(key: str, record: Record) -> bool:
    """Whether a record is of settings that still mean the same; a method that has gained one since is run again."""
    try:
        return Cell.of(record["cell"]).key == key
    except ArgumentError:  # a method or a setting that there no longer is
        return False


def _read(path: Path) -> dict[str, Any] | None:
    """A file of results; None for another JSON file (benchmarks keep theirs beside)."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        return None
    return document


def _lines(document: Mapping[str, Any]) -> str:
    """JSON with one line for a cell and a plan, so that a change of one is a change of one line."""
    parts = []
    for name, value in document.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(part)}" for key, part in value.items())
            parts.append(f" {json.dumps(name)}: {{\n{inner}\n }}" if inner else f" {json.dumps(name)}: {{}}")
        else:
            parts.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _rounded(value: Any) -> Any:
    """The same with six significant digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return value
