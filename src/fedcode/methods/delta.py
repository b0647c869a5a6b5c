"""delta: clustered weights down, coded given what the receiver already holds; the clustered change up.

Source: our own measurements (docs/reproduction.md); no paper. Down it is FedAvg_ws whose labels cost what is new in
them; up it is quantisation of the update with a codebook fitted to it.

down   codebook and labels of the matrices of the global model, given the base that this receiver holds; vectors
       (biases, normalisation weights) and statistics at 8 bits. Everybody decodes the same base b. The codebook is a
       ladder (`fedcode.ladder`): even steps that stay the same from round to round, and a weight keeps its label until
       it has clearly left it, so that where little has moved little is sent
up     the change of the matrices since b: one codebook for `bits` a weight over all tensors, each scaled by its own
       rms; the change of the vectors and the statistics themselves at 8 bits
then   w <- w + sum_k (n_k / n) change_k: the mean change goes to the server's own unclustered model, not to b, which
       was worth one to two points at half a bit; statistics are averaged, counters merged by their maximum

Hyperparameters, all measured here: clusters 64, the steps of the ladder over sixteen times the weights' rms (as many
again where weights reach farther); bits 1.0 up; warm_bits 2.0 in the first round, whose changes are the largest. The
richer bits 2.0 and warm_bits 4.0 are no default: on the digits they cost half as much again, which is more than FedCode
costs, and three seeds showed no gain in accuracy (experiment "frontier").
vector_bits 8; debias on: a coded change is scaled by 1 / (1 - D), D the share of its energy that coding loses, so that
the mean change is as long as it should be; it needs no memory. residual 0 (off): the share of what was not sent that
is added to the next change, 0.9 at half a bit a weight and less with clients that take part in every round, where
keeping all of it was worse; it takes the place of debias. labels: "context", "entropy" or "packed", with the same
weights arriving.
Kept: by the server the bases that clients may hold, a byte a weight each and bounded by ring_bytes, nothing per
client but a digest; by a client two bases and, with a residual, two float32 a weight.
A client that was away costs labels given an older base (some half a bit a weight for one that was there last round,
4 for one whose base has left the ring or that is new); its own change costs what it always does. A residual
that was not sent for long is a change of an older model: with rare participation leave it off.
A residual counts only when a later message acknowledges the reply that it is what is left of; until then the client
goes on with the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedcode.accumulate import add
from fedcode.averaging import Averaging
from fedcode.base import Base, Labels
from fedcode.base_message import LABELS, check_labels_option, read_base, read_labels, write_base, write_labels
from fedcode.change import Change, code_change
from fedcode.clustering import MAX_CENTERS
from fedcode.eightbit import Tensors, decode_tensors, encode_tensors
from fedcode.ends import Broadcast, Incoming, Kept, Reply, Sections, Start, Sums, Turn, check, read_counters
from fedcode.ladder import Ladder
from fedcode.layout import Layout
from fedcode.residual import kept_residual, settled
from fedcode.sections import decode_counters, encode_counters
from fedcode.state import State, Vector
from fedcode.wire import Section

LEAST_BITS, MOST_BITS = 0.05, 6.0
EIGHT = 8  # bits of a small tensor's value unless the message says otherwise


@dataclass(frozen=True, kw_only=True)
class Delta(Averaging):
    """Steps of the ladder; bits a weight up, and in the first round; bits of a small value; residual or debias."""

    name: ClassVar[str] = "delta"

    clusters: int = 64
    bits: float = 1.0
    warm_bits: float = 2.0
    vector_bits: int = EIGHT
    residual: float = 0.0
    debias: bool = True
    labels: str = field(default="context", metadata={"choices": LABELS})

    def __post_init__(self) -> None:
        super().__post_init__()
        check(2 <= self.clusters <= MAX_CENTERS, f"clusters must be from 2 to {MAX_CENTERS}: got {self.clusters}")
        for name, bits in (("bits", self.bits), ("warm_bits", self.warm_bits)):
            check(
                LEAST_BITS <= bits <= MOST_BITS, f"{name} must be from {LEAST_BITS} to {MOST_BITS} a weight: got {bits}"
            )
        check(2 <= self.vector_bits <= EIGHT, f"vector_bits must be from 2 to 8: got {self.vector_bits}")
        check(0 <= self.residual <= 1, f"residual must be from 0 (off) to 1: got {self.residual}")
        check_labels_option(self.labels)

    @property
    def acknowledges(self) -> bool:
        return self.residual > 0

    # ---- server

    def broadcast(self, turn: Turn) -> Broadcast:
        return Broadcast(self._base(turn), asks=self._asks(turn), source=turn.model)

    def _asks(self, turn: Turn) -> dict[str, float]:
        asks: dict[str, float] = {"bits": self.warm_bits if turn.number == 1 else self.bits}
        if self.vector_bits != EIGHT:
            asks["vector_bits"] = self.vector_bits
        if self.residual:
            asks["residual"] = self.residual
        elif self.debias:
            asks["debias"] = 1
        if self.labels == "packed":  # a change has no context: the others are one
            asks["labels"] = LABELS.index("packed")
        return asks

    def _base(self, turn: Turn) -> Base:
        """The model as everybody will decode it."""
        model, layout, small = turn.model, turn.model.layout, _small(turn.model.layout)
        row = model.vector[layout.matrices :]
        rest = decode_tensors(encode_tensors(row, small, self.vector_bits), small, self.vector_bits)
        if not layout.matrices:
            return Base(layout, np.empty(0, np.float32), np.empty(0, np.uint8), rest, model.counters)
        matrices = model.vector[: layout.matrices]
        ladder = Ladder.over(matrices, self.clusters, turn.last)
        centers = ladder.centers
        expected = None if turn.last is None else turn.last.predict(centers, layout.matrices)
        return Base(layout, centers, ladder.labels(matrices, expected), rest, model.counters)

    def sections(self, broadcast: Broadcast, held: Base | None) -> Sections:
        base, source, layout = broadcast.base, broadcast.source, broadcast.base.layout
        if source is None:  # what some clients hold beforehand, for one that does not
            return write_base(base, held)
        known = held.values_from(layout.matrices) if held is not None and self.labels == "context" else None
        row = source.vector[layout.matrices :]
        sections: Sections = {
            Section.VECTORS: encode_tensors(row, _small(layout), self.vector_bits, held=known),
            Section.COUNTERS: encode_counters(base.counters),
        }
        if layout.matrices:
            ladder = Ladder.of(base.centers)
            assert ladder is not None
            sections[Section.LADDER] = ladder.to_bytes()
            sections[Section.LABELS] = write_labels(base.labels, base.centers, held, self.labels)
        return sections

    def fold(self, sums: Sums, reply: Reply) -> None:
        base, layout, message = reply.fresh_base(), sums.layout, reply.message
        data = message.section(Section.VECTORS)
        rest = decode_tensors(data, _small(layout), self.vector_bits, held=_expected(base))
        counters = read_counters(message, layout)
        total = sums.vector()
        if layout.matrices:
            Change.read(message, layout).add_to(total[: layout.matrices], reply.examples)
        add(total[layout.matrices :], rest, reply.examples)
        sums.count(counters)

    def finish(self, turn: Turn, sums: Sums) -> State:
        mean, weights = sums.mean(), sums.layout.weights
        mean[:weights] += turn.model.weights
        return self.moved(turn, mean)

    # ---- client

    @staticmethod
    def receive(incoming: Incoming) -> Start:
        message, layout, held = incoming.message, incoming.layout, incoming.held
        if Section.VECTORS not in message.sections:
            base = read_base(message, layout, held)
            return Start(base.state, base)
        bits = int(incoming.asked("vector_bits", 2, EIGHT, EIGHT))
        known = None if held is None else held.values_from(layout.matrices)
        rest = decode_tensors(message.section(Section.VECTORS), _small(layout), bits, held=known)
        counters = decode_counters(message.section(Section.COUNTERS), layout.counters)
        centers: Vector = np.empty(0, np.float32)
        labels: Labels = np.empty(0, np.uint8)
        if layout.matrices:
            centers = Ladder.from_bytes(message.section(Section.LADDER)).centers
            labels = read_labels(message, layout.matrices, centers, held)
        base = Base(layout, centers, labels, rest, counters)
        return Start(base.state, base)

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        base, layout = start.base, incoming.layout
        assert base is not None  # every message of this method gives one
        change = trained.vector - start.state.vector
        row = np.concatenate([change[layout.matrices : layout.weights], trained.statistics])
        bits = int(incoming.asked("vector_bits", 2, EIGHT, EIGHT))
        sections: Sections = {
            Section.VECTORS: encode_tensors(row, _small(layout), bits, held=_expected(base)),
            Section.COUNTERS: encode_counters(trained.counters),
        }
        if not layout.matrices:
            return sections, {}
        target, decay = change[: layout.matrices], incoming.asked("residual", 0, 1, 0)
        before = settled(incoming, target.size)
        if decay and before is not None:
            target = target + np.float32(decay) * before
        coded = code_change(
            target, layout, incoming.asked("bits", LEAST_BITS, MOST_BITS), debias=bool(incoming.asks.get("debias"))
        )
        labels = LABELS[int(incoming.asked("labels", 0, len(LABELS) - 1, LABELS.index("entropy")))]
        return sections | coded.sections(labels), kept_residual(incoming, target - coded.decode()) if decay else {}


def _small(layout: Layout) -> Tensors:
    """All tensors but the matrices, in the order of the vector."""
    return [*((entry, place) for entry, place in layout.tensors if not entry.is_matrix), *layout.statistics]


def _expected(base: Base) -> Vector:
    """What the small tensors of a reply look like where nothing has happened: no change, the same statistics."""
    expected = base.values_from(base.layout.matrices).copy()
    expected[: base.layout.weights - base.layout.matrices] = 0
    return expected
