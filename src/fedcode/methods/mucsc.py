"""MUCSC: updates clustered tensor by tensor and without bias, both ways.

Source: Cui et al., Slashing Communication Traffic in Federated Learning by Transmitting Clustered Model Updates,
IEEE JSAC 2021 (arXiv 2105.04153), the algorithm "model update compression by soft clustering".

up     Q(w_k - w), each tensor with a codebook of its own that spans its least to its greatest value; a value v between
       the neighbouring centres a and b becomes b with probability (v - a) / (b - a), else a: v in the mean
down   Q(sum_k (n_k / n) Q(w_k - w)), the aggregated update
then   w <- w + that, at the server and at every client alike

Centres between the ends minimise the variance that this adds, sum_v (b - v)(v - a), each in turn given its neighbours.

Hyperparameters: clusters K = 16, four bits a weight, as FedCode's authors ran FedZip (15); they report that the
paper does not give enough to run it.
Faithful: soft clustering without bias, layer by layer, both ways. Adapted: how centres are found (above); clients are
weighted by examples; statistics travel as they are; labels are entropy-coded unless `labels` says otherwise
("context" is "entropy" here). The paper's boosted variant, which is biased, is not here.
Kept: by the server the bases that clients may hold, four bytes a weight each; by a client two of them. The down message
follows from the model of the round before: a client that was away or whose last reply was lost is sent the whole
model as float32, so at low participation down costs what FedAvg's does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedcode.accumulate import add
from fedcode.arrays import expect
from fedcode.averaging import Averaging
from fedcode.base import Base
from fedcode.base_message import LABELS, check_labels_option, read_base
from fedcode.clustering import MAX_CENTERS, cluster
from fedcode.coding import encode_floats
from fedcode.ends import Broadcast, Incoming, Kept, Reply, Sections, Start, Sums, Turn, check, read_counters
from fedcode.errors import MessageError
from fedcode.layerwise import Layers
from fedcode.layout import Layout
from fedcode.paper_count import raw_bits
from fedcode.sections import decode_counters, decode_values, encode_counters
from fedcode.state import State, Vector
from fedcode.wire import NOTHING, Message, Section

SWEEPS = 50


@dataclass(frozen=True, kw_only=True)
class MUCSC(Averaging):
    """K centres a tensor; how labels are sent; the server's optimiser."""

    name: ClassVar[str] = "mucsc"

    clusters: int = 16
    labels: str = field(default="context", metadata={"choices": LABELS})

    def __post_init__(self) -> None:
        super().__post_init__()
        check(2 <= self.clusters <= MAX_CENTERS, f"clusters must be from 2 to {MAX_CENTERS}: got {self.clusters}")
        check_labels_option(self.labels)

    # ---- server

    def restored(self, kept: Kept, layout: Layout) -> Kept:
        if "follows" in kept:
            expect(kept, "follows", np.uint8, len(NOTHING))
            expect(kept, "sizes", np.int64, len(layout.tensors))
            sizes = kept["sizes"].clip(1, MAX_CENTERS)
            expect(kept, "centers", np.float32, int(sizes.sum()))
            expect(kept, "labels", np.uint8 if self.clusters <= 256 else np.uint16, layout.weights)
            _update(kept, layout).check()
        return super().restored(kept, layout)

    def broadcast(self, turn: Turn) -> Broadcast:
        asks = {"clusters": self.clusters, "labels": LABELS.index(self.labels)}
        base = Base.of(turn.model)
        if "follows" not in turn.kept:
            return Broadcast(base, asks=asks)
        layers, follows = _update(turn.kept, base.layout), turn.kept["follows"].tobytes()
        return Broadcast(base, asks=asks, follows=follows, change=_sections(layers, turn.model, self.labels))

    def fold(self, sums: Sums, reply: Reply) -> None:
        reply.fresh_base()
        weights = sums.layout.weights
        layers = Layers.read(reply.message, sums.layout)
        statistics = decode_values(reply.message.section(Section.VALUES), sums.layout.values - weights)
        counters = read_counters(reply.message, sums.layout)
        total = sums.vector()
        layers.add_to(total[:weights], reply.examples)
        add(total[weights:], statistics, reply.examples)
        sums.count(counters)

    def finish(self, turn: Turn, sums: Sums) -> State:
        model, mean, weights = turn.model, sums.mean(), sums.layout.weights
        mean[:weights] += model.weights
        moved = self.moved(turn, mean)
        layers = soft_layers(moved.weights - model.weights, model.layout, self.clusters, turn.rng)
        follows = np.frombuffer(Base.of(model).digest, np.uint8)
        turn.kept.update(_kept(layers), follows=follows)
        vector = np.concatenate([model.weights + layers.decode(), moved.statistics])
        return State(model.layout, vector, model.counters)

    # ---- client

    @staticmethod
    def receive(incoming: Incoming) -> Start:
        message, layout, held = incoming.message, incoming.layout, incoming.held
        if Section.LABELS not in message.sections:
            base = read_base(message, layout, held)
            return Start(base.state, base)
        if held is None:
            raise MessageError("an update came without a model that it is an update of.")
        layers = Layers.read(message, layout)
        statistics = decode_values(message.section(Section.VALUES), layout.values - layout.weights)
        vector = np.concatenate([held.state.weights + layers.decode(), statistics])
        counters = decode_counters(message.section(Section.COUNTERS), layout.counters)
        state = State(layout, vector, counters)
        return Start(state, Base.of(state))

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        clusters = int(incoming.asked("clusters", 2, MAX_CENTERS))
        labels = LABELS[int(incoming.asked("labels", 0, len(LABELS) - 1))]
        layers = soft_layers(trained.weights - start.state.weights, incoming.layout, clusters, rng)
        return _sections(layers, trained, labels), {}

    # ---- both

    def paper_bits(self, message: Message, layout: Layout) -> int | None:
        if Section.LABELS in message.sections:
            return Layers.read(message, layout).paper_bits
        return raw_bits(layout.weights) if Section.VALUES in message.sections else 0


