"""Changes of few weights, one a round: whoever was away is told of the rounds that it missed, and of no more.

The server keeps the change of every round as the bytes that it was sent in, with the digest of the base that it
leads on from. From the base that a client holds these lead to the newest one, and both ends add them up in the same
way, so that they hold the same model bit for bit. Once they weigh more than the model itself the oldest are
forgotten; a client that would need these is sent the whole model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fedcode.accumulate import add
from fedcode.arrays import expect
from fedcode.averaging import LARGEST
from fedcode.base import Base
from fedcode.base_message import read_base, write_base
from fedcode.clustered import STATISTICS
from fedcode.coding import encode_floats
from fedcode.eightbit import decode_tensors, encode_tensors
from fedcode.ends import Broadcast, Incoming, Kept, Method, Reply, Sections, Start, Sums, Turn, check, read_counters
from fedcode.errors import MessageError
from fedcode.joined import join, split
from fedcode.layout import Layout
from fedcode.reader import Buffer
from fedcode.sections import decode_counters, decode_values, encode_counters
from fedcode.sparse import Positions
from fedcode.state import State, Vector
from fedcode.wire import NOTHING, Message, Section

# The weights that a change moves, and by how much.
Moves = tuple[Positions, Vector]

_GREATEST = np.finfo(np.float32).max
_PAST, _FROM = "past.", "base"


@dataclass(frozen=True, kw_only=True)
class Changing(Method):
    """The setting of methods that send changes of few weights.

    statistics: "8bit" (a scale a tensor, variances by their logarithm), or "exact", which weighs several times what
    such changes do.
    """

    statistics: str = field(default="8bit", metadata={"choices": STATISTICS})

    def __post_init__(self) -> None:
        super().__post_init__()
        check(
            self.statistics in STATISTICS, f"statistics must be one of {', '.join(STATISTICS)}: got {self.statistics!r}"
        )

    @property
    def acknowledges(self) -> bool:
        return True

    def restored(self, kept: Kept, layout: Layout) -> Kept:
        for name, found in kept.items():
            if name.startswith(_PAST):
                expect(kept, name, np.uint8, max(found.size, len(NOTHING)))
        return super().restored(kept, layout)


@dataclass(frozen=True)
class Told(Broadcast):
    """A broadcast with the changes of past rounds, as the server keeps them."""

    past: Kept = field(default_factory=dict)


# ---- down


def broadcast_changes(method: Changing, turn: Turn, asks: dict[str, float]) -> Told:
    """The model for everybody: weights as they are, statistics as they are sent."""
    model, exact = turn.model, method.statistics == "exact"
    if not exact:
        asks = asks | {"statistics": STATISTICS.index(method.statistics)}
    rest = model.statistics if exact else _coarse(model)
    base = Base.of(State(model.layout, np.concatenate([model.weights, rest]), model.counters))
    return Told(base, asks=asks, source=model, past=turn.kept)


def write_changes(broadcast: Broadcast, held: Base | None) -> Sections:
    """What has changed since the base that the receiver holds; the whole model where that is not known any more."""
    assert isinstance(broadcast, Told)
    rounds = None if held is None else _since(broadcast.past, held.digest)
    if rounds is None or broadcast.source is None:
        return write_base(broadcast.base, None)
    exact = "statistics" not in broadcast.asks
    return {Section.CHANGES: join(rounds)} | write_rest(broadcast.source, held, exact)


def receive_changes(incoming: Incoming, read: Callable[[Buffer, Layout], Moves]) -> Start:
    """The model that the receiver holds, moved by the changes of all rounds since."""
    message, layout, held = incoming.message, incoming.layout, incoming.held
    if Section.CHANGES not in message.sections or held is None:
        base = read_base(message, layout, None)
        return Start(base.state, base)
    vector = held.state.vector.copy()
    for change in split(message.section(Section.CHANGES)):
        move(vector, *read(change, layout))
    vector[layout.weights :] = read_rest(message, layout, held)
    counters = decode_counters(message.section(Section.COUNTERS), layout.counters)
    base = Base.of(State(layout, vector, counters))
    return Start(base.state, base)


def move(vector: Vector, positions: Positions, by: Vector) -> None:
    """Move some weights, in place and on both ends alike: each sum in float64, rounded once.

    >>> vector = np.zeros(3, np.float32)
    >>> move(vector, np.array([1]), np.ones(1, np.float32))
    >>> vector
    array([0., 1., 0.], dtype=float32)
    """
    vector[positions] = (vector[positions] + by.astype(np.float64)).clip(-LARGEST, LARGEST)


# ---- up


def changed(start: State, trained: State, over: Vector | None) -> Vector:
    """What training has changed, and what earlier rounds left over; nothing beyond what a float32 can be.

    >>> from fedcode.state import flatten
    >>> start, trained = (flatten({"w": np.full(2, value, np.float32)}) for value in (1, 4))
    >>> changed(start, trained, np.array([-1, 1], np.float32))
    array([2., 4.], dtype=float32)
    """
    with np.errstate(over="ignore"):
        change = trained.weights - start.weights
        if over is not None:
            change += over
    return change.clip(-_GREATEST, _GREATEST, out=change)


def fold_change(sums: Sums, reply: Reply, read: Callable[[Buffer, Layout], Moves], most: int) -> None:
    """Add the one change that a reply holds, of at most so many weights."""
    base, layout, message = reply.fresh_base(), sums.layout, reply.message
    changes = split(message.section(Section.CHANGES))
    if len(changes) != 1:
        raise MessageError(f"a reply holds one change, got {len(changes)}.")
    positions, values = read(changes[0], layout)
    if positions.size > most:
        raise MessageError(f"{most} weights were asked for, {reply.client} sent {positions.size}.")
    statistics = read_rest(message, layout, base)
    counters = read_counters(message, layout)
    total = sums.vector()
    total[positions] += reply.examples * values.astype(np.float64)
    add(total[layout.weights :], statistics, reply.examples)
    sums.count(counters)
    reply.turn.kept[_FROM] = np.frombuffer(base.digest, np.uint8)


def remember_change(turn: Turn, change: bytes) -> None:
    """Keep what led from this round's model to the next, and forget what weighs more than the model itself."""
    kept = turn.kept
    kept[f"{_PAST}{turn.number}"] = np.concatenate([kept.pop(_FROM), np.frombuffer(change, np.uint8)])
    rounds = [name for name in kept if name.startswith(_PAST)]
    total = sum(kept[name].size for name in rounds)
    for name in rounds:
        if total <= turn.model.vector.nbytes:
            break
        total -= kept.pop(name).size


