"""A federation without training: small models, clients that move their weights at random, messages carried by hand.

For tests of methods (`fedcode.contract`) and for whoever wants to see what a method sends.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedcode.client import Task, receive, reply
from fedcode.ends import Method
from fedcode.errors import CannotUse
from fedcode.layout import Kind
from fedcode.server import Server
from fedcode.state import State, flatten

FEDERATION = b"rehearse"


def models() -> dict[str, State]:
    """Small models of all kinds, by what is particular about them.

    >>> models()["tied"].layout.entries[2].tied
    'embedding.weight'
    """
    rng = np.random.default_rng(7)

    def draw(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return (0.1 * rng.standard_normal(shape)).astype(np.float32)

    plain = {
        "conv.weight": draw(8, 3, 3, 3),
        "norm.weight": 1 + draw(8),
        "norm.bias": draw(8),
        "norm.running_mean": draw(8),
        "norm.running_var": 1 + np.abs(draw(8)),
        "norm.num_batches_tracked": np.array(5),
        "linear.weight": draw(10, 32),
        "linear.bias": draw(10),
    }
    shared = draw(12, 6)
    found = {
        "plain": plain,
        "no normalisation": {"a.weight": draw(12, 7), "a.bias": draw(7), "b.weight": draw(7, 3)},
        "tied": {"embedding.weight": shared, "hidden.weight": draw(6, 6), "head.weight": shared},
        "vectors alone": {"scale": draw(9), "shift": draw(9)},
        "a matrix of one value": {"w": draw(1, 1)},
        "a single parameter": {"w": draw()},
        "an empty tensor": {"w": draw(4, 5), "none": draw(0, 5)},
    }
    states = {name: flatten(mapping) for name, mapping in found.items()}
    states["bfloat16"] = _as_bfloat16(states["plain"])
    return states


def _as_bfloat16(state: State) -> State:
    entries = [
        entry if entry.kind == Kind.COUNTER else dataclasses.replace(entry, dtype="bfloat16")
        for entry in state.layout.entries
    ]
    short = (state.vector.view(np.uint32) >> 16 << 16).view(np.float32)  # the upper half is the same number, coarser
    return State(dataclasses.replace(state.layout, entries=tuple(entries)), short, state.counters)


def moved(task: Task, client: str, size: float = 0.02) -> State:
    """What stands in for training: every weight moved a little, by the round and the client's name alone.

    Statistics move as well, variances stay positive, counters count; a mask is obeyed, bfloat16 stays what it is.
    """
    start = task.start
    name = hashlib.blake2b(f"{task.round} {client}".encode(), digest_size=8).digest()
    rng = np.random.default_rng(int.from_bytes(name, "little"))
    vector = start.vector + (size * rng.standard_normal(start.vector.size)).astype(np.float32)
    for entry, place in start.layout.statistics:
        if entry.kind == Kind.VARIANCE:
            vector[place] = np.abs(vector[place]) + np.float32(1e-3)
    if task.mask is not None:
        vector[~task.mask] = 0
    trained = State(start.layout, vector, start.counters + 1)
    brain = any(entry.dtype == "bfloat16" for entry in start.layout.entries)
    return _as_bfloat16(trained) if brain else trained


def sample(client: str) -> int:
    """How many examples a client has."""
    return 10 + len(client) + ord(client[-1])


@dataclass
class Rehearsal:
    """A server, its clients' memories, and all messages that passed, in order.

    >>> import fedcode
    >>> rehearsal = Rehearsal.of(fedcode.method("fedcode", clusters=8))
    >>> rehearsal.rounds(3)
    >>> rehearsal.server.round, len(rehearsal.sent), len(rehearsal.came)
    (4, 9, 9)
    """

    server: Server
    memories: dict[str, bytes] = field(default_factory=dict)
    sent: list[bytes] = field(default_factory=list)
    came: list[bytes] = field(default_factory=list)

    @classmethod
    def of(cls, method: Method, model: State | None = None, **options: Any) -> Rehearsal:
        """A federation of this method, of the plain model unless another is given."""
        start = models()["plain"] if model is None else model
        return cls(method.server(start, **{"federation": FEDERATION, **options}))

    def task(self, client: str) -> Task:
        """The client's task of this round; one that cannot use its message is sent another, as any carrier must."""
        try:
            return self._received(client)
        except CannotUse as error:
            answer = error.reply
        assert not self.server.accept(client, answer), "a message that was of no use does not count"
        return self._received(client)

    def _received(self, client: str) -> Task:
        message = self.server.message_for(client)
        self.sent.append(message)
        return receive(message, self.memories.get(client))

    def answer(self, client: str, size: float = 0.02) -> bytes:
        """The client's reply of this round, which has not been accepted; its memory is the new one."""
        task = self.task(client)
        data, self.memories[client] = reply(task, moved(task, client, size), examples=sample(client), client=client)
        self.came.append(data)
        return data

    def round(self, clients: Iterable[str] = ("a", "b", "c")) -> None:
        """One whole round."""
        for client in clients:
            assert self.server.accept(client, self.answer(client)), f"the first reply of {client} counts"
        self.server.finish_round()

    def rounds(self, count: int, clients: Iterable[str] = ("a", "b", "c")) -> None:
        """Some rounds."""
        names = tuple(clients)
        for _ in range(count):
            self.round(names)

    def forget(self, client: str) -> None:
        """The client loses its memory."""
        self.memories.pop(client, None)


def same(one: State, other: State) -> bool:
    """Whether two states are the same bit for bit."""
    return bool(
        one.layout == other.layout
        and (one.vector.view(np.uint32) == other.vector.view(np.uint32)).all()
        and (one.counters == other.counters).all()
    )
