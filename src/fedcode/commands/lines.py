"""A run as it goes: a line a round, or a view in a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fedcode.commands import console
from fedcode.events import Event, Observer, RoundDone, RunStarted


@contextmanager
def following(quiet: bool = False) -> Iterator[Observer]:
    """An observer for runs one after the other: a view in a terminal, lines elsewhere, nothing if quiet."""
    if quiet or not sys.stderr.isatty():
        yield Lines(quiet)
        return
    from rich.console import Console

    from fedcode.report.live import watching

    console = Console(stderr=True)
    if console.is_dumb_terminal or os.environ.get("CI"):  # what is drawn there cannot be drawn over
        yield Lines(quiet)
    else:
        with watching(console) as live:
            yield live


class Lines:
    """An observer that says a line for every round on stderr."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.label, self.rounds = "", 0

    def on(self, event: Event) -> None:
        """Hear one event."""
        if isinstance(event, RunStarted):
            self.label, self.rounds = event.config["label"], event.rounds
            if event.history:
                console.remark(f"{self.label}  goes on after round {len(event.history)}", self.quiet)
        elif isinstance(event, RoundDone):
            number = event.record["round"]
            place = f"{self.label}  round {number:{len(str(self.rounds))}}/{self.rounds}"
            spent = sum(event.record["seconds"].values())
            console.remark(f"{place}  {line(event.record, event.totals)}  {spent:.1f} s", self.quiet)


def line(record: Mapping[str, Any], totals: Mapping[str, Any]) -> str:
    """What came of a round, and what left so far.

    >>> record = {"round": 2, "accuracy": 0.5, "refused": {}}
    >>> line(record, {"megabytes": {"down": 1, "up": 2}})
    'accuracy 50.00 %  1.00 MB down, 2.00 MB up'
    """
    accuracy = "" if record["accuracy"] is None else f"accuracy {100 * record['accuracy']:.2f} %  "
    megabytes = totals["megabytes"]
    refused = sum(record["refused"].values())
    return f"{accuracy}{megabytes['down']:.2f} MB down, {megabytes['up']:.2f} MB up" + (
        f"  {refused} replies refused" if refused else ""
    )
