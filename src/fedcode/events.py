"""What happens in a run, as it happens. An observer is any object with `on(event)`; nothing prints by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class RunStarted:
    """A run begins or goes on. history: the lines of the rounds that are done already."""

    config: Mapping[str, Any]
    clients: int
    rounds: int
    parameters: int
    history: Sequence[Mapping[str, Any]] = field(default=(), repr=False)


@dataclass(frozen=True)
class RoundStarted:
    """A round begins with these clients; rounds count from 1."""

    number: int
    clients: Sequence[str]


@dataclass(frozen=True)
class ClientDone:
    """A client has trained. loss: its mean over the last epoch; seconds: spent in its training."""

    number: int
    client: str
    examples: int
    loss: float | None
    seconds: float


@dataclass(frozen=True)
class RoundDone:
    """A round is over. record: its line of the history; totals: the figures of the run so far."""

    record: Mapping[str, Any]
    totals: Mapping[str, Any]


@dataclass(frozen=True)
class RunDone:
    """The run is over. state: the global model, arrays by name."""

    summary: Mapping[str, Any]
    state: Mapping[str, Any] = field(default_factory=dict, repr=False)


Event = RunStarted | RoundStarted | ClientDone | RoundDone | RunDone


class Observer(Protocol):
    """Anything that follows a run.

    >>> class Printer:
    ...     def on(self, event: Event) -> None:
    ...         print(type(event).__name__)
    >>> Printer().on(RoundStarted(1, ["client-0"]))
    RoundStarted
    """

    def on(self, event: Event) -> None:
        """Hear one event."""
