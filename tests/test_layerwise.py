"""A codebook a tensor: read back as written, each label within its own tensor's codebook."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedcode.coding import encode_floats, encode_integers, encode_labels
from fedcode.errors import MessageError
from fedcode.layerwise import Layers
from fedcode.layout import Layout
from fedcode.state import flatten
from fedcode.wire import Message, MessageKind, Section

SHAPES = {"a": (20, 30), "bias": (20,), "b": (7, 9)}
CENTERS = {"a": 15, "bias": 1, "b": 4}


def layout() -> Layout:
    return flatten({name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}).layout


def layers(seed: int = 0) -> Layers:
    rng = np.random.default_rng(seed)
    of = layout()
    labels = np.zeros(of.weights, np.uint8)
    codebooks = []
    for entry, place in of.tensors:
        k = CENTERS[entry.name]
        codebooks.append(np.sort(rng.normal(size=k)).astype(np.float32))
        labels[place] = rng.integers(0, k, entry.size)
        labels[place.start] = k - 1
    return Layers(of, codebooks, labels)


def message(sections: dict[int, Any]) -> Message:
    return Message(MessageKind.REPLY, "fedzip", sections=sections)


@pytest.mark.parametrize("way", ["packed", "entropy", "context"])
def test_what_is_read_is_what_was_written(way: str) -> None:
    sent = layers()
    read = Layers.read(Message.from_bytes(message(dict(sent.sections(way))).to_bytes()), layout())
    assert [book.tolist() for book in read.codebooks] == [book.tolist() for book in sent.codebooks]
    assert np.array_equal(read.labels, sent.labels)
    assert np.array_equal(read.decode(), sent.decode())


def test_each_weight_is_the_centre_that_its_label_means() -> None:
    this = layers()
    decoded = this.decode()
    for book, (_, place) in zip(this.codebooks, layout().tensors, strict=True):
        assert decoded[place].tolist() == [book[label] for label in this.labels[place]]


def test_a_sum_gets_what_decoding_would_give() -> None:
    this = layers()
    total = np.zeros(this.labels.size)
    this.add_to(total, 3)
    assert total == pytest.approx(3 * this.decode().astype(np.float64))


def test_the_paper_counts_centres_of_32_bits_and_labels_of_ceil_log2() -> None:
    assert layers().paper_bits == 32 * (15 + 1 + 4) + 600 * 4 + 20 * 0 + 63 * 2


@pytest.mark.parametrize(
    ("tag", "body", "says"),
    [
        (Section.SIZES, encode_integers([15, 0, 4]), "1 to"),
        (Section.SIZES, encode_integers([15, -1, 4]), "1 to"),
        (Section.SIZES, encode_integers([15, 1 << 20, 4]), "1 to"),
        (Section.SIZES, encode_integers([15, 1]), "integers"),
        (Section.SIZES, encode_integers([15, 1, 5]), "floats|values|bytes"),
        (Section.CENTERS, encode_floats(np.zeros(19)), "bytes"),
        (Section.CENTERS, encode_floats(np.full(20, np.inf)), "infinite"),
        (Section.LABELS, encode_labels(np.full(683, 14, np.uint8), 15, coding="packed"), "beyond its"),
        (Section.LABELS, encode_labels(np.zeros(682, np.uint8), 15, coding="packed"), "take"),
    ],
)
def test_sections_that_lie_are_refused(tag: Section, body: bytes, says: str) -> None:
    sections = dict(layers().sections())
    sections[tag] = body
    with pytest.raises(MessageError, match=says):
        Layers.read(message(sections), layout())
