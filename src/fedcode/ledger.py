"""The ledger: every byte that left, by round, client and direction, with the paper's count beside it.

    DTR                 by how many times fewer bytes left than FedAvg's own messages for the same model and the
                        same clients would have been
    bits per parameter  8 x bytes / (messages x P): FedAvg's is a little over 32

Messages that are only to be evaluated are a column of their own and are in neither figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedcode.ends import Method
from fedcode.errors import MessageError
from fedcode.layout import Layout
from fedcode.paper_count import raw_bits
from fedcode.reader import Buffer
from fedcode.wire import Message, MessageKind

DOWN, UP, EVALUATE = "down", "up", "evaluate"
MEGABYTE = 2**20  # the paper's megabytes


@dataclass(frozen=True)
class Traffic:
    """What left in one round. paper_bits: None where the method's paper gives no count.

    per_client: bytes by client and direction; who is in it would have got FedAvg's messages too.
    """

    bytes: Mapping[str, int]
    messages: Mapping[str, int]
    paper_bits: Mapping[str, int | None]
    per_client: Mapping[str, Mapping[str, int]]

    def record(self) -> dict[str, Any]:
        """As a line of a run's history has it."""
        return {
            "bytes": dict(self.bytes),
            "messages": dict(self.messages),
            "paper_bits": dict(self.paper_bits),
            "per_client": {name: dict(count) for name, count in self.per_client.items()},
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Traffic:
        """What a line of a history says."""
        return cls(record["bytes"], record["messages"], record["paper_bits"], record["per_client"])

    def receivers(self, direction: str) -> int:
        """How many clients a message went to, or came from."""
        return sum(count[direction] > 0 for count in self.per_client.values())


@dataclass(frozen=True)
class Totals:
    """What left in all rounds so far. fedavg: bytes that FedAvg would have sent; fedavg_bits: by the paper's count."""

    parameters: int
    bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys((DOWN, UP, EVALUATE), 0))
    messages: dict[str, int] = field(default_factory=lambda: dict.fromkeys((DOWN, UP, EVALUATE), 0))
    paper_bits: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys((DOWN, UP), 0))
    fedavg: dict[str, int] = field(default_factory=lambda: dict.fromkeys((DOWN, UP), 0))
    fedavg_bits: dict[str, int] = field(default_factory=lambda: dict.fromkeys((DOWN, UP), 0))

    def figures(self) -> dict[str, Any]:
        """The figures of a run's summary.

        >>> Totals(10).figures()["dtr"]
        {'down': None, 'up': None, 'total': None}
        """
        both = self.bytes[DOWN] + self.bytes[UP]
        messages = self.messages[DOWN] + self.messages[UP]
        return {
            "bytes": dict(self.bytes),
            "megabytes": {
                DOWN: self.bytes[DOWN] / MEGABYTE,
                UP: self.bytes[UP] / MEGABYTE,
                "total": both / MEGABYTE,
            },
            "messages": dict(self.messages),
            "dtr": _reductions(self.fedavg, self.bytes),
            "paper_dtr": _reductions(self.fedavg_bits, self.paper_bits),
            "bits_per_parameter": 8 * both / (messages * self.parameters) if messages else None,
            "parameters": self.parameters,
        }


