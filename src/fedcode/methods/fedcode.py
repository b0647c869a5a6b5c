"""FedCode: codebooks in most rounds, codebook and labels in calibration rounds, each direction by its own schedule.

Source: Khalilian et al., FedCode: Communication-Efficient Federated Learning via Transferring Codebooks, section
"Methodology", algorithms 1 and 2.

down, calibration round   codebook and labels of the global weights
down, codebook round      the codebook; the client snaps its own last clustered model to it
up, calibration round     codebook and labels of the trained weights
up, codebook round        the codebook
then, calibration round   w <- the weighted mean of the decoded weights
then, codebook round      each of the server's own unclustered weights goes to its nearest entry of the sorted
                          concatenation of all codebooks received

A fresh k-means makes each broadcast. Round i is a calibration round of a direction when i <= R_cb or i is a multiple
of 1/F of that direction.

Hyperparameters, from the paper's table for ResNet-20: clusters K = 64, downlink F1 = 0.2, uplink F2 = 0.5,
start R_cb = 2.
Faithful: the above, where the paper's text and its two algorithms leave it open read as docs/reproduction.md says.
Adapted: a client that holds no model is sent the whole one, whatever the schedule says: nothing else can work.
Statistics travel in calibration rounds, exactly unless `statistics="8bit"`, and not at all in codebook rounds: the
server's and each client's stay as they were. The server may take the mean change of a calibration round as a gradient
(`server`, off). Labels are sent given what the other end holds unless `labels` says
otherwise; in a codebook round the base that the message names serves for the reply.
`codebook_rounds="silent"` is the ablation: such rounds carry a header alone, clients train on from their memory, and
the server's model stays as it was where replies are silent.
A client that was away costs labels without context, or with an older one; at 10 of 100 clients a round nearly every
base is stale, and a codebook still means what it says: the model that the client snaps is the one it had.
Kept: by the server the bases that clients may hold, a byte a weight each; by a client its own last clustered model and
two bases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedcode.averaging import Averaging
from fedcode.base import Base
from fedcode.clustered import (
    Clustered,
    answer_clustered,
    broadcast_clustered,
    check_codebook,
    clustered,
    clusters_asked,
    fold_clustered,
    read_clustered,
    write_clustered,
)
from fedcode.clustering import nearest
from fedcode.ends import Broadcast, Incoming, Kept, Reply, Sections, Start, Sums, Turn, check
from fedcode.errors import MessageError, RefusedError
from fedcode.layout import Layout
from fedcode.paper_count import codebook_bits
from fedcode.schedule import full, period
from fedcode.sections import decode_centers, encode_centers
from fedcode.state import State
from fedcode.wire import Message, Section

CODEBOOK_ROUNDS = ("sent", "silent")


@dataclass(frozen=True, kw_only=True)
class FedCode(Clustered, Averaging):
    """K, F1, F2, R_cb; whether codebook rounds speak; how labels and statistics are sent; the server's optimiser."""

    name: ClassVar[str] = "fedcode"

    downlink: float = 0.2
    uplink: float = 0.5
    start: int = 2
    codebook_rounds: str = field(default="sent", metadata={"choices": CODEBOOK_ROUNDS})

    def __post_init__(self) -> None:
        super().__post_init__()
        for frequency in (self.downlink, self.uplink):
            period(frequency)
        check(self.start >= 0, f"start must be a number of rounds, 0 or more: got {self.start}")
        check(
            self.codebook_rounds in CODEBOOK_ROUNDS,
            f"codebook_rounds must be one of {', '.join(CODEBOOK_ROUNDS)}: got {self.codebook_rounds!r}",
        )

    @property
    def silent(self) -> bool:
        return self.codebook_rounds == "silent"

    # ---- server

    def broadcast(self, turn: Turn) -> Broadcast:
        asks: dict[str, float] = {"full": int(full(turn.number, self.uplink, self.start))}
        if self.silent:
            asks["silent"] = 1
        return broadcast_clustered(self, turn.model, asks, given=full(turn.number, self.downlink, self.start))

    def sections(self, broadcast: Broadcast, held: Base | None) -> Sections:
        if held is None or broadcast.given:
            return write_clustered(broadcast.base, broadcast.source, held, self.labels, self.statistics)
        return {} if self.silent else {Section.CENTERS: encode_centers(broadcast.base.centers)}

    def fold(self, sums: Sums, reply: Reply) -> None:
        asked, sent = reply.broadcast.asks["full"], reply.message.sections
        if asked != (Section.LABELS in sent):
            what = "a codebook and labels" if asked else "a codebook alone"
            raise RefusedError(f"{what} was asked of {reply.client}, and something else came.")
        if asked:
            fold_clustered(sums, reply)
        elif not self.silent:
            centers = decode_centers(reply.message.section(Section.CENTERS))
            check_codebook(reply, centers)
            sums.codebooks.append(centers)

    def finish(self, turn: Turn, sums: Sums) -> State:
        if sums.vectors:
            return self.moved(turn, sums.mean())
        if not sums.codebooks:  # silent replies: nothing was said
            return turn.model
        centers = np.sort(np.concatenate(sums.codebooks))
        vector = turn.model.vector.copy()
        weights = turn.model.layout.weights
        vector[:weights] = centers[nearest(vector[:weights], centers)]
        return State(turn.model.layout, vector, turn.model.counters)

    # ---- client

    @staticmethod
    def receive(incoming: Incoming) -> Start:
        if Section.LABELS in incoming.message.sections or incoming.held is None:
            base = read_clustered(incoming.message, incoming.layout, incoming.held)
            return Start(base.state, base)
        own = _own(incoming)
        if Section.CENTERS not in incoming.message.sections:  # silent
            return Start(own.state, None)
        centers = decode_centers(incoming.message.section(Section.CENTERS))
        snapped = centers[own.predict(centers, incoming.layout.weights)]
        vector = np.concatenate([snapped, own.state.statistics])
        return Start(State(own.layout, vector, own.counters), None)

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        if incoming.asked("full", 0, 1):
            sections, own = answer_clustered(incoming, start, trained)
        else:
            own = clustered(trained, clusters_asked(incoming))
            sections = {} if incoming.asks.get("silent") else {Section.CENTERS: encode_centers(own.centers)}
        return sections, _kept(own)

    # ---- both

    def paper_bits(self, message: Message, layout: Layout) -> int | None:
        if Section.CENTERS in message.sections and Section.LABELS not in message.sections:
            return codebook_bits(self.clusters)
        return self.whole_paper_bits(message, layout)


def _kept(own: Base) -> Kept:
    return {"own": np.frombuffer(own.to_bytes(), np.uint8)}


def _own(incoming: Incoming) -> Base:
    """The client's own last clustered model; the base that it holds where it has trained none yet."""
    assert incoming.held is not None
    if "own" not in incoming.kept:
        return incoming.held
    try:
        return Base.from_bytes(incoming.kept["own"].tobytes(), incoming.layout)
    except MessageError:
        return incoming.held
