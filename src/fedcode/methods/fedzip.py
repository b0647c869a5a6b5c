"""FedZip: the update pruned, clustered and Huffman-coded layer by layer, upstream alone.

Source: Malekijoo et al., FEDZIP: A Compression Framework for Communication-Efficient Federated Learning, 2021
(arXiv 2102.01593); K and the comparison from the FedCode paper, section "Evaluation Metrics and Baselines".

down   every weight and statistic as float32
up     the change since then; of each layer's weights the share `keep` of greatest magnitude (top-z; biases and other
       vectors whole), k-means of what is kept, and its labels; statistics as they are
then   w <- w + sum_k (n_k / n) change_k

Hyperparameters: clusters K = 15 as FedCode ran it (3 in FedZip's own paper); keep = 0.18: neither paper prints the
share, this one is our estimate of what FedCode's comparison table (19.8 times fewer bits up) used.
Faithful: pruning and k-means layer by layer, the zero of what is pruned as one more symbol.
Adapted: all layers' labels are one entropy-coded stream, either with the zeros among them or beside the positions of
what is kept, whichever is smaller ("context" is "entropy" here); `labels="packed"` sends the zeros among them, in as
many bits each. The paper's Huffman count, a code and K floats a layer, is reported beside. The server may take the
mean change as a gradient (`server`, off).
Kept: by the server nothing but the model (and its optimiser's state); by a client nothing, so one that was away costs
what all others do.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedcode.accumulate import add, add_labels
from fedcode.averaging import Averaging
from fedcode.base import Base
from fedcode.base_message import LABELS, check_labels_option
from fedcode.clustering import cluster
from fedcode.coding import decode_integers, decode_labels, encode_floats, encode_integers, encode_labels
from fedcode.ends import Broadcast, Incoming, Kept, Reply, Sections, Start, Sums, Turn, check, read_counters
from fedcode.errors import MessageError
from fedcode.layout import Entry, Layout
from fedcode.paper_count import raw_bits
from fedcode.sections import decode_values, encode_counters
from fedcode.state import State, Vector
from fedcode.symbols import Survey
from fedcode.topk import read_positions, share_of, top, write_positions
from fedcode.wire import Message, Section

Symbols = npt.NDArray[np.uint8]

_MOST = 255  # centres: a byte holds the label of one, or of none


@dataclass(frozen=True, kw_only=True)
class FedZip(Averaging):
    """K centres a layer; the share of a layer's weights that is kept; how labels are sent; the server's optimiser."""

    name: ClassVar[str] = "fedzip"
    keeps_bases: ClassVar[bool] = False
    lossless: ClassVar[frozenset[str]] = frozenset({"down"})

    clusters: int = 15
    keep: float = 0.18
    labels: str = field(default="context", metadata={"choices": LABELS})

    def __post_init__(self) -> None:
        super().__post_init__()
        check(2 <= self.clusters <= _MOST, f"clusters must be from 2 to {_MOST}: got {self.clusters}")
        check(0 < self.keep <= 1, f"keep must be a share of the weights, above 0 and up to 1: got {self.keep}")
        check_labels_option(self.labels)

    # ---- server

    def broadcast(self, turn: Turn) -> Broadcast:
        asks: dict[str, float] = {"clusters": self.clusters, "keep": self.keep}
        if self.labels == "packed":  # an update has no context: the others are one
            asks["labels"] = LABELS.index("packed")
        return Broadcast(Base.of(turn.model), asks=asks)

    def fold(self, sums: Sums, reply: Reply) -> None:
        layout, message = sums.layout, reply.message
        layers = list(_read(message, layout, self.clusters))
        statistics = decode_values(message.section(Section.VALUES), layout.values - layout.weights)
        counters = read_counters(message, layout)
        total = sums.vector()
        for place, centers, symbols in layers:
            add_labels(total[place], _with_zero(centers), symbols, reply.examples)
        add(total[layout.weights :], statistics, reply.examples)
        sums.count(counters)

    def finish(self, turn: Turn, sums: Sums) -> State:
        mean, weights = sums.mean(), sums.layout.weights
        mean[:weights] += turn.model.weights
        return self.moved(turn, mean)

    # ---- client

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        clusters, keep = int(incoming.asked("clusters", 2, _MOST)), incoming.asked("keep", 0, 1)
        change = trained.weights - start.state.weights
        packed = LABELS[int(incoming.asked("labels", 0, len(LABELS) - 1, LABELS.index("entropy")))] == "packed"
        layers = [_zip(entry, change[place], clusters, keep) for entry, place in incoming.layout.tensors]
        symbols = np.concatenate([symbols for _, symbols in layers])
        return {
            Section.SIZES: encode_integers([len(centers) for centers, _ in layers]),
            Section.CENTERS: encode_floats(np.concatenate([centers for centers, _ in layers])),
            **(_pack_symbols(symbols, clusters) if packed else _write_symbols(symbols, clusters)),
            Section.VALUES: encode_floats(trained.statistics),
            Section.COUNTERS: encode_counters(trained.counters),
        }, {}

    # ---- both

    def paper_bits(self, message: Message, layout: Layout) -> int | None:
        if Section.SIZES not in message.sections:
            return raw_bits(layout.weights) if message.sections else 0
        layers = _read(message, layout, self.clusters)
        return sum(huffman_bits(np.bincount(symbols)) + 32 * len(centers) for _, centers, symbols in layers)


def _zip(entry: Entry, change: Vector, clusters: int, keep: float) -> tuple[Vector, Symbols]:
    """One layer: the centres of what is kept, and a symbol a value: 0 where it is pruned, i for centre i - 1."""
    symbols = np.zeros(change.size, np.uint8)
    kept = top(change, share_of(keep, change.size) if entry.is_matrix else change.size)
    if not kept.size:
        return np.empty(0, np.float32), symbols
    codebook = cluster(change[kept], clusters)
    symbols[kept] = codebook.labels + 1
    return codebook.centers, symbols


def _pack_symbols(symbols: Symbols, clusters: int) -> Sections:
    """Zeros among the labels, as many bits each."""
    return {Section.LABELS: encode_labels(symbols, clusters + 1, coding="packed")}


def _write_symbols(symbols: Symbols, clusters: int) -> Sections:
    """Zeros among the labels, or the positions of all others and their labels: whichever is smaller."""
    kept = np.flatnonzero(symbols != 0)  # of booleans, which is several times as fast
    positions = write_positions(kept, symbols.size)
    labels = encode_labels(symbols[kept] - np.uint8(1), clusters)
    size = len(positions) + len(labels)
    if Survey.of(symbols, clusters + 1).floor < size:  # else nothing that codes the zeros as symbols can be smaller
        dense = encode_labels(symbols, clusters + 1)
        if len(dense) <= size:
            return {Section.LABELS: dense}
    return {Section.POSITIONS: positions, Section.LABELS: labels}


def _read_symbols(message: Message, weights: int, clusters: int) -> Symbols:
    data = message.section(Section.LABELS)
    if Section.POSITIONS not in message.sections:
        return decode_labels(data, weights, clusters + 1).astype(np.uint8, copy=False)
    kept = read_positions(message.section(Section.POSITIONS), weights)
    symbols = np.zeros(weights, np.uint8)
    symbols[kept] = decode_labels(data, kept.size, clusters) + 1
    return symbols


def _read(message: Message, layout: Layout, clusters: int) -> Iterator[tuple[slice, Vector, Symbols]]:
    """Each layer's place, centres and symbols, checked."""
    sizes = decode_integers(message.section(Section.SIZES), len(layout.tensors))
    if sizes.min() < 0 or sizes.max() > clusters:
        raise MessageError(f"{clusters} centres a layer were asked for; the reply has {sizes.min()} to {sizes.max()}.")
    centers = decode_values(message.section(Section.CENTERS), int(sizes.sum()))
    symbols = _read_symbols(message, layout.weights, clusters)
    for (entry, place), size, end in zip(layout.tensors, sizes, np.cumsum(sizes), strict=True):
        if symbols[place].max() > size:
            raise MessageError(f"a label of {entry.name!r} is beyond its {size} centres.")
        yield place, centers[end - size : end], symbols[place]


def _with_zero(centers: Vector) -> Vector:
    return np.concatenate([np.zeros(1, np.float32), centers])


def huffman_bits(counts: npt.NDArray[np.int64]) -> int:
    """The length in bits of a Huffman code of symbols that occur so often; one bit each where there is but one.

    >>> huffman_bits(np.array([5, 1, 0, 2]))
    11
    """
    heap = [int(count) for count in counts if count]
    if len(heap) == 1:
        return heap[0]
    heapq.heapify(heap)
    bits = 0
    while len(heap) > 1:
        pair = heapq.heappop(heap) + heapq.heappop(heap)
        bits += pair
        heapq.heappush(heap, pair)
    return bits
