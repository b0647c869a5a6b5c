"""FedPAQ: whole models down, the update quantised at random and without bias up.

Source: Reisizadeh et al., FedPAQ: A Communication-Efficient Federated Learning Method with Periodic Averaging and
Quantization, AISTATS 2020, algorithm 1, with the quantiser of Alistarh et al., QSGD, NeurIPS 2017, section 3.

down   every weight and statistic as float32
up     Q(w_k - w), bucket by bucket: with |v| the norm of v's bucket, v_i becomes |v| sign(v_i) l / s, where l is one
       of the two whole numbers around s |v_i| / |v|, drawn so that the mean is v_i
then   w <- w + sum_k (n_k / n) Q(w_k - w)

Hyperparameters: levels s = 7, so that the 2s + 1 values of a weight fit four bits; bucket 512. Four bits with buckets
of 512 is how QSGD trained its networks. FedPAQ gives a whole model one norm, whose noise would drown the update of
a large one.
Faithful: the algorithm and the quantiser. Adapted: clients are weighted by examples; statistics are averaged and
sent as they are; labels are entropy-coded unless `labels` says otherwise, which changes nothing that arrives ("context"
is "entropy" here: nothing is expected of an update). The paper's count is log2(2s + 1) bits a weight and 32 a bucket.
Kept: by the server nothing but the model (and its optimiser's state); by a client nothing. A client that was away
costs nothing more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedcode.accumulate import add
from fedcode.averaging import Averaging
from fedcode.base import Base
from fedcode.base_message import LABELS, check_labels_option, write_new_labels
from fedcode.coding import decode_floats, decode_labels, encode_floats
from fedcode.ends import Broadcast, Incoming, Kept, Reply, Sections, Start, Sums, Turn, check, read_counters
from fedcode.errors import MessageError
from fedcode.layout import Layout
from fedcode.paper_count import raw_bits
from fedcode.sections import decode_values, encode_counters
from fedcode.state import State, Vector
from fedcode.wire import Message, MessageKind, Section

MAX_LEVELS = (1 << 15) - 1
MAX_BUCKET = 1 << 31
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, kw_only=True)
class FedPAQ(Averaging):
    """s and the bucket's size; how labels are sent; the server's optimiser."""

    name: ClassVar[str] = "fedpaq"
    keeps_bases: ClassVar[bool] = False
    lossless: ClassVar[frozenset[str]] = frozenset({"down"})

    levels: int = 7
    bucket: int = 512
    labels: str = field(default="context", metadata={"choices": LABELS})

    def __post_init__(self) -> None:
        super().__post_init__()
        check(1 <= self.levels <= MAX_LEVELS, f"levels must be from 1 to {MAX_LEVELS}: got {self.levels}")
        check(1 <= self.bucket <= MAX_BUCKET, f"bucket must be from 1 to {MAX_BUCKET}: got {self.bucket}")
        check_labels_option(self.labels)

    def broadcast(self, turn: Turn) -> Broadcast:
        asks = {"levels": self.levels, "bucket": self.bucket, "labels": LABELS.index(self.labels)}
        return Broadcast(Base.of(turn.model), asks=asks)

    def fold(self, sums: Sums, reply: Reply) -> None:
        message, weights = reply.message, sums.layout.weights
        norms = decode_floats(message.section(Section.SCALES), -(-weights // self.bucket))
        if not (np.isfinite(norms) & (norms >= 0)).all():
            raise MessageError(f"a norm that {reply.client} sent is negative, NaN or infinite.")
        labels = decode_labels(message.section(Section.LABELS), weights, 2 * self.levels + 1)
        statistics = decode_values(message.section(Section.VALUES), sums.layout.values - weights)
        counters = read_counters(message, sums.layout)
        total = sums.vector()
        add(total[:weights], restore(labels, norms, self.levels, self.bucket), reply.examples)
        add(total[weights:], statistics, reply.examples)
        sums.count(counters)

    def finish(self, turn: Turn, sums: Sums) -> State:
        mean, weights = sums.mean(), sums.layout.weights
        mean[:weights] += turn.model.weights
        return self.moved(turn, mean)

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        levels = int(incoming.asked("levels", 1, MAX_LEVELS))
        labels = LABELS[int(incoming.asked("labels", 0, len(LABELS) - 1))]
        change = trained.weights - start.state.weights
        places, norms = quantise(change, levels, int(incoming.asked("bucket", 1, MAX_BUCKET)), rng)
        return {
            Section.SCALES: encode_floats(norms),
            Section.LABELS: write_new_labels(places, 2 * levels + 1, labels),
            Section.VALUES: encode_floats(trained.statistics),
            Section.COUNTERS: encode_counters(trained.counters),
        }, {}

    def paper_bits(self, message: Message, layout: Layout) -> int | None:
        if message.kind != MessageKind.REPLY:
            return raw_bits(layout.weights)
        return math.ceil(layout.weights * math.log2(2 * self.levels + 1)) + 32 * -(-layout.weights // self.bucket)


def quantise(
    values: Vector, levels: int, bucket: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.uint8] | npt.NDArray[np.uint16], Vector]:
    """QSGD: for each value sign(v) l + s, from 0 to 2s, and the norm of each bucket.

    >>> quantise(np.array([3, -4, 0], np.float32), 5, 2, np.random.default_rng(0))
    (array([8, 1, 5], dtype=uint8), array([5., 0.], dtype=float32))
    """
    bucket = min(bucket, values.size)
    starts = np.arange(0, values.size, bucket)
    wide = values.astype(np.float64)
    norms = np.sqrt(np.add.reduceat(np.square(wide), starts)).clip(max=_LARGEST).astype(np.float32)
    unit = np.repeat(np.where(norms > 0, norms, 1).astype(np.float64), bucket)[: values.size]
    place = np.minimum(np.abs(wide) / unit, 1) * levels  # a norm rounded down would let a value stand above it
    lower = np.floor(place)
    drawn = lower + (rng.random(values.size) < place - lower)
    signed = np.copysign(drawn, wide) + levels
    return signed.astype(np.uint8 if levels < 128 else np.uint16), norms


def restore(
    places: npt.NDArray[np.uint8] | npt.NDArray[np.uint16], norms: Vector, levels: int, bucket: int
) -> npt.NDArray[np.float64]:
    """The values that `quantise` stands for.

    >>> restore(np.array([8, 1, 5], np.uint8), np.array([5, 0], np.float32), 5, 2)
    array([ 3., -4.,  0.])
    """
    unit = np.repeat(norms.astype(np.float64) / levels, min(bucket, places.size))[: places.size]
    return (places.astype(np.float64) - levels) * unit