def _sections(layers: Layers, model: State, labels: str) -> Sections:
    return {
        **layers.sections(labels),
        Section.VALUES: encode_floats(model.statistics),
        Section.COUNTERS: encode_counters(model.counters),
    }


def _kept(layers: Layers) -> Kept:
    sizes = np.array([centers.size for centers in layers.codebooks], np.int64)
    return {"sizes": sizes, "centers": np.concatenate(layers.codebooks), "labels": layers.labels}


def _update(kept: Kept, layout: Layout) -> Layers:
    return Layers(layout, np.split(kept["centers"], np.cumsum(kept["sizes"])[:-1]), kept["labels"])


def soft_layers(change: Vector, layout: Layout, clusters: int, rng: np.random.Generator) -> Layers:
    """Each trained tensor of a change soft-clustered by itself."""
    codebooks: list[Vector] = []
    labels = np.empty(layout.weights, np.uint8 if clusters <= 256 else np.uint16)
    for _, place in layout.tensors:
        centers = soft_centers(change[place], clusters)
        labels[place] = soft_labels(change[place], centers, rng)
        codebooks.append(centers)
    return Layers(layout, codebooks, labels)


def soft_centers(values: Vector, clusters: int) -> Vector:
    """At most `clusters` of the values, from the least to the greatest, between which the values lie closely.

    >>> soft_centers(np.array([0, 0, 1, 5, 5, 6, 6], np.float32), 3)
    array([0., 5., 6.], dtype=float32)
    """
    ordered = np.sort(values)
    centers = np.unique(np.concatenate([cluster(values, clusters).centers[1:-1], ordered[[0, -1]]]))
    centers = centers.astype(np.float64)
    sums = np.concatenate([[0.0], np.cumsum(ordered, dtype=np.float64)])
    for _ in range(SWEEPS):
        before = centers.copy()
        for first in (1, 2):  # every other centre at once: none has a neighbour that moves
            inner = np.arange(first, centers.size - 1, 2)
            low, high = centers[inner - 1], centers[inner + 1]
            left, right = np.searchsorted(ordered, low, "left"), np.searchsorted(ordered, high, "right")
            # the variance is least where the centre has sum (high - v) / (high - low) of the values below it
            rank = (high * (right - left) - (sums[right] - sums[left])) / np.where(high > low, high - low, 1)
            centers[inner] = ordered[left + np.clip(np.ceil(rank), 1, right - left).astype(np.int64) - 1]
        if np.array_equal(before, centers):
            break
    return np.unique(centers.astype(np.float32))


def soft_labels(values: Vector, centers: Vector, rng: np.random.Generator) -> npt.NDArray[Any]:
    """One of the two centres next to each value, drawn so that the mean is the value."""
    if centers.size == 1:
        return np.zeros(values.size, np.uint8)
    lower = np.clip(np.searchsorted(centers, values, "right") - 1, 0, centers.size - 2)
    wide = centers.astype(np.float64)
    above = rng.random(values.size) * (wide[lower + 1] - wide[lower]) < values - wide[lower]
    return lower + above
