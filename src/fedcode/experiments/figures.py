"""The figures of one line of a table: means over the seeds that were run, differences over those that both have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fedcode.experiments.interval import Interval, interval
from fedcode.experiments.plan import Line
from fedcode.experiments.results import Record, Results
from fedcode.paper_count import MEGABYTE

BYTES = MEGABYTE // 8  # of a megabyte, as the paper has it


@dataclass(frozen=True)
class Measured:
    """What the seeds of one line came to. records: of the seeds that were run; wanted: how many there might be."""

    line: Line
    records: tuple[Record, ...]
    pairs: tuple[tuple[Record, Record], ...]
    wanted: int

    @classmethod
    def of(cls, line: Line, results: Results) -> Measured:
        """The line's records out of all results."""
        found = results.of(line.cells)
        other = results.of(line.against) if line.against else [None] * len(found)
        pairs = tuple((own, their) for own, their in zip(found, other, strict=True) if own and their)
        return cls(line, tuple(one for one in found if one), pairs, len(found))

    @property
    def seeds(self) -> str | int:
        """How many seeds stand behind the line, in words where some are missing."""
        if not self.records:
            return "not run"
        return len(self.records) if len(self.records) == self.wanted else f"{len(self.records)} of {self.wanted}"

    @property
    def said(self) -> Mapping[str, float]:
        """What the paper prints of this line; nothing where the line was moved to another data set."""
        row = self.line.row
        return row.printed if self.line.cells[0].dataset == row.cell.dataset else {}

    def mean(self, figure: Callable[[Record], float | None]) -> float | None:
        """A figure's mean over the seeds; None where one of them has none."""
        values = [figure(record) for record in self.records]
        known = [value for value in values if value is not None]
        return math.fsum(known) / len(known) if known and len(known) == len(values) else None

    def summary(self, *path: str) -> float | None:
        """The mean of a figure of the runs' summaries."""
        return self.mean(lambda record: at(record["summary"], *path))

    def accuracy(self, which: str) -> float | None:
        """Best or final accuracy, in percent."""
        value = self.summary("accuracy", which)
        return None if value is None else 100 * value

    def megabytes(self, direction: str) -> float | None:
        """Megabytes of 2^20 bytes, by direction."""
        return self.summary("megabytes", direction)

    @property
    def difference(self) -> Interval | None:
        """Best accuracy against the line that it is compared with, seed by seed, in points."""
        pairs = [[at(record["summary"], "accuracy", "best") for record in pair] for pair in self.pairs]
        return interval([100 * (own - their) for own, their in pairs if own is not None and their is not None])

    def until(self, accuracy: float) -> float | None:
        """Megabytes, both ways, until this accuracy (a fraction) was first reached; None where it never was."""
        return self.mean(lambda record: _until(record, accuracy))

    def bits(self, round: int) -> float | None:
        """Bits a parameter and message in one round."""
        return self.mean(lambda record: _bits(record, round))

    @property
    def rounds(self) -> int:
        """How many rounds were run."""
        return max((int(record["summary"]["rounds"]) for record in self.records), default=0)


def at(value: object, *path: str) -> float | None:
    """What stands at a place of nested dictionaries, where it is a number.

    >>> at({"dtr": {"down": 2.0}}, "dtr", "down"), at({"dtr": None}, "dtr", "down")
    (2.0, None)
    """
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return float(value) if isinstance(value, int | float) else None


def _until(record: Record, accuracy: float) -> float | None:
    history, sent = record["history"], 0
    for reached, down, up in zip(history["accuracy"], history["bytes_down"], history["bytes_up"], strict=True):
        sent += int(down) + int(up)
        if reached is not None and reached >= accuracy:
            return sent / BYTES
    return None


def _bits(record: Record, round: int) -> float | None:
    if round > record["summary"]["rounds"]:
        return None
    history, at = record["history"], round - 1
    messages = int(history["messages_down"][at]) + int(history["messages_up"][at])
    sent = int(history["bytes_down"][at]) + int(history["bytes_up"][at])
    weights: int = record["summary"]["parameters"]
    return 8 * sent / (messages * weights) if messages else None
