"""Runs found in the places that a caller names. What cannot be read becomes a sentence, and the rest is still there."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedcode import rundir
from fedcode.errors import ArgumentError, FedcodeError, RunError
from fedcode.report.trace import Trace

_HISTORY = ("accuracy", "loss")  # of a record of results; bytes and messages stand there by direction
_DIRECTED = ("bytes", "messages")
_LEFT_OUT = " It is left out."


@dataclass(frozen=True)
class Gathering:
    """Runs, each with a label of its own, and what must be said of those that are not whole."""

    traces: tuple[Trace, ...]
    remarks: tuple[str, ...] = ()

    @property
    def fedavg(self) -> Trace | None:
        """The run that the others are measured against."""
        return next((trace for trace in self.traces if trace.method == "fedavg" and trace.best), None)


def gather(places: Iterable[str | os.PathLike[str]], where: Iterable[str] = ()) -> Gathering:
    """The runs in these directories, in directories of these, and in files of results.

    where: settings that they must have, as "dataset=cifar10".

    >>> gather(["nowhere"])
    Traceback (most recent call last):
    fedcode.errors.RunError: nowhere is neither a run's directory nor a file of results: there is nothing there.
    """
    traces: list[Trace] = []
    remarks: list[str] = []
    for place in dict.fromkeys(Path(place) for place in places):
        for source in _sources(place, remarks):
            try:
                found = list(_of_results(source)) if source.is_file() else [_of_directory(source, remarks)]
            except (FedcodeError, OSError, RecursionError) as error:
                remarks.append(_ended(error) + _LEFT_OUT)
            else:
                traces += found
    wanted = [_pair(text) for text in where]
    found_at_all = bool(traces)
    traces = [trace for trace in traces if all(_says(trace, *pair) for pair in wanted)]
    if found_at_all and not traces:
        raise ArgumentError(f"none of these runs has {' and '.join('='.join(pair) for pair in wanted)}.")
    if not traces:
        said = " ".join(remark.removesuffix(_LEFT_OUT) for remark in remarks)  # there is nothing that it is left out of
        raise RunError(said or "There is no run to show: name the directory of one.")
    return Gathering(tuple(told_apart(traces)), tuple(remarks))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ArgumentError(f"which runs are meant is said as NAME=VALUE, as in dataset=cifar10: got {text!r}.")
    return name.strip(), value.strip()


def _says(trace: Trace, name: str, value: str) -> bool:
    """Whether a run has a setting, its method's own settings included."""
    own = trace.config.get("settings")
    said = own[name] if isinstance(own, Mapping) and name in own else trace.config.get(name)
    try:
        return said == value or float(said) == float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _sources(place: Path, remarks: list[str]) -> list[Path]:
    """A place itself, or the runs in it, the order of the command that made them."""
    if not place.exists():
        remarks.append(f"{place} is neither a run's directory nor a file of results: there is nothing there.")
        return []
    if place.is_file() or (place / rundir.CONFIG).exists() or (place / rundir.HISTORY).exists():
        return [place]
    inside = sorted(path for path in place.iterdir() if path.is_dir() and (path / rundir.CONFIG).exists())
    if not inside:
        remarks.append(f"{place} is no run's directory and holds none: there is no {rundir.CONFIG}.")
    return sorted(inside, key=lambda path: (_begun(path), path.name))


def _begun(path: Path) -> float:
    try:
        return (path / rundir.CONFIG).stat().st_mtime
    except OSError:
        return 0.0


def _of_directory(folder: Path, remarks: list[str]) -> Trace:
    config = rundir.config_of(folder)
    history = _history(folder / rundir.HISTORY, remarks)
    summary = None
    if (folder / rundir.SUMMARY).exists():
        try:
            summary = rundir.object_of(rundir.text_of(folder / rundir.SUMMARY), folder / rundir.SUMMARY)
        except RunError as error:
            remarks.append(f"{error} Its figures are taken from the history.")
    trace = Trace.of(config, history, summary, folder / rundir.HISTORY, folder)
    if trace.rounds < trace.wanted:
        remarks.append(f"{folder} is not finished: {trace.rounds} of {trace.wanted} rounds are there.")
    return trace


def _history(path: Path, remarks: list[str]) -> list[dict[str, Any]]:
    """The lines up to the first that is damaged. The last may be half written, which says nothing of the others."""
    found: list[dict[str, Any]] = []
    for number, line in enumerate(rundir.text_of(path).split("\n")[:-1] if path.exists() else [], 1):
        try:
            record = rundir.object_of(line, f"{path}, line {number},")
        except RunError as error:
            remarks.append(f"{error} The rounds before it are shown.")
            break
        found.append(record)
    return found


def _of_results(path: Path) -> Iterator[Trace]:
    """The records of a file of results, as `fedcode reproduce` writes it."""
    try:
        document = json.loads(rundir.text_of(path))
        cells = document["cells"]
        if not str(document["format"]).startswith("fedcode results"):
            raise KeyError("format")
        for key, record in cells.items():
            config = {**record["cell"], "label": key}
            yield Trace.of(config, _lines(record["history"]), record["summary"], f"{path}, {key[:60]!r}")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise RunError(f"{path} is no file of results as fedcode reproduce writes it: {_short(error)}.") from error


def _lines(history: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A thin history, columns of numbers, as lines."""
    return [
        {name: history[name][n] for name in _HISTORY if name in history}
        | {name: {way: history[f"{name}_{way}"][n] for way in ("down", "up")} for name in _DIRECTED}
        for n in range(len(history["bytes_down"]))
    ]


def told_apart(traces: list[Trace]) -> Iterator[Trace]:
    """Runs of one label by the directory above, and by a number where that is not enough."""
    often = Counter(trace.label for trace in traces)
    named = [
        replace(trace, label=f"{trace.folder.resolve().parent.name}/{trace.label}")
        if often[trace.label] > 1 and trace.folder is not None
        else trace
        for trace in traces
    ]
    often, seen = Counter(trace.label for trace in named), Counter[str]()
    for trace in named:
        seen[trace.label] += 1
        last = f" ({seen[trace.label]})" if often[trace.label] > 1 else ""
        yield replace(trace, label=trace.label + last)


def _short(error: Exception) -> str:
    """What is wrong, in a line: an error can quote all of a file."""
    text = f"there is no {error}" if isinstance(error, KeyError) else str(error)
    return text if len(text) <= 100 else f"{text[:100]} ..."


def _ended(error: Exception) -> str:
    text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
    return text if text.endswith(".") else f"{text}."
