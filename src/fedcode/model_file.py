"""A whole model in one file: its weights clustered, everything else exact.

The file is a message with a layout, centres, labels in blocks, statistics, counters, and the error that
clustering made; docs/wire-format.md has the bytes. Weights are worked on a block at a time, so that a model
need not be in memory: checkpoint.py packs one that is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcode.clustering import Labels, cluster
from fedcode.coding import encode_floats
from fedcode.errors import MessageError
from fedcode.label_blocks import decode_blocks, encode_block, places
from fedcode.layout import Layout
from fedcode.progress import Progress, silent
from fedcode.reader import Buffer
from fedcode.sections import decode_centers, decode_counters, decode_values, encode_centers, encode_counters
from fedcode.state import Counters, State, Trained, Vector, flatten
from fedcode.wire import Message, MessageKind, Section

CLUSTERS = 64

# What a message that carries its own layout may declare: so many values a byte, and a few for nothing. It
# keeps a small hostile message from asking for much memory; an encoder that needs fewer bytes pads.
VALUES_A_BYTE = 1024
_VALUES_FREE = 1 << 20


def check_size(layout: Layout, size: int) -> None:
    """MessageError where a message of `size` bytes declares a model that is too large to be honest."""
    allowed = _VALUES_FREE + VALUES_A_BYTE * size
    if layout.values + layout.counters > allowed:
        raise MessageError(
            f"the message declares {layout.values + layout.counters} values in {size} bytes; a message of this "
            f"size may declare {allowed}."
        )


def padding(layout: Layout, size: int) -> dict[int, Buffer]:
    """The section that makes a message of `size` bytes large enough for `check_size`; mostly none."""
    lacking = -((_VALUES_FREE - layout.values - layout.counters) // VALUES_A_BYTE) - size
    return {Section.PADDING: bytes(lacking)} if lacking > 0 else {}


def encode(
    state: Any,
    k: int | None = None,
    *,
    bits: float | None = None,
    trained: Trained | None = None,
) -> bytes:
    """A model's state as bytes: weights by one codebook of `k` centres (64), or for `bits` a weight.

    Statistics and counters are exact.

    >>> weights = np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32)
    >>> data = encode({"w": weights}, k=16)
    >>> len(data) < weights.nbytes / 7
    True
    """
    flat = flatten(state, trained=trained).check_finite()
    weights = None
    if flat.layout.weights:
        codebook = cluster(flat.weights, CLUSTERS if k is None and bits is None else k, bits=bits)
        weights = ClusteredWeights(
            codebook.centers,
            ((flat.weights[place], codebook.labels[place]) for place in places(flat.layout.weights)),
        )
    return model_message(flat.layout, weights, flat.statistics, flat.counters).to_bytes()


@dataclass(frozen=True, eq=False)
class ClusteredWeights:
    """Weights on their way into a file: centres, and for each block in turn its values and labels."""

    centers: Vector
    blocks: Iterable[tuple[Vector, Labels]]


def model_message(
    layout: Layout,
    weights: ClusteredWeights | None,
    statistics: Vector,
    counters: Counters,
    progress: Progress = silent,
) -> Message:
    """The message that a model's file is. `weights` is None where the layout has none."""
    sections: dict[int, Buffer] = {Section.LAYOUT: layout.to_bytes()}
    if weights is not None:
        labels = bytearray()
        energy = error = 0.0
        done = 0
        for values, chosen in weights.blocks:
            labels += encode_block(chosen, len(weights.centers))
            wide = values.astype(np.float64)
            energy += float(np.square(wide).sum())
            wide -= weights.centers[chosen]
            error += float(np.square(wide).sum())
            done += len(values)
            progress("coding", done, layout.weights)
        sections[Section.CENTERS] = encode_centers(weights.centers)
        sections[Section.LABELS] = labels
        sections[Section.ERROR] = encode_floats([error / energy if energy else 0.0])
    sections[Section.STATISTICS] = encode_floats(statistics)
    sections[Section.COUNTERS] = encode_counters(counters)
    sections |= padding(layout, sum(len(body) for body in sections.values()))
    return Message(MessageKind.MODEL, "", layout=layout.fingerprint, sections=sections)


