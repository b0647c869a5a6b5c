"""FedAvg: whole models as they are, averaged by how many examples each was trained on.

Source: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017,
algorithm 1.

down   every weight and statistic as float32
up     the same after local training
then   w <- sum_k (n_k / n) w_k; counters by their maximum

Hyperparameters: none but those of the server's optimiser (`server`, off), which takes the mean change as a gradient.
Faithful: the algorithm. Adapted: statistics of normalisation layers are averaged with the weights, as is usual.
Kept: by the server nothing but the model (and its optimiser's state); by a client nothing, so one that was away costs
what all others do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcode.accumulate import add
from fedcode.averaging import Averaging
from fedcode.base import Base
from fedcode.coding import encode_floats
from fedcode.ends import Broadcast, Incoming, Kept, Reply, Sections, Start, Sums, Turn, read_counters
from fedcode.layout import Layout
from fedcode.paper_count import raw_bits
from fedcode.sections import decode_values, encode_counters
from fedcode.state import State
from fedcode.wire import Message, Section


@dataclass(frozen=True, kw_only=True)
class FedAvg(Averaging):
    """The settings of FedAvg: those of the server's optimiser."""

    name: ClassVar[str] = "fedavg"
    keeps_bases: ClassVar[bool] = False
    lossless: ClassVar[frozenset[str]] = frozenset({"down", "up"})

    def broadcast(self, turn: Turn) -> Broadcast:
        return Broadcast(Base.of(turn.model))

    def fold(self, sums: Sums, reply: Reply) -> None:
        values = decode_values(reply.message.section(Section.VALUES), sums.layout.values)
        counters = read_counters(reply.message, sums.layout)
        add(sums.vector(), values, reply.examples)
        sums.count(counters)

    def finish(self, turn: Turn, sums: Sums) -> State:
        return self.moved(turn, sums.mean())

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        return {
            Section.VALUES: encode_floats(trained.vector),
            Section.COUNTERS: encode_counters(trained.counters),
        }, {}

    def paper_bits(self, message: Message, layout: Layout) -> int | None:
        return raw_bits(layout.weights)
