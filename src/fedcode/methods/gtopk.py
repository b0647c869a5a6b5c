"""gTop-k: of what all clients hold to be their largest changes, the largest of the sum, both ways.

Source: Shi et al., A Distributed Synchronous SGD Algorithm with Global Top-k Sparsification for Low Bandwidth
Networks, ICDCS 2019 (arXiv 1901.04359), algorithm 4; its authors' code for what the text leaves open.

up     the k largest of the change since the round's model plus what earlier rounds left over
then   w <- w + the k largest of sum_k (n_k / n) change_k, over the whole model and not layer by layer
down   these k; a client learns from them which of its own made it. Those that did not go back to what it has left over

Hyperparameters: density k / P = 0.001 after four rounds of warm-up at 0.25, 0.0725, 0.015 and 0.004, as published,
there with an epoch each; `warmup` is how many rounds each lasts, 0 for none.
Faithful: the above. Adapted: the change of a round of local training in place of one gradient, weighted by examples
in place of equally; the server sees all replies, so it takes the k largest of their exact sum, where the paper's tree
of pairs approximates it. Statistics and counters travel too, at 8 bits or exactly (`statistics`).
A client that was away is told of the rounds that it missed, k values each, and so learns what became of its last
reply; one that was away so long that this weighs more than the model is sent the model and starts clean.
A reply that did not count leaves no trace: what was left over before is again what is left over.
Kept: by the server past rounds' changes, together no more than one model, and the bases that clients may hold, four
bytes a weight each; by a client two bases and what is left over twice, before and after its last reply: sixteen bytes a
weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcode.base import Base
from fedcode.changes import (
    Changing,
    Moves,
    broadcast_changes,
    changed,
    fold_change,
    move,
    receive_changes,
    remember_change,
    write_changes,
    write_rest,
)
from fedcode.coding import encode_floats
from fedcode.ends import Broadcast, Incoming, Kept, Reply, Sections, Start, Sums, Turn, check
from fedcode.errors import MessageError
from fedcode.joined import join, split
from fedcode.layout import Layout
from fedcode.paper_count import raw_bits
from fedcode.reader import Buffer
from fedcode.residual import PENDING, RESIDUAL, ROUND, acknowledged, settled
from fedcode.sections import decode_values
from fedcode.sparse import Positions
from fedcode.state import State, Vector
from fedcode.topk import read_positions, share_of, top, write_positions
from fedcode.wire import Message, Section

WARM_UP = (0.25, 0.0725, 0.015, 0.004)
_SENT = "sent"


@dataclass(frozen=True, kw_only=True)
class GTopK(Changing):
    """The share of all weights that is sent, and how many rounds each density of the warm-up lasts."""

    name: ClassVar[str] = "gtopk"

    density: float = 0.001
    warmup: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 < self.density <= 1, f"density must be a share of the weights, above 0 and up to 1: got {self.density}")
        check(self.warmup >= 0, f"warmup must be a number of rounds, 0 or more: got {self.warmup}")

    def density_of(self, round: int) -> float:
        """The density of a round.

        >>> [GTopK().density_of(round) for round in (1, 2, 3, 4, 5)]
        [0.25, 0.0725, 0.015, 0.004, 0.001]
        """
        step = (round - 1) // self.warmup if self.warmup else len(WARM_UP)
        return max(self.density, WARM_UP[step]) if step < len(WARM_UP) else self.density

    # ---- server

    def broadcast(self, turn: Turn) -> Broadcast:
        return broadcast_changes(self, turn, {"density": self.density_of(turn.number)})

    def sections(self, broadcast: Broadcast, held: Base | None) -> Sections:
        return write_changes(broadcast, held)

    def fold(self, sums: Sums, reply: Reply) -> None:
        fold_change(sums, reply, _read, share_of(reply.broadcast.asks["density"], sums.layout.weights))

    def finish(self, turn: Turn, sums: Sums) -> State:
        mean, weights = sums.mean().astype(np.float32), sums.layout.weights
        positions = top(mean[:weights], share_of(self.density_of(turn.number), weights))
        remember_change(turn, _write(positions, mean[positions], turn.model.layout))
        vector = turn.model.vector.copy()
        move(vector, positions, mean[positions])
        vector[weights:] = mean[weights:]
        return State(turn.model.layout, vector, turn.model.counters)

    # ---- client

    @staticmethod
    def receive(incoming: Incoming) -> Start:
        return receive_changes(incoming, _read)

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        over = _left_over(incoming)
        change = changed(start.state, trained, over)
        positions = top(change, share_of(incoming.asked("density", 0, 1), change.size))
        exact = not incoming.asked("statistics", 0, 1, 0)
        sections: Sections = {Section.CHANGES: join([_write(positions, change[positions], incoming.layout)])}
        kept: Kept = {PENDING: change, ROUND: np.array([incoming.message.round]), _SENT: positions}
        if over is not None:
            kept[RESIDUAL] = over
        return sections | write_rest(trained, start.base, exact), kept

    # ---- both

    def paper_bits(self, message: Message, layout: Layout) -> int | None:
        """2 k numbers of 32 bits, values and indices, a round that is told of."""
        if Section.CHANGES not in message.sections:
            return raw_bits(layout.weights) if message.sections else 0
        return sum(64 * _read(change, layout)[0].size for change in split(message.section(Section.CHANGES)))


def _left_over(incoming: Incoming) -> Vector | None:
    """What this client's replies have not brought into the model so far; None where it starts clean."""
    over = settled(incoming, incoming.layout.weights)
    if over is None or not acknowledged(incoming):
        return over
    sections = incoming.message.sections
    if not sections:  # nothing has moved
        return over
    if Section.CHANGES not in sections:
        return None
    sent = incoming.kept.get(_SENT)
    if sent is None or sent.dtype != np.int64:
        return None  # no memory of ours
    first = split(sections[Section.CHANGES])[0]
    made_it, _ = _read(first, incoming.layout)
    over = over.copy()
    over[made_it[np.isin(made_it, sent)]] = 0
    return over


def _write(positions: Positions, values: Vector, layout: Layout) -> bytes:
    return join([write_positions(positions, layout.weights), encode_floats(values)])


def _read(change: Buffer, layout: Layout) -> Moves:
    parts = split(change)
    if len(parts) != 2:
        raise MessageError(f"a change is positions and values, got {len(parts)} parts.")
    positions = read_positions(parts[0], layout.weights)
    return positions, decode_values(parts[1], positions.size)