def decode(data: Buffer, *, tensors: bool = False) -> dict[str, Any]:
    """The state that `encode` made bytes of: numpy arrays by name, or torch tensors.

    bfloat16 comes back as float32 in arrays and as bfloat16 in tensors.

    >>> decode(encode({"w": np.ones((2, 2), np.float16), "steps": np.array(3)}))
    {'w': array([[1., 1.],
           [1., 1.]], dtype=float16), 'steps': array(3)}
    """
    state = ModelFile.from_bytes(data).state()
    return state.tensors() if tensors else dict(state.arrays())


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A model's file, opened: all but its labels read and checked. `error` is a share of the weights' energy."""

    layout: Layout
    centers: Vector
    statistics: Vector
    counters: Counters
    error: float
    sections: dict[str, int]  # bytes by name
    size: int
    labels: Buffer

    @classmethod
    def from_bytes(cls, data: Buffer) -> ModelFile:
        """Open the bytes that `encode` made; anything else is a MessageError."""
        message = Message.from_bytes(data)
        if message.kind != MessageKind.MODEL:
            raise MessageError(
                f"a model's file is expected; this is a {message.kind.name.lower()} message of {message.method}."
            )
        layout = Layout.from_bytes(message.section(Section.LAYOUT))
        if layout.fingerprint != message.layout:
            raise MessageError("the file's layout does not have the fingerprint that its header states.")
        check_size(layout, len(data))
        unknown = set(message.sections) - set(Section.__members__.values())
        if unknown:
            raise MessageError(f"the file holds sections {sorted(unknown)}, which no model's file has.")
        weights = bool(layout.weights)
        (error,) = decode_values(message.section(Section.ERROR), 1) if weights else [0.0]
        if error < 0:
            raise MessageError(f"the file states an error of {error}; a share of an energy is expected.")
        return cls(
            layout,
            decode_centers(message.section(Section.CENTERS)) if weights else np.empty(0, np.float32),
            decode_values(message.section(Section.STATISTICS), layout.values - layout.weights),
            decode_counters(message.section(Section.COUNTERS), layout.counters),
            float(error),
            {Section(tag).name.lower(): len(body) for tag, body in message.sections.items()},
            len(data),
            message.section(Section.LABELS) if weights else b"",
        )

    def weights(self) -> Iterator[Vector]:
        """The weights in the order of the flat vector, a block at a time."""
        for labels in decode_blocks(self.labels, self.layout.weights, len(self.centers)):
            yield self.centers[labels]

    def state(self) -> State:
        """The whole model."""
        vector = np.empty(self.layout.values, np.float32)
        for place, values in zip(places(self.layout.weights), self.weights(), strict=True):
            vector[place] = values
        vector[self.layout.weights :] = self.statistics
        return State(self.layout, vector, self.counters)


@dataclass(frozen=True)
class Report:
    """What a file holds. `sections` are bytes by name, `header` the bytes beside them.

    `bits_per_weight` counts the whole file, `label_bits` the labels alone; both are None without weights.
    `error_db` is the energy of the weights over that of their error in decibels, so that more is better; None
    where there is no error, as with at most K distinct weights.
    """

    weights: int
    statistics: int
    counters: int
    entries: int
    centers: int
    size: int
    header: int
    sections: dict[str, int]
    bits_per_weight: float | None
    label_bits: float | None
    error_db: float | None


def inspect(data: Buffer) -> Report:
    """What is in a file that `encode` made.

    >>> report = inspect(encode({"w": np.arange(8.0)}, k=4))
    >>> report.centers, round(report.error_db, 1)
    (4, 18.5)
    """
    return report(ModelFile.from_bytes(data))


def report(file: ModelFile) -> Report:
    """What is in a file that is open."""
    weights = file.layout.weights
    return Report(
        weights=weights,
        statistics=file.layout.values - weights,
        counters=file.layout.counters,
        entries=len(file.layout.entries),
        centers=len(file.centers),
        size=file.size,
        header=file.size - sum(file.sections.values()),
        sections=file.sections,
        bits_per_weight=8 * file.size / weights if weights else None,
        label_bits=8 * len(file.labels) / weights if weights else None,
        error_db=decibels(file.error),
    )


def decibels(error: float) -> float | None:
    """A share of the energy in decibels; None for no error at all.

    >>> decibels(0.01)
    20.0
    """
    return -10 * math.log10(error) if error else None
