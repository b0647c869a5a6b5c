"""What a run did, round by round, as a report needs it: read from files that nobody vouches for, and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from fedcode.errors import RunError
from fedcode.ledger import MEGABYTE

Floats = npt.NDArray[np.float64]

PARTS = ("training", "method", "evaluation", "other")
_LONGEST = 10**9  # no count in a history comes near what a float64 cannot hold
_GREATEST = 1e30  # nor any figure of a summary near what it overflows at


@dataclass(frozen=True, eq=False)
class Trace:
    """One run. Arrays have a value a round: accuracy as a fraction, NaN where the model was not evaluated; bytes.

    slowest: of the clients of a round, the most bytes that one received and the most that one sent. parts: seconds by
    part. centers: the codebook of a round's broadcast, None where it has none. folder: None for what is no directory.

    >>> trace = Trace.of({"method": "fedavg", "rounds": 2}, [], None, "here")
    >>> trace.label, trace.rounds, trace.best
    ('fedavg', 0, None)
    """

    label: str
    config: Mapping[str, Any]
    summary: Mapping[str, Any] | None
    accuracy: Floats
    loss: Floats
    down: Floats
    up: Floats
    messages: Floats
    slowest: Mapping[str, Floats]
    parts: Mapping[str, Floats]
    centers: Sequence[tuple[float, ...] | None] = ()
    folder: Path | None = None
    history: Sequence[Mapping[str, Any]] = field(default=(), repr=False)

    @classmethod
    def of(
        cls,
        config: Mapping[str, Any],
        history: Sequence[Mapping[str, Any]],
        summary: Mapping[str, Any] | None,
        place: object,
        folder: Path | None = None,
    ) -> Trace:
        """A run from what its files say; RunError names the line of `place` that says something else."""
        lines = [_Line(record, f"{place}, line {number}") for number, record in enumerate(history, 1)]

        def column(*path: str, missing: float | None = None) -> Floats:
            return np.array([line.number(*path, missing=missing) for line in lines], np.float64)

        return cls(
            label=str(config.get("label") or config.get("method") or "run"),
            config=config,
            summary=summary,
            accuracy=column("accuracy", missing=math.nan),
            loss=column("loss", missing=math.nan),
            down=column("bytes", "down"),
            up=column("bytes", "up"),
            messages=column("messages", "down") + column("messages", "up"),
            slowest={way: np.array([line.slowest(way) for line in lines]) for way in ("down", "up")},
            parts={part: column("seconds", part, missing=0.0) for part in PARTS},
            centers=[line.centers() for line in lines],
            folder=folder,
            history=history,
        )

    @property
    def method(self) -> str:
        """The method's name."""
        return str(self.config.get("method", ""))

    @property
    def rounds(self) -> int:
        """How many rounds are done."""
        return len(self.down)

    @property
    def wanted(self) -> int:
        """How many rounds were asked for."""
        wanted = self.config.get("rounds")
        return wanted if isinstance(wanted, int) else self.rounds

    @property
    def finished(self) -> bool:
        """Whether all the rounds that were asked for are there."""
        return 0 < self.rounds >= self.wanted

    @cached_property
    def megabytes(self) -> Floats:
        """What had left both ways after each round, in megabytes of 2^20 bytes."""
        found: Floats = np.cumsum(self.down + self.up) / MEGABYTE
        return found

    @property
    def best(self) -> float | None:
        """The best accuracy."""
        return None if np.isnan(self.accuracy).all() else float(np.nanmax(self.accuracy))

    @property
    def best_round(self) -> int | None:
        """The round of the best accuracy, the first of equals."""
        return None if self.best is None else int(np.nanargmax(self.accuracy)) + 1

    @property
    def final(self) -> float | None:
        """The last accuracy that is known."""
        known = self.accuracy[~np.isnan(self.accuracy)]
        return float(known[-1]) if known.size else None

    @property
    def clients(self) -> int | None:
        """How many clients there are."""
        clients = self.config.get("clients")
        return clients if isinstance(clients, int) and 0 < clients < _LONGEST else None

    @property
    def parameters(self) -> int | None:
        """P: how many weights the model has; known when the run is finished."""
        found = self.said("parameters")
        return int(found) if found else None

    @property
    def bits(self) -> Floats:
        """Bits a parameter and message, by round; NaN where that is not known."""
        weights = self.parameters
        if not weights:
            return np.full(self.rounds, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = np.where(self.messages > 0, 8 * (self.down + self.up) / (self.messages * weights), np.nan)
        return found

    @property
    def classes(self) -> list[list[int]] | None:
        """How many examples of each class every client holds; None where it is not known."""
        partition = (self.summary or {}).get("partition")
        found = partition.get("classes") if isinstance(partition, Mapping) else None
        if not isinstance(found, list) or not found or not all(isinstance(row, list) for row in found):
            return None
        whole = all(type(count) is int and 0 <= count < _LONGEST for row in found for count in row)
        return found if whole and len({len(row) for row in found}) == 1 and found[0] else None

    def said(self, *path: str) -> float | None:
        """A number of the summary, None where it holds none there."""
        value: object = self.summary
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if abs(value) < _GREATEST else None  # neither is NaN less

    def until(self, accuracy: float) -> int | None:
        """The first round (from 1) with this accuracy; None where it was never reached."""
        with np.errstate(invalid="ignore"):
            reached = np.flatnonzero(self.accuracy >= accuracy)
        return int(reached[0]) + 1 if reached.size else None


@dataclass(frozen=True)
class _Line:
    """One line of a history, and where it stands."""

    record: Mapping[str, Any]
    place: str

    def number(self, *path: str, missing: float | None = None) -> float:
        value: object = self.record
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is None and missing is not None:
            return missing
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
            self._refuse(path, "a number of 0 or more", value)
        return float(value)

    def slowest(self, way: str) -> float:
        """The most bytes of one client; the mean of all messages where clients are not told apart."""
        clients = self.record.get("per_client")
        if isinstance(clients, Mapping) and clients:
            return max(_Line(count, f"{self.place}, {str(name)[:60]!r}").number(way) for name, count in clients.items())
        messages = self.number("messages", way)
        return self.number("bytes", way) / messages if messages else 0.0

    def centers(self) -> tuple[float, ...] | None:
        found = self.record.get("centers")
        if found is None:
            return None
        numbers = isinstance(found, list) and all(isinstance(x, int | float) for x in found)
        if not numbers or not 0 < len(found) <= 4096 or not all(abs(x) < 1e30 for x in found):
            self._refuse(("centers",), "a list of at most 4096 numbers", found)
        return tuple(float(x) for x in found)

    def _refuse(self, path: Sequence[str], expected: str, got: object) -> NoReturn:
        raise RunError(f"{self.place} is damaged: {'.'.join(path)} should be {expected}, got {repr(got)[:60]}.")
