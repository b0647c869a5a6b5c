"""Time on the air: what bytes cost a client that hangs on a link of so many megabits a second."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcode import rundir
from fedcode.errors import ArgumentError
from fedcode.files import new_file
from fedcode.report.trace import Trace

SHARE = 0.8  # of the reference's best accuracy: the question is how long until there
MARK = f"{100 * SHARE:.0f} %"
_SLOWEST = 1e-9  # Mbit/s; below that times are no numbers


@dataclass(frozen=True)
class Link:
    """Megabits a second to a client and from it. said: where the figures come from.

    >>> Link.of("4g").down, Link.of("2/0.5").up
    (30.0, 0.5)
    """

    name: str
    down: float
    up: float
    said: str = ""

    @classmethod
    def of(cls, text: str) -> Link:
        """A link by name, or as DOWN/UP in Mbit/s."""
        for link in LINKS:
            if link.name == text.strip().lower():
                return link
        parts = text.split("/")
        try:
            down, up = (float(part) for part in (parts if len(parts) > 1 else parts * 2))
        except ValueError as error:
            raise ArgumentError(
                f"a link is DOWN/UP in Mbit/s, as 20/5, or one of {', '.join(link.name for link in LINKS)}: "
                f"got {text!r}."
            ) from error
        if not (_SLOWEST <= down < math.inf and _SLOWEST <= up < math.inf):
            raise ArgumentError(f"a link carries {_SLOWEST:g} Mbit/s or more each way: got {text!r}.")
        return cls(f"{down:g}/{up:g}", down, up)

    @property
    def words(self) -> str:
        """The link with its figures.

        >>> Link.of("3g").words
        '3g: 3 Mbit/s down, 1 Mbit/s up (typical of HSPA)'
        """
        said = f" ({self.said})" if self.said else ""
        return f"{self.name}: {_speed(self.down)} down, {_speed(self.up)} up{said}"

    def hours(self, down: float, up: float) -> float:
        """How long so many bytes each way take.

        >>> Link("slow", 1, 1).hours(450_000_000, 0)
        1.0
        """
        return 8 * (down / self.down + up / self.up) / 1e6 / 3600

    def per_client(self, trace: Trace) -> float | None:
        """Hours of transfer of a client in the whole run, the mean of all; None where nobody says how many."""
        if not trace.clients:
            return None
        return self.hours(float(trace.down.sum()), float(trace.up.sum())) / trace.clients

    def elapsed(self, trace: Trace, rounds: int | None) -> float | None:
        """Hours that rounds one after the other take: clients transfer side by side, the slowest decides."""
        if rounds is None:
            return None
        down, up = (float(np.sum(trace.slowest[way][:rounds])) for way in ("down", "up"))
        return self.hours(down, up)

    def document(self, trace: Trace, target: float | None) -> dict[str, Any]:
        """As summary.json has it. target: the accuracy that is asked for."""
        reached = None if target is None else trace.until(target)
        return {
            "link": {"name": self.name, "down_mbit_s": self.down, "up_mbit_s": self.up},
            "hours_per_client": self.per_client(trace),
            "training_hours": float(trace.parts["training"].sum()) / 3600,
            "target_accuracy": target,
            "rounds_until_target": reached,
            "hours_until_target": self.elapsed(trace, reached),
        }


def note(link: Link, traces: Sequence[Trace], target: float | None) -> None:
    """Write what the air costs into the summary of every finished run, under "air"."""
    for trace in traces:
        if trace.folder is None or trace.summary is None:
            continue
        summary = {**trace.summary, "air": rundir.finite(link.document(trace, target))}
        run = rundir.RunDirectory(trace.folder)
        with run.opened(), run.writing(), new_file(trace.folder / rundir.SUMMARY, force=True) as file:
            file.write(json.dumps(summary, indent=2).encode() + b"\n")


LINKS = (
    Link("4g", 30.0, 10.0, "typical of LTE"),
    Link("3g", 3.0, 1.0, "typical of HSPA"),
    Link("nb-iot", 0.026, 0.062, "the peak of LTE Cat-NB1"),
    Link("lorawan", 0.0000547, 0.0000547, "5.47 kbit/s, SF7 at 125 kHz, for the 1 % of the time that Europe allows"),
)


def target(traces: Sequence[Trace], fedavg: Trace | None) -> float | None:
    """The accuracy to ask about: 80 % of FedAvg's best, of the best of all where FedAvg was not run."""
    best = [trace.best for trace in ([fedavg] if fedavg else traces) if trace.best is not None]
    return SHARE * max(best) if best else None


def duration(hours: float | None) -> str:
    """Hours for people.

    >>> duration(0.01), duration(1.5), duration(100), duration(None)
    ('36 s', '1.5 h', '4.2 days', '-')
    """
    if hours is None:
        return "-"
    seconds = 3600 * hours
    for limit, unit, size in ((60, "s", 1), (3600, "min", 60), (48 * 3600, "h", 3600), (math.inf, "days", 86400)):
        if seconds < limit:
            value = seconds / size
            return f"{value:.2g} {unit}" if value < 10 else f"{value:,.0f} {unit}"
    raise AssertionError("no time is longer")


def _speed(megabits: float) -> str:
    for size, unit in ((1, "Mbit/s"), (1e-3, "kbit/s")):
        if megabits >= size:
            return f"{megabits / size:g} {unit}"
    return f"{megabits * 1e6:g} bit/s"
