"""FedAvg_ws: FedAvg whose weights are clustered before every message, both ways.

Source: the FedCode paper, section "Evaluation Metrics and Baselines" and its comparison table; it gives no more than
that "both client and global model updates were compressed prior to transmission". One codebook for the whole model,
as in FedCode.

down   codebook and labels of the global weights, every round
up     codebook and labels of the trained weights
then   the mean of the decoded weights

Hyperparameters: clusters K = 64 (the paper's for ResNet-20).
Faithful: the above. Adapted: labels are sent given what the other end holds unless `labels` says otherwise (the
weights that arrive are the same); statistics travel exactly, or at 8 bits with `statistics="8bit"`; the server may take
the mean change as a gradient (`server`, off). What clustering the global model alters stays in it, as replies are
clustered weights and no changes: where a round changes little this outweighs what is learnt, and more clusters help.
Kept: by the server the bases that clients may hold; by a client two bases, a byte a weight each. A client that was
away costs labels given an older base, or given nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcode.averaging import Averaging
from fedcode.base import Base
from fedcode.clustered import (
    Clustered,
    answer_clustered,
    broadcast_clustered,
    fold_clustered,
    receive_clustered,
    write_clustered,
)
from fedcode.ends import Broadcast, Incoming, Kept, Reply, Sections, Start, Sums, Turn
from fedcode.layout import Layout
from fedcode.state import State
from fedcode.wire import Message


@dataclass(frozen=True, kw_only=True)
class FedAvgWS(Clustered, Averaging):
    """K clusters; how labels are sent; what happens to statistics; the server's optimiser."""

    name: ClassVar[str] = "fedavg_ws"

    def broadcast(self, turn: Turn) -> Broadcast:
        return broadcast_clustered(self, turn.model, {})

    def sections(self, broadcast: Broadcast, held: Base | None) -> Sections:
        return write_clustered(broadcast.base, broadcast.source, held, self.labels, self.statistics)

    def fold(self, sums: Sums, reply: Reply) -> None:
        fold_clustered(sums, reply)

    def finish(self, turn: Turn, sums: Sums) -> State:
        return self.moved(turn, sums.mean())

    @staticmethod
    def receive(incoming: Incoming) -> Start:
        return receive_clustered(incoming)

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        sections, _ = answer_clustered(incoming, start, trained)
        return sections, {}

    def paper_bits(self, message: Message, layout: Layout) -> int | None:
        return self.whole_paper_bits(message, layout)