class Ledger:
    """Counts what leaves. fedavg: how long FedAvg's two messages are (`fedavg_sizes`).

    >>> import numpy as np, fedcode
    >>> state = {"w": np.zeros(100, np.float32)}
    >>> server = fedcode.method("fedavg").server(state)
    >>> ledger = Ledger(server.layout, server.method, fedavg_sizes(state))
    >>> message = server.message_for("client-0")
    >>> ledger.sent("client-0", message)
    >>> ledger.finish_round().bytes["down"] == len(message), ledger.totals.figures()["dtr"]["down"]
    (True, 1.0)
    """

    def __init__(self, layout: Layout, method: Method, fedavg: tuple[int, int]) -> None:
        self.layout = layout
        self.method = method
        self.fedavg = dict(zip((DOWN, UP), fedavg, strict=True))
        self.totals = Totals(layout.weights)
        self._begin()

    def sent(self, name: str, data: Buffer) -> None:
        """A message to train from left for a client."""
        self._count(DOWN, name, data)

    def came(self, name: str, data: Buffer) -> None:
        """A client's reply arrived, whether or not it can be used."""
        self._count(UP, name, data)

    def evaluated(self, name: str, data: Buffer) -> None:
        """A message that is only to be evaluated left for a client."""
        self._bytes[EVALUATE] += len(data)
        self._messages[EVALUATE] += 1
        count = self._clients.setdefault(name, {DOWN: 0, UP: 0})
        count[EVALUATE] = count.get(EVALUATE, 0) + len(data)

    def finish_round(self) -> Traffic:
        """What left since the last call."""
        traffic = Traffic(self._bytes, self._messages, self._paper, self._clients)
        self._add(traffic)
        self._begin()
        return traffic

    def restore(self, history: Iterable[Mapping[str, Any]]) -> None:
        """Count again what the lines of a history say."""
        for record in history:
            self._add(Traffic.of(record))

    def _begin(self) -> None:
        self._bytes = dict.fromkeys((DOWN, UP, EVALUATE), 0)
        self._messages = dict.fromkeys((DOWN, UP, EVALUATE), 0)
        self._paper: dict[str, int | None] = dict.fromkeys((DOWN, UP), 0)
        self._clients: dict[str, dict[str, int]] = {}
        self._last: dict[str, tuple[Buffer, int | None]] = {DOWN: (b"", 0), UP: (b"", 0)}

    def _count(self, direction: str, name: str, data: Buffer) -> None:
        self._bytes[direction] += len(data)
        self._messages[direction] += 1
        self._clients.setdefault(name, {DOWN: 0, UP: 0})[direction] += len(data)
        self._paper[direction] = _plus(self._paper[direction], self._paper_bits(direction, data))

    def _paper_bits(self, direction: str, data: Buffer) -> int | None:
        if self._last[direction][0] is not data:  # one broadcast goes to many, and reading it takes a checksum
            self._last[direction] = data, self._read(data)
        return self._last[direction][1]

    def _read(self, data: Buffer) -> int | None:
        try:
            message = Message.from_bytes(data)
            if message.kind not in (MessageKind.BROADCAST, MessageKind.REPLY):
                return 0
            return self.method.paper_bits(message, self.layout)
        except MessageError:
            return 0  # what nobody can read is counted by its bytes alone

    def _add(self, traffic: Traffic) -> None:
        totals = self.totals
        for direction in (DOWN, UP, EVALUATE):
            totals.bytes[direction] += traffic.bytes[direction]
            totals.messages[direction] += traffic.messages[direction]
        for direction in (DOWN, UP):
            receivers = traffic.receivers(direction)
            totals.paper_bits[direction] = _plus(totals.paper_bits[direction], traffic.paper_bits[direction])
            totals.fedavg[direction] += receivers * self.fedavg[direction]
            totals.fedavg_bits[direction] += receivers * raw_bits(self.layout.weights)


def fedavg_sizes(state: Any) -> tuple[int, int]:
    """How long FedAvg's broadcast and its reply are for this model, as they really are.

    >>> import numpy as np
    >>> down, up = fedavg_sizes({"w": np.zeros(1000, np.float32)})
    >>> 4000 < up < down < 4200
    True
    """
    from fedcode.client import receive, reply
    from fedcode.methods import method

    server = method("fedavg").server(state)
    message = server.message_for("client-0")
    task = receive(message)
    answer, _ = reply(task, task.start, examples=1, client="client-0")
    return len(message), len(answer)


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _reductions(fedavg: Mapping[str, int], sent: Mapping[str, int | None]) -> dict[str, float | None]:
    both = fedavg[DOWN] + fedavg[UP], _plus(sent[DOWN], sent[UP])
    pairs = {DOWN: (fedavg[DOWN], sent[DOWN]), UP: (fedavg[UP], sent[UP]), "total": both}
    return {name: raw / left if left else None for name, (raw, left) in pairs.items()}
