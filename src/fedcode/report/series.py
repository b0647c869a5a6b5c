"""What the page's charts draw, as plain data: columns by round, thin enough for a page that opens at once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fedcode import rundir
from fedcode.errors import FedcodeError
from fedcode.report.trace import PARTS, Floats, Trace
from fedcode.report.weights import histogram

POINTS = 500  # of a run in a chart; more cannot be told apart on a screen
CODEBOOKS, CENTERS = 60, 64  # rounds and centres that the chart of moving centres has at most
CLIENTS = 100  # whose class mix is drawn


def of_run(trace: Trace, remarks: list[str]) -> dict[str, Any]:
    """One run's columns, as JSON has them. What of it is damaged is said in `remarks`."""
    kept = thinned(trace.rounds, POINTS, [] if trace.best_round is None else [trace.best_round - 1])
    return {
        "label": trace.label,
        "method": trace.method,
        "of": trace.rounds,
        "round": [index + 1 for index in kept],
        "megabytes": _numbers(trace.megabytes, kept),
        "accuracy": _numbers(100 * trace.accuracy, kept),
        "down": _numbers(trace.down, kept),
        "up": _numbers(trace.up, kept),
        "bits": _numbers(trace.bits, kept),
        "seconds": {part: round(float(trace.parts[part].sum()), 3) for part in PARTS},
        "centers": _centers(trace),
        "weights": _weights(trace, remarks),
    }


def thinned(count: int, most: int, always: Iterable[int] = ()) -> list[int]:
    """Indices from 0 to count - 1, evenly spaced, the first, the last and those in `always` among them.

    >>> thinned(5, 10), thinned(1000, 5, [7])
    ([0, 1, 2, 3, 4], [0, 7, 333, 666, 999])
    """
    if count <= most:
        return list(range(count))
    wanted = set(always)
    evenly = np.linspace(0, count - 1, max(2, most - len(wanted)))
    return sorted(wanted | {int(place) for place in evenly})


def class_mixes(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """Who holds how many examples of which class; runs on one partition share one."""
    found: list[dict[str, Any]] = []
    for trace in traces:
        classes = trace.classes
        if classes is None:
            continue
        same = next((mix for mix in found if mix["classes"] == classes), None)
        if same is not None:
            same["runs"].append(trace.label)
        else:
            found.append({"runs": [trace.label], "classes": classes})
    return [{**mix, "clients": len(mix["classes"]), "classes": mix["classes"][:CLIENTS]} for mix in found[:4]]


def _centers(trace: Trace) -> dict[str, Any] | None:
    """A line for every centre. Where the number of centres changes, the rounds with the most frequent are shown."""
    held = [(number, centers) for number, centers in enumerate(trace.centers, 1) if centers]
    if not held:
        return None
    size = Counter(len(centers) for _, centers in held).most_common(1)[0][0]
    held = [pair for pair in held if len(pair[1]) == size]
    rounds = [held[index] for index in thinned(len(held), CODEBOOKS)]
    lines = thinned(size, CENTERS)
    return {
        "round": [number for number, _ in rounds],
        "of": size,
        "lines": [[_number(sorted(centers)[line], 5) for _, centers in rounds] for line in lines],
    }


def _weights(trace: Trace, remarks: list[str]) -> dict[str, Any] | None:
    if trace.folder is None or not (trace.folder / rundir.MODEL).exists():
        return None
    try:
        found = histogram(trace.folder / rundir.MODEL)
    except (FedcodeError, OSError) as error:
        remarks.append(f"{str(error).rstrip('.')}. The histogram of its weights is left out.")
        return None
    centers = next((centers for centers in reversed(trace.centers) if centers), ())
    return {
        "value": [_number(value, 6) for value in found.middles],
        "count": list(found.counts),
        "centers": [_number(value, 5) for value in sorted(centers)],
    }


def _numbers(values: Floats, kept: Sequence[int]) -> list[float | int | None]:
    return [_number(float(values[index]), 6) for index in kept]


def _number(value: float, digits: int) -> float | int | None:
    """A number with so many digits, as short as JSON can say it; null for what is none."""
    if not math.isfinite(value):
        return None
    if value == int(value) and abs(value) < 1e15:
        return int(value)
    return float(f"{value:.{digits}g}")
