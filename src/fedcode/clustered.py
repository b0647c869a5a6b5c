"""A model as a codebook and labels of its weights, with its statistics beside: what FedAvg_ws and FedCode send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fedcode.accumulate import add, add_labels
from fedcode.base import Base
from fedcode.base_message import LABELS, Sections, check_labels_option, read_base, read_labels, write_base, write_labels
from fedcode.clustering import MAX_CENTERS, cluster
from fedcode.coding import encode_floats
from fedcode.eightbit import decode_tensors, encode_tensors
from fedcode.ends import Broadcast, Incoming, Method, Reply, Start, Sums, check
from fedcode.errors import MessageError, RefusedError
from fedcode.layout import Layout
from fedcode.paper_count import full_bits, raw_bits
from fedcode.sections import decode_centers, decode_counters, encode_centers, encode_counters
from fedcode.state import State, Vector
from fedcode.wire import Message, Section

STATISTICS = ("exact", "8bit")


@dataclass(frozen=True, kw_only=True)
class Clustered(Method):
    """Settings of methods that send clustered weights.

    clusters: K, how many centres a codebook has. labels: how labels are sent: "packed" (as the paper counts them),
    "entropy", or "context" (given what the other end holds): the weights that arrive are the same.
    statistics: "exact", or "8bit" (a scale a tensor, variances by their logarithm).
    """

    clusters: int = 64
    labels: str = field(default="context", metadata={"choices": LABELS})
    statistics: str = field(default="exact", metadata={"choices": STATISTICS})

    def __post_init__(self) -> None:
        super().__post_init__()
        check(2 <= self.clusters <= MAX_CENTERS, f"clusters must be from 2 to {MAX_CENTERS}: got {self.clusters}")
        check_labels_option(self.labels)
        check(
            self.statistics in STATISTICS, f"statistics must be one of {', '.join(STATISTICS)}: got {self.statistics!r}"
        )

    @property
    def asked(self) -> dict[str, float]:
        """What a client must know to cluster its reply."""
        return {
            "clusters": self.clusters,
            "labels": LABELS.index(self.labels),
            "statistics": STATISTICS.index(self.statistics),
        }

    def whole_paper_bits(self, message: Message, layout: Layout) -> int:
        """What the paper counts: a codebook and all labels, a raw model, or nothing for a header alone."""
        if Section.LABELS in message.sections:
            return full_bits(layout.weights, self.clusters)
        return raw_bits(layout.weights) if Section.VALUES in message.sections else 0


def clustered(model: State, clusters: int) -> Base:
    """The model's weights as one codebook and labels; statistics and counters as they are."""
    codebook = cluster(model.weights, clusters)
    return Base(model.layout, codebook.centers, codebook.labels, model.statistics, model.counters)


def coarse(base: Base, statistics: str) -> Base:
    """The base as its receivers will decode it: statistics at 8 bits where this is asked for."""
    if statistics == "exact" or not base.rest.size:
        return base
    rest = decode_tensors(encode_tensors(base.rest, base.layout.statistics), base.layout.statistics)
    return Base(base.layout, base.centers, base.labels, rest, base.counters)


def write_clustered(base: Base, source: State | None, held: Base | None, labels: str, statistics: str) -> Sections:
    """A clustered model as sections, given the base that the other end holds.

    source: the model that was clustered, whose statistics are coded; None for a base that is a whole model.
    """
    if source is None or not base.labels.size:
        return write_base(base, held)
    sections: Sections = {
        Section.CENTERS: encode_centers(base.centers),
        Section.LABELS: write_labels(base.labels, base.centers, held, labels),
        Section.COUNTERS: encode_counters(base.counters),
    }
    if statistics == "8bit" and base.rest.size:
        known = held if labels == "context" else None
        sections[Section.STATISTICS] = encode_tensors(source.statistics, base.layout.statistics, held=_tail(known))
    elif base.rest.size:
        sections[Section.VALUES] = encode_floats(base.rest)
    return sections


def read_clustered(message: Message, layout: Layout, held: Base | None) -> Base:
    """What `write_clustered` wrote; or a whole model that was not clustered."""
    if Section.CENTERS not in message.sections:
        return read_base(message, layout, held)
    if Section.STATISTICS in message.sections:
        rest = decode_tensors(message.section(Section.STATISTICS), layout.statistics, held=_tail(held))
    elif layout.values > layout.weights:
        return read_base(message, layout, held)
    else:
        rest = np.empty(0, np.float32)
    centers = decode_centers(message.section(Section.CENTERS))
    labels = read_labels(message, layout.weights, centers, held)
    return Base(layout, centers, labels, rest, decode_counters(message.section(Section.COUNTERS), layout.counters))


def _tail(held: Base | None) -> Vector | None:
    return None if held is None else held.values_from(held.layout.weights)


def receive_clustered(incoming: Incoming) -> Start:
    """A client's start from a whole clustered model."""
    base = read_clustered(incoming.message, incoming.layout, incoming.held)
    return Start(base.state, base)


def answer_clustered(incoming: Incoming, start: Start, trained: State) -> tuple[Sections, Base]:
    """The trained model clustered as the message asks: the reply's sections, and the clustered model."""
    statistics = STATISTICS[int(incoming.asked("statistics", 0, len(STATISTICS) - 1))]
    labels = LABELS[int(incoming.asked("labels", 0, len(LABELS) - 1))]
    base = coarse(clustered(trained, clusters_asked(incoming)), statistics)
    return write_clustered(base, trained, start.base or incoming.held, labels, statistics), base


def clusters_asked(incoming: Incoming) -> int:
    """K, as the message asks for it."""
    return int(incoming.asked("clusters", 2, MAX_CENTERS))


def check_codebook(reply: Reply, centers: Vector) -> None:
    """Refuse more centres than were asked for: among the codebooks of all they would drown out the others'."""
    most = int(reply.broadcast.asks["clusters"])
    if centers.size > most:
        raise RefusedError(f"{most} centres were asked for, {reply.client} sent {centers.size}.")


def fold_clustered(sums: Sums, reply: Reply) -> None:
    """Add a clustered model to the sums."""
    base = read_clustered(reply.message, sums.layout, reply.base)
    if not base.labels.size:
        raise MessageError(f"the reply of {reply.client} holds no clustered weights.")
    check_codebook(reply, base.centers)
    weights = sums.layout.weights
    total = sums.vector()
    add_labels(total[:weights], base.centers, base.labels, reply.examples)
    add(total[weights:], base.rest, reply.examples)
    sums.count(base.counters)


def broadcast_clustered(method: Clustered, model: State, asks: Mapping[str, float], given: bool = True) -> Broadcast:
    """The model clustered for everybody."""
    base = coarse(clustered(model, method.clusters), method.statistics)
    return Broadcast(base, asks={**asks, **method.asked}, given=given, source=model)
