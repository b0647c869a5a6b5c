"""The change of a model's matrices: each on its own scale, all with one codebook, read back as it was written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedcode.bfloat import above, encode
from fedcode.change import Change, code_change
from fedcode.coding import encode_floats, encode_labels
from fedcode.errors import FedcodeError, MessageError
from fedcode.layout import Layout
from fedcode.state import flatten
from fedcode.wire import Message, MessageKind, Section

SHAPES = {"a": (40, 50), "bias": (40,), "b": (30, 10, 3), "still": (5, 8), "none": (0, 4)}


def layout() -> Layout:
    return flatten({name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}).layout


def moved(seed: int = 0) -> Any:
    """Changes of the matrices in the vector's order: large in one, small in another, none in the third."""
    rng = np.random.default_rng(seed)
    sizes = {"a": 1e-1, "b": 1e-4, "still": 0, "none": 1}
    parts = [
        rng.normal(0, sizes[entry.name], entry.size) for entry, _ in layout().tensors if entry.is_matrix
    ]  # fmt: skip
    return np.concatenate(parts).astype(np.float32)


def message(sections: dict[int, Any]) -> Message:
    return Message(MessageKind.REPLY, "delta", sections=sections)


def test_what_is_read_is_what_was_written() -> None:
    change = code_change(moved(), layout(), 2.0)
    sent = Message.from_bytes(message(dict(change.sections())).to_bytes())
    read = Change.read(sent, layout())
    assert np.array_equal(read.scales, change.scales)
    assert np.array_equal(read.centers, change.centers)
    assert np.array_equal(read.labels, change.labels)
    assert np.array_equal(read.decode(), change.decode())


def test_each_tensor_is_coded_as_finely_as_the_others() -> None:
    values = moved()
    decoded = code_change(values, layout(), 2.0).decode()
    for entry, place in layout().tensors:
        if entry.name in ("a", "b"):
            error = np.square(decoded[place] - values[place]).sum() / np.square(values[place]).sum()
            assert error < 0.12, entry.name  # two bits of a Gaussian leave 0.09
        if entry.name == "still":
            assert not decoded[place].any()


def test_scales_are_the_rms_rounded_up() -> None:
    values = moved()
    change = code_change(values, layout(), 2.0)
    for scale, place in zip(change.scales, change.places, strict=True):
        rms = float(np.sqrt(np.square(values[place], dtype=np.float64).mean())) if values[place].size else 0.0
        assert rms <= scale <= rms * (1 + 2**-7)


def test_labels_cost_about_what_was_asked() -> None:
    values = np.random.default_rng(1).normal(size=300_000).astype(np.float32)
    one = flatten({"w": np.zeros((300, 1000), np.float32)}).layout
    for bits in (0.5, 1.0, 2.0):
        change = code_change(values, one, bits)
        assert 8 * len(change.sections()[Section.LABELS]) == pytest.approx(bits * values.size, rel=0.03)


def test_a_debiased_change_is_as_long_as_the_true_one_along_it() -> None:
    values = moved()
    for bits in (0.3, 1.0):
        plain, fair = (code_change(values, layout(), bits, debias=debias) for debias in (False, True))
        scaled = np.concatenate([values[p] / (s or 1) for s, p in zip(fair.scales, fair.places, strict=True)])
        share = [float(np.dot(c.centers[c.labels], scaled) / np.dot(scaled, scaled)) for c in (plain, fair)]
        assert share[0] < 0.95
        assert share[1] == pytest.approx(1, abs=1e-3)


def test_a_sum_gets_what_decoding_would_give() -> None:
    change = code_change(moved(), layout(), 2.0)
    total = np.ones(change.labels.size)
    change.add_to(total, 0.25)
    assert total == pytest.approx(1 + 0.25 * change.decode().astype(np.float64), rel=1e-6, abs=1e-12)


def test_a_change_of_nothing_is_nothing() -> None:
    change = code_change(np.zeros_like(moved()), layout(), 2.0)
    assert not change.decode().any()
    read = Change.read(message(dict(change.sections())), layout())
    assert not read.decode().any()


def test_the_same_change_is_the_same_bytes() -> None:
    one, two = (code_change(moved(), layout(), 1.0).sections() for _ in range(2))
    assert one == two


@pytest.mark.parametrize(
    ("tag", "body"),
    [
        (Section.SCALES, b""),
        (Section.SCALES, bytes(4)),
        (Section.SCALES, b"\xff" * 6),
        (Section.SCALES, encode(above([3e38, 3e38, 3e38]))),  # times a centre it is no float32
        (Section.CENTERS, b""),
        (Section.CENTERS, encode_floats([np.nan])),
        (Section.CENTERS, encode_floats([2, 1])),
        (Section.LABELS, b""),
        (Section.LABELS, encode_labels(np.zeros(9, np.uint8), 4)),
    ],
)
def test_sections_that_lie_are_refused(tag: Section, body: bytes) -> None:
    sections = dict(code_change(moved(), layout(), 2.0).sections())
    sections[tag] = body
    with pytest.raises(MessageError):
        Change.read(message(sections), layout())


def test_a_section_that_is_missing_is_said() -> None:
    sections = dict(code_change(moved(), layout(), 2.0).sections())
    for tag in list(sections):
        with pytest.raises(FedcodeError):
            Change.read(message({other: body for other, body in sections.items() if other != tag}), layout())
