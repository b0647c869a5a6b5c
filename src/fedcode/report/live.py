"""The live view: every method's progress, accuracy, megabytes and curve in a terminal, and who trains right now."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedcode.errors import extra
from fedcode.events import ClientDone, Event, RoundDone, RoundStarted, RunDone, RunStarted
from fedcode.ledger import MEGABYTE

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_LEVELS = "▁▂▃▄▅▆▇█"
_RECENT = 5  # rounds that the time left is estimated from
_ROWS = 12  # runs that stand in the view; of more, the last


@dataclass
class Course:
    """One run so far. seconds: of the rounds of this process alone, as a resumed run may go on elsewhere."""

    label: str
    rounds: int
    done: int = 0
    megabytes: float = 0.0
    accuracies: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    over: bool = False

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in the line of a round."""
        self.done += 1
        self.megabytes += (record["bytes"]["down"] + record["bytes"]["up"]) / MEGABYTE
        self.refused += sum(record["refused"].values())
        if record["accuracy"] is not None:
            self.accuracies.append(record["accuracy"])

    @property
    def left(self) -> float | None:
        """Seconds that it will still take, None where nothing is known of it."""
        recent = self.seconds[-_RECENT:]
        return sum(recent) / len(recent) * (self.rounds - self.done) if recent else None


class Live:
    """An observer that draws. Use it inside `watching`; several runs follow each other.

    >>> from rich.console import Console
    >>> live = Live()
    >>> live.on(RunStarted({"label": "fedavg"}, clients=2, rounds=4, parameters=10))
    >>> live.on(RoundStarted(1, ["client-0", "client-1"]))
    >>> [course.label for course in live.courses], live.now
    (['fedavg'], 'fedavg, round 1: client-0, client-1')
    """

    def __init__(self) -> None:
        self.courses: list[Course] = []
        self.round, self.waiting = 0, list[str]()
        self.trained = 0

    def on(self, event: Event) -> None:
        """Hear one event."""
        if isinstance(event, RunStarted):
            self.courses.append(Course(str(event.config["label"]), event.rounds))
            for record in event.history:
                self.courses[-1].add(record)
        elif isinstance(event, RoundStarted):
            self.round, self.waiting, self.trained = event.number, list(event.clients), 0
        elif isinstance(event, ClientDone):
            self.trained += 1
        elif isinstance(event, RoundDone):
            self.courses[-1].add(event.record)
            self.courses[-1].seconds.append(sum(event.record["seconds"].values()))
            self.waiting = []
        elif isinstance(event, RunDone):
            self.courses[-1].over = True

    @property
    def now(self) -> str:
        """Who takes part, as far as there is room for it."""
        if not self.waiting or not self.courses:
            return ""
        names = ", ".join(self.waiting[:6]) + (f" and {len(self.waiting) - 6} more" if len(self.waiting) > 6 else "")
        done = f", {self.trained} of {len(self.waiting)} trained" if self.trained else ""
        return f"{self.courses[-1].label}, round {self.round}{done}: {names}"

    def view(self, width: int) -> RenderableType:
        """What stands in a terminal of this width; narrow ones show less."""
        with extra("cli"):
            from rich.console import Group
            from rich.progress_bar import ProgressBar
            from rich.table import Table
            from rich.text import Text
        grid = Table(box=None, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False, header_style="dim")
        shown = self.courses[-_ROWS:]
        name = max(4, min(28, width - 50, max((len(course.label) for course in shown), default=0)))
        grid.add_column("", max_width=max(name, 8), no_wrap=True, overflow="ellipsis")
        wide, room = width >= 60, width - name - 46
        bar, curve = (max(6, min(20, room // 2 - 1)), max(0, min(24, room // 2 - 1))) if wide else (0, 0)
        if bar:
            grid.add_column("", width=bar)
        grid.add_column("round", justify="right", no_wrap=True)
        grid.add_column("acc. %", justify="right", no_wrap=True)
        if wide:
            grid.add_column("best", justify="right", no_wrap=True)
        grid.add_column("MB", justify="right", no_wrap=True)
        if width >= 48:
            grid.add_column("left", justify="right", no_wrap=True)
        if curve >= 6:
            grid.add_column("", width=curve, no_wrap=True)
        if any(course.refused for course in shown):
            grid.add_column("refused", justify="right", no_wrap=True)
        for course in shown:
            accuracy = course.accuracies[-1] if course.accuracies else None
            cells: list[RenderableType] = [Text(course.label)]
            if bar:
                cells.append(ProgressBar(max(1, course.rounds), course.done, width=bar))
            cells += [Text(f"{course.done}/{course.rounds}"), Text(_percent(accuracy))]
            if wide:
                cells.append(Text(_percent(max(course.accuracies, default=None))))
            cells.append(Text(f"{course.megabytes:,.2f}"))
            if width >= 48:
                cells.append(Text("done" if course.over else clock(course.left)))
            if curve >= 6:
                cells.append(Text(sparkline(course.accuracies, curve), style="cyan"))
            if any(one.refused for one in shown):
                cells.append(Text(str(course.refused)))
            grid.add_row(*cells)
        now = Text(self.now, style="dim", no_wrap=True, overflow="ellipsis")
        return Group(grid, now) if self.now else grid

    def __rich_console__(self, console: Console, _: object) -> Iterator[RenderableType]:
        yield self.view(console.width)


@contextmanager
def watching(console: Console) -> Iterator[Live]:
    """A view in this terminal; what it shows last stays there."""
    from rich.live import Live as Screen

    live = Live()
    with Screen(live, console=console, refresh_per_second=4):  # drawn by a clock of its own: rounds may be fast
        yield live


def sparkline(values: Sequence[float], width: int) -> str:
    """A small curve, as wide as there is room; its last character is the last value.

    >>> sparkline([0.0, 0.5, 1.0], 8), sparkline([], 8)
    ('▁▅█', '')
    """
    if not values or width < 1:
        return ""
    count = min(width, len(values))
    shown = [values[math.ceil((n + 1) * len(values) / count) - 1] for n in range(count)]
    low, high = min(values), max(values)
    steps = len(_LEVELS) - 1
    return "".join(_LEVELS[round((value - low) / (high - low) * steps) if high > low else 0] for value in shown)


def clock(seconds: float | None) -> str:
    """A time left for people.

    >>> clock(75), clock(3700), clock(None)
    ('1:15', '1:01:40', '')
    """
    if seconds is None:
        return ""
    whole = math.ceil(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"
