"""FedSparsify: a model that grows sparser round by round, and sparse weights on the wire both ways.

Source: Stripelis et al., Federated Progressive Sparsification (Purge, Merge, Tune)+, 2022 (arXiv 2204.12430), the
schedule and its two algorithms.

down   the weights that the mask keeps, where they stand, and the statistics
up     global: the same weights after local training, which obeys the mask. local: those of them that the client's own
       pruning keeps
then   w <- sum_k (n_k / n) w_k; global: all but the largest are pruned. local: a weight stays where at least half of
       the clients kept it

    s_t = s_f + (s_i - s_f) (1 - (t - t0) / (T - t0))^3

is the share of the trained weights that is pruned after round t, by one magnitude for the whole model; between
pruning rounds, the multiples of `every`, it is held. What is pruned stays pruned.

Hyperparameters: mode, global or local, both the paper's. From the authors' code: initial s_i = 0, final s_f = 0.95,
start t0 = 1, every 1 round, until T = 200, their number of rounds: set it to that of a run. The exponent is 3.
Faithful: the above; a client that has pruned a weight adds zero to its mean.
Adapted: where half of an odd number of clients is no whole number, it is rounded up (the authors' code rounds down,
which keeps everything where one client takes part); a reply names positions among those of the mask only, and none
where nothing new was pruned. The server may take the mean change as a gradient (`server`, off).
Kept: by the server the model and its mask, a byte a weight; by a client nothing, so one that was away costs what all
others do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedcode.accumulate import add
from fedcode.arrays import expect
from fedcode.averaging import Averaging
from fedcode.base import Base
from fedcode.coding import encode_floats
from fedcode.ends import Broadcast, Incoming, Kept, Reply, Sections, Start, Sums, Turn, check, read_counters
from fedcode.layout import Layout
from fedcode.sections import decode_counters, decode_values, encode_counters
from fedcode.sparse import Positions
from fedcode.state import State
from fedcode.topk import read_positions, top, write_positions
from fedcode.wire import Message, Section

MODES = ("global", "local")


@dataclass(frozen=True)
class Masked(Broadcast):
    """A broadcast of the weights that a mask keeps. positions: where they stand; None for all."""

    positions: Positions | None = None


@dataclass(frozen=True, kw_only=True)
class FedSparsify(Averaging):
    """Who prunes; s_i, s_f, t0, T; every how many rounds; the server's optimiser."""

    name: ClassVar[str] = "fedsparsify"
    keeps_bases: ClassVar[bool] = False
    lossless: ClassVar[frozenset[str]] = frozenset({"down"})
    asks_of_training: ClassVar[frozenset[str]] = frozenset({"mask"})

    mode: str = field(default="global", metadata={"choices": MODES})
    initial: float = 0.0
    final: float = 0.95
    start: int = 1
    until: int = 200
    every: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.mode in MODES, f"mode must be one of {', '.join(MODES)}: got {self.mode!r}")
        for name, share in (("initial", self.initial), ("final", self.final)):
            check(0 <= share < 1, f"{name} must be a share of the weights from 0 to below 1: got {share}")
        check(self.initial <= self.final, f"initial must not be above final, {self.final}: got {self.initial}")
        check(
            1 <= self.start < self.until,
            f"start must be a round from 1 to before until, {self.until}: got {self.start}",
        )
        check(self.every >= 1, f"every must be a number of rounds, 1 or more: got {self.every}")

    def sparsity(self, round: int) -> float:
        """s_t: the share of the weights that is pruned after this round.

        >>> [round(FedSparsify(until=11).sparsity(t), 3) for t in (1, 2, 6, 11, 12)]
        [0.0, 0.257, 0.831, 0.95, 0.95]
        """
        if round < self.start:
            return 0.0
        held = round // self.every * self.every  # since the last pruning round
        way = min(max(held - self.start, 0) / (self.until - self.start), 1.0)
        return self.final + (self.initial - self.final) * float((1 - way) ** 3)

    def _keeps(self, round: int, weights: int) -> int:
        return weights - int(self.sparsity(round) * weights)

    # ---- server

    def open(self, model: State) -> Kept:
        return {"mask": np.ones(model.layout.weights, np.bool_)}

    def restored(self, kept: Kept, layout: Layout) -> Kept:
        expect(kept, "mask", np.bool_, layout.weights)
        return super().restored(kept, layout)

    def broadcast(self, turn: Turn) -> Broadcast:
        mask, weights = turn.kept["mask"], turn.model.layout.weights
        asks = {"keep": float(self._keeps(turn.number, weights))} if self.mode == "local" else {}
        return Masked(Base.of(turn.model), asks=asks, positions=None if mask.all() else np.flatnonzero(mask))

    def sections(self, broadcast: Broadcast, held: Base | None) -> Sections:
        assert isinstance(broadcast, Masked)
        return _write(broadcast.base.state, broadcast.positions, within=None)

    def fold(self, sums: Sums, reply: Reply) -> None:
        assert isinstance(reply.broadcast, Masked)
        layout, message, positions = sums.layout, reply.message, reply.broadcast.positions
        held = layout.weights if positions is None else positions.size
        found = None
        if Section.POSITIONS in message.sections and self.mode == "local":
            found = read_positions(message.section(Section.POSITIONS), held)
        count = held if found is None else found.size
        values = decode_values(message.section(Section.VALUES), count + layout.values - layout.weights)
        counters = read_counters(message, layout)
        place = _among(found, positions)
        total = sums.vector()
        if place is None:
            add(total, values, reply.examples)
        else:
            total[place] += reply.examples * values[:count].astype(np.float64)
            add(total[layout.weights :], values[count:], reply.examples)
        if self.mode == "local":
            sums.vector("votes", layout.weights)[slice(None) if place is None else place] += 1
        sums.count(counters)

    def finish(self, turn: Turn, sums: Sums) -> State:
        model, mask, weights = self.moved(turn, sums.mean()), turn.kept["mask"], sums.layout.weights
        if self.mode == "local":
            mask = mask & (2 * sums.vector("votes", weights) >= sums.replies)
        elif self.sparsity(turn.number):
            largest = np.zeros(weights, np.bool_)
            largest[top(np.where(mask, model.weights, 0), self._keeps(turn.number, weights))] = True
            mask = largest
        turn.kept["mask"] = mask
        model.vector[:weights][~mask] = 0  # where an optimiser's momentum may have moved it, too
        return model

    # ---- client

    @staticmethod
    def receive(incoming: Incoming) -> Start:
        message, layout = incoming.message, incoming.layout
        rest, mask = layout.values - layout.weights, None
        if Section.POSITIONS not in message.sections:
            vector = decode_values(message.section(Section.VALUES), layout.values)
        else:
            positions = read_positions(message.section(Section.POSITIONS), layout.weights)
            values = decode_values(message.section(Section.VALUES), positions.size + rest)
            vector = np.zeros(layout.values, np.float32)
            vector[positions] = values[: positions.size]
            vector[layout.weights :] = values[positions.size :]
            mask = np.zeros(layout.values, np.bool_)
            mask[positions] = mask[layout.weights :] = True
        state = State(layout, vector, decode_counters(message.section(Section.COUNTERS), layout.counters))
        return Start(state, Base.of(state), mask)

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        weights = incoming.layout.weights
        mask = None if start.mask is None else np.flatnonzero(start.mask[:weights])
        held = weights if mask is None else mask.size
        keep = int(incoming.asked("keep", 0, weights, weights))
        kept = None
        if keep < held:
            kept = top(trained.weights if mask is None else trained.weights[mask], keep)
        return _write(trained, kept, within=mask), {}

    # ---- both

    def paper_bits(self, message: Message, layout: Layout) -> int | None:
        """32 bits a weight that is sent: the authors count parameters exchanged."""
        if Section.VALUES not in message.sections:
            return 0
        sent = len(message.section(Section.VALUES)) // 4
        return 32 * max(sent - (layout.values - layout.weights), 0)


def _among(found: Positions | None, within: Positions | None) -> Positions | None:
    """Positions among those of a mask as positions of the model; None stands for all."""
    if within is None or found is None:
        return within if found is None else found
    place: Positions = within[found]
    return place


def _write(state: State, found: Positions | None, within: Positions | None) -> Sections:
    """The weights at the positions found among those of a mask, with statistics and counters."""
    place = _among(found, within)
    row = state.weights if place is None else state.weights[place]
    sections: Sections = {
        Section.VALUES: encode_floats(np.concatenate([row, state.statistics])),
        Section.COUNTERS: encode_counters(state.counters),
    }
    if found is not None:
        sections[Section.POSITIONS] = write_positions(found, state.layout.weights if within is None else within.size)
    return sections
