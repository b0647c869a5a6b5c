"""STC: sparse ternary changes both ways, each end keeping what it did not send.

Source: Sattler et al., Robust and Communication-Efficient Federated Learning from Non-IID Data, IEEE TNNLS 2019 (arXiv
1903.02891), algorithms 1 and 2.

up     of each tensor of the change plus what is left over: the share p of greatest magnitude, as a sign times the mean
       magnitude of these; the rest is left over
then   change <- what the server has left over + sum_k (n_k / n) change_k, made ternary in the same way; w <- w + it
down   this ternary change

Hyperparameters: p = 1/400 (`keep`), both ways, as published, there for one local step and very many rounds. A round
here is E epochs and there are few: that is off its regime, so judge it by a larger share, too.
Faithful: the above, k = max(p n, 1) for a tensor of n values, biases and normalisation weights as tensors like others.
Adapted: replies are weighted by examples, as everywhere here. Positions are coded by their entropy in place of Golomb's
code, whose count by the paper's formula is reported beside. Statistics and counters travel too, at 8 bits or exactly
(`statistics`). The server may take the mean change as a gradient (`server`, off).
A client that was away is told of the rounds that it missed, one ternary change each, as the paper's cache does; one
that was away so long that they weigh more than the model is sent the model. What it has left over stays its own.
A reply that did not count leaves no trace: what was left over before is again what is left over.
Kept: by the server its own rest, past rounds' changes, together no more than one model, and the bases that clients
may hold, four bytes a weight each; by a client two bases and what is left over twice, before and after its last
reply: sixteen bytes a weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcode.arrays import expect
from fedcode.averaging import Averaging
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
from fedcode.coding import decode_labels, encode_floats, encode_labels
from fedcode.ends import Broadcast, Incoming, Kept, Reply, Sections, Start, Sums, Turn, check
from fedcode.errors import MessageError
from fedcode.joined import join, split
from fedcode.layout import Layout
from fedcode.paper_count import raw_bits
from fedcode.reader import Buffer
from fedcode.residual import kept_residual, settled
from fedcode.sections import decode_values
from fedcode.state import State, Vector
from fedcode.topk import read_positions, share_of, top, write_positions
from fedcode.wire import Message, Section

_REST = "rest"
_GREATEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, kw_only=True)
class STC(Changing, Averaging):
    """The share of each tensor that is sent, how statistics are sent, and the server's optimiser."""

    name: ClassVar[str] = "stc"

    keep: float = 1 / 400

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 < self.keep <= 1, f"keep must be a share of the weights, above 0 and up to 1: got {self.keep}")

    # ---- server

    def restored(self, kept: Kept, layout: Layout) -> Kept:
        expect(kept, _REST, np.float32, layout.weights, missing=True)
        return super().restored(kept, layout)

    def broadcast(self, turn: Turn) -> Broadcast:
        return broadcast_changes(self, turn, {"keep": self.keep})

    def sections(self, broadcast: Broadcast, held: Base | None) -> Sections:
        return write_changes(broadcast, held)

    def fold(self, sums: Sums, reply: Reply) -> None:
        fold_change(sums, reply, _read, sum(share_of(self.keep, entry.size) for entry, _ in sums.layout.tensors))

    def finish(self, turn: Turn, sums: Sums) -> State:
        mean, layout = sums.mean(), sums.layout
        step = self.server_lr * self._step(turn.kept, mean[: layout.weights]) + turn.kept.get(_REST, np.float64(0))
        change = step.clip(-_GREATEST, _GREATEST).astype(np.float32)
        data = _write(change, layout, self.keep)
        positions, values = _read(data, layout)
        remember_change(turn, data)
        change[positions] -= values
        turn.kept[_REST] = change
        vector = turn.model.vector.copy()
        move(vector, positions, values)
        vector[layout.weights :] = mean[layout.weights :]
        return State(layout, vector, turn.model.counters)

    # ---- client

    @staticmethod
    def receive(incoming: Incoming) -> Start:
        return receive_changes(incoming, _read)

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        layout = incoming.layout
        change = changed(start.state, trained, settled(incoming, layout.weights))
        data = _write(change, layout, incoming.asked("keep", 0, 1))
        positions, values = _read(data, layout)
        change[positions] -= values
        exact = not incoming.asked("statistics", 0, 1, 0)
        sections: Sections = {Section.CHANGES: join([data])}
        return sections | write_rest(trained, start.base, exact), kept_residual(incoming, change)

    # ---- both

    def paper_bits(self, message: Message, layout: Layout) -> int | None:
        """A position by Golomb's code and a sign for each value that is kept, a round that is told of."""
        if Section.CHANGES not in message.sections:
            return raw_bits(layout.weights) if message.sections else 0
        kept = sum(_read(change, layout)[0].size for change in split(message.section(Section.CHANGES)))
        return round(kept * (golomb_bits(self.keep) + 1))


def _write(change: Vector, layout: Layout, keep: float) -> bytes:
    """The ternary change: where it is not zero, the signs there, and a magnitude for each tensor."""
    found, scales = [], np.zeros(len(layout.tensors), np.float32)
    for index, (_, place) in enumerate(layout.tensors):
        largest = top(change[place], share_of(keep, place.stop - place.start)) + place.start
        if largest.size:
            scales[index] = np.abs(change[largest]).mean(dtype=np.float64)
            found.append(largest)
    positions = np.concatenate([np.empty(0, np.int64), *found])
    signs = (change[positions] > 0).astype(np.uint8)
    return join([write_positions(positions, layout.weights), encode_labels(signs, 2), encode_floats(scales)])


def _read(change: Buffer, layout: Layout) -> Moves:
    parts = split(change)
    if len(parts) != 3:
        raise MessageError(f"a ternary change is positions, signs and magnitudes, got {len(parts)} parts.")
    positions = read_positions(parts[0], layout.weights)
    signs = decode_labels(parts[1], positions.size, 2)
    scales = decode_values(parts[2], len(layout.tensors))
    ends = [place.stop for _, place in layout.tensors]
    magnitudes = scales[np.searchsorted(ends, positions, side="right")]
    return positions, np.where(signs == 1, magnitudes, -magnitudes)


def golomb_bits(share: float) -> float:
    """The paper's bits a position, b* + 1 / (1 - (1 - p)^(2^b*)), where a share p of all values is kept.

    >>> round(golomb_bits(1 / 400), 2)
    10.11
    """
    if share == 1:
        return 1.0
    golden = (math.sqrt(5) + 1) / 2
    length = max(0, 1 + math.floor(math.log2(math.log(golden - 1) / math.log(1 - share))))
    return length + 1 / (1 - float((1 - share) ** (2**length)))
