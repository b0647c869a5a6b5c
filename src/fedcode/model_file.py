"""A whole model in one file: its weights clustered, everything else exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcode.clustering import cluster
from fedcode.coding import decode_labels, encode_floats, encode_labels
from fedcode.errors import MessageError
from fedcode.layout import Layout
from fedcode.reader import Buffer
from fedcode.sections import decode_centers, decode_counters, decode_values, encode_centers, encode_counters
from fedcode.state import State, Trained, Vector, flatten
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
    progress: Callable[[str], None] = lambda _: None,
) -> bytes:
    """A model's state as bytes: weights by one codebook of `k` centres (64), or for `bits` a weight.

    Statistics and counters are exact. `progress` hears what is being done.

    >>> weights = np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32)
    >>> data = encode({"w": weights}, k=16)
    >>> len(data) < weights.nbytes / 7
    True
    """
    flat = flatten(state, trained=trained).check_finite()
    layout = flat.layout
    sections: dict[int, Buffer] = {Section.LAYOUT: layout.to_bytes()}
    if layout.weights:
        progress("clustering")
        codebook = cluster(flat.weights, CLUSTERS if k is None and bits is None else k, bits=bits)
        progress("coding")
        sections[Section.CENTERS] = encode_centers(codebook.centers)
        sections[Section.LABELS] = encode_labels(codebook.labels, len(codebook.centers))
    sections[Section.STATISTICS] = encode_floats(flat.statistics)
    sections[Section.COUNTERS] = encode_counters(flat.counters)
    sections |= padding(layout, sum(len(body) for body in sections.values()))
    return Message(MessageKind.MODEL, "", layout=layout.fingerprint, sections=sections).to_bytes()


def decode(data: Buffer, *, tensors: bool = False) -> dict[str, Any]:
    """The state that `encode` made bytes of: numpy arrays by name, or torch tensors.

    bfloat16 comes back as float32 in arrays and as bfloat16 in tensors.

    >>> decode(encode({"w": np.ones((2, 2), np.float16), "steps": np.array(3)}))
    {'w': array([[1., 1.],
           [1., 1.]], dtype=float16), 'steps': array(3)}
    """
    state, _, _ = _open(data)
    return state.tensors() if tensors else dict(state.arrays())


@dataclass(frozen=True)
class Report:
    """What a file holds. `sections` are bytes by name; `bits_per_weight` counts the whole file."""

    weights: int
    values: int
    counters: int
    entries: int
    centers: int
    size: int
    sections: dict[str, int]
    bits_per_weight: float


def inspect(data: Buffer) -> Report:
    """What is in a file that `encode` made.

    >>> inspect(encode({"w": np.arange(8.0)}, k=4)).centers
    4
    """
    state, centers, message = _open(data)
    layout = state.layout
    return Report(
        weights=layout.weights,
        values=layout.values,
        counters=layout.counters,
        entries=len(layout.entries),
        centers=len(centers),
        size=len(data),
        sections={Section(tag).name.lower(): len(body) for tag, body in message.sections.items()},
        bits_per_weight=8 * len(data) / layout.weights if layout.weights else float("nan"),
    )


def _open(data: Buffer) -> tuple[State, Vector, Message]:
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
    vector = np.empty(layout.values, np.float32)
    centers = np.empty(0, np.float32)
    if layout.weights:
        centers = decode_centers(message.section(Section.CENTERS))
        labels = decode_labels(message.section(Section.LABELS), layout.weights, len(centers))
        np.take(centers, labels, out=vector[: layout.weights])
    statistics = layout.values - layout.weights
    vector[layout.weights :] = decode_values(message.section(Section.STATISTICS), statistics)
    counters = decode_counters(message.section(Section.COUNTERS), layout.counters)
    return State(layout, vector, counters), centers, message
