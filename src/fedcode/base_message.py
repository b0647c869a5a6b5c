"""A base as the sections of a message: its codebook and labels, coded given a base that the other end holds."""

from __future__ import annotations

import numpy as np

from fedcode.base import Base, Labels
from fedcode.coding import decode_labels, encode_floats, encode_labels
from fedcode.errors import ArgumentError
from fedcode.layout import Layout
from fedcode.reader import Buffer
from fedcode.sections import decode_centers, decode_counters, decode_values, encode_centers, encode_counters
from fedcode.state import Vector
from fedcode.wire import Message, Section

# How labels are sent: as the papers count them, entropy-coded, or that given what the other end holds.
LABELS = ("packed", "entropy", "context")

Sections = dict[int, Buffer]


def check_labels_option(labels: str) -> None:
    """ArgumentError for anything but the three ways to send labels."""
    if labels not in LABELS:
        raise ArgumentError(f"labels must be one of {', '.join(LABELS)}: got {labels!r}.")


def write_labels(found: Labels, centers: Vector, held: Base | None, labels: str = "context") -> bytes:
    """The labels of the first weights as bytes, given the base that the other end holds (None: none)."""
    check_labels_option(labels)
    context = held.predict(centers, found.size) if held is not None and labels == "context" else None
    return encode_labels(found, len(centers), coding="packed" if labels == "packed" else "smallest", context=context)


def write_new_labels(found: Labels, k: int, labels: str) -> bytes:
    """Labels of which the other end expects nothing: those of a change. "context" is "entropy" then."""
    check_labels_option(labels)
    return encode_labels(found, k, coding="packed" if labels == "packed" else "smallest")


def read_labels(message: Message, count: int, centers: Vector, held: Base | None) -> Labels:
    """What `write_labels` wrote for `count` weights."""
    context = None if held is None else held.predict(centers, count)
    return decode_labels(message.section(Section.LABELS), count, len(centers), context=context)


def write_base(base: Base, held: Base | None, labels: str = "context") -> Sections:
    """A whole base: centres and labels if it has a codebook, the rest and the counters as they are."""
    sections: Sections = {}
    if base.labels.size:
        sections[Section.CENTERS] = encode_centers(base.centers)
        sections[Section.LABELS] = write_labels(base.labels, base.centers, held, labels)
    sections[Section.VALUES] = encode_floats(base.rest)
    sections[Section.COUNTERS] = encode_counters(base.counters)
    return sections


def read_base(message: Message, layout: Layout, held: Base | None, clustered: int | None = None) -> Base:
    """What `write_base` wrote. `clustered`: how many values the codebook stands for (the weights)."""
    counters = decode_counters(message.section(Section.COUNTERS), layout.counters)
    if Section.CENTERS not in message.sections:
        values = decode_values(message.section(Section.VALUES), layout.values)
        return Base(layout, np.empty(0, np.float32), np.empty(0, np.uint8), values, counters)
    count = layout.weights if clustered is None else clustered
    centers = decode_centers(message.section(Section.CENTERS))
    found = read_labels(message, count, centers, held)
    rest = decode_values(message.section(Section.VALUES), layout.values - count)
    return Base(layout, centers, found, rest, counters)
