"""A run as plain lines: one a round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedcode.commands import console
from fedcode.events import Event, RoundDone, RunStarted


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
            console.remark(line(self.label, self.rounds, event.record, event.totals), self.quiet)


def line(label: str, rounds: int, record: Mapping[str, Any], totals: Mapping[str, Any]) -> str:
    """One round as a line.

    >>> record = {"round": 2, "accuracy": 0.5, "refused": {}, "seconds": {"training": 1.5}}
    >>> line("fedcode", 10, record, {"megabytes": {"down": 1, "up": 2}})
    'fedcode  round  2/10  accuracy 50.00 %  1.00 MB down, 2.00 MB up  1.5 s'
    """
    accuracy = "" if record["accuracy"] is None else f"  accuracy {100 * record['accuracy']:.2f} %"
    megabytes = totals["megabytes"]
    refused = sum(record["refused"].values())
    return (
        f"{label}  round {record['round']:{len(str(rounds))}}/{rounds}{accuracy}"
        f"  {megabytes['down']:.2f} MB down, {megabytes['up']:.2f} MB up  {sum(record['seconds'].values()):.1f} s"
        + (f"  {refused} replies refused" if refused else "")
    )