def _since(kept: Kept, digest: bytes) -> list[bytes] | None:
    """The changes that lead from this base to the newest, oldest first; None where some are forgotten."""
    rounds: list[bytes] = []
    for name in reversed(kept):
        if name.startswith(_PAST):
            data = kept[name].tobytes()
            rounds.append(data[len(digest) :])
            if data.startswith(digest):
                return rounds[::-1]
    return None


# ---- statistics and counters, both ways


def write_rest(source: State, held: Base | None, exact: bool) -> Sections:
    """Statistics and counters, coded given the base that the other end holds."""
    sections: Sections = {Section.COUNTERS: encode_counters(source.counters)}
    if exact:
        sections[Section.VALUES] = encode_floats(source.statistics)
    else:
        known = None if held is None else held.values_from(source.layout.weights)
        sections[Section.STATISTICS] = encode_tensors(source.statistics, source.layout.statistics, held=known)
    return sections


def read_rest(message: Message, layout: Layout, held: Base) -> Vector:
    """The statistics that `write_rest` wrote."""
    if Section.STATISTICS not in message.sections:
        return decode_values(message.section(Section.VALUES), layout.values - layout.weights)
    known = held.values_from(layout.weights)
    return decode_tensors(message.section(Section.STATISTICS), layout.statistics, held=known)


def _coarse(model: State) -> Vector:
    return decode_tensors(encode_tensors(model.statistics, model.layout.statistics), model.layout.statistics)
