"""A whole model as bytes and back."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcode import label_blocks
from fedcode.errors import ArgumentError, FedcodeError, MessageError, NonFiniteError
from fedcode.layout import Entry, Kind, Layout
from fedcode.model_file import ModelFile, decode, encode, inspect
from fedcode.models.digits import digits
from fedcode.packing import pack
from fedcode.wire import Message, MessageKind, Section


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def state(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "w": rng.normal(size=(40, 30)).astype(np.float32),
        "half": rng.normal(size=9).astype(np.float16),
        "double": rng.normal(size=(2, 1, 3)),
        "norm.running_mean": rng.normal(size=5).astype(np.float32),
        "norm.running_var": rng.random(5).astype(np.float32) + 0.1,
        "norm.num_batches_tracked": np.array(77),
        "mask": np.array([True, False]),
        "empty": np.zeros((0, 3), np.float32),
        "scalar": np.array(0.5, np.float32),
    }


def test_shapes_and_dtypes_come_back_and_what_is_not_trained_is_exact(rng: np.random.Generator) -> None:
    original = state(rng)
    found = decode(encode(original, 64))
    assert list(found) == list(original)
    for name, expected in original.items():
        assert (found[name].shape, found[name].dtype) == (expected.shape, expected.dtype), name
        if "norm" in name or name == "mask":
            np.testing.assert_array_equal(found[name], expected)
    trained = np.concatenate([found[name].reshape(-1) for name in ("w", "double", "scalar")])
    assert len(np.unique(trained)) <= 64


def test_sixty_four_centres_unless_said() -> None:
    weights = {"w": np.random.default_rng(0).normal(size=5000).astype(np.float32)}
    assert inspect(encode(weights)).centers == 64
    assert inspect(encode(weights, 7)).centers == 7
    with pytest.raises(ArgumentError, match="either k or bits"):
        encode(weights, 7, bits=2.0)


def test_a_budget_of_bits() -> None:
    weights = {"w": np.random.default_rng(0).normal(size=300_000).astype(np.float32)}
    report = inspect(encode(weights, bits=2.0))
    assert report.label_bits is not None
    assert report.label_bits == pytest.approx(2.0, rel=0.03)


def test_the_error_that_is_stored_is_the_error(rng: np.random.Generator) -> None:
    weights = rng.normal(size=10_000).astype(np.float32)
    data = encode({"w": weights}, 16)
    error = np.sum((decode(data)["w"] - weights).astype(np.float64) ** 2) / np.sum(weights.astype(np.float64) ** 2)
    assert inspect(data).error_db == pytest.approx(-10 * np.log10(error), rel=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.5])
def test_no_error_is_none(value: float) -> None:
    data = encode({"w": np.full(100, value, np.float32)})
    assert inspect(data).error_db is None
    np.testing.assert_array_equal(decode(data)["w"], np.full(100, value, np.float32))


def test_a_model_without_weights() -> None:
    original = {"running_var": np.ones(3, np.float32), "steps": np.array([1, -2])}
    data = encode(original)
    assert inspect(data).bits_per_weight is None
    for name, expected in original.items():
        np.testing.assert_array_equal(decode(data)[name], expected)


def test_nothing_at_all() -> None:
    assert decode(encode({})) == {}


def test_a_module_and_its_tensors() -> None:
    model = digits()
    found = decode(encode(model, 256), tensors=True)
    model.load_state_dict(found)
    assert found["norm1.num_batches_tracked"].dtype == torch.int64
    brain = decode(encode({"w": torch.ones(3, dtype=torch.bfloat16)}), tensors=True)["w"]
    assert brain.dtype == torch.bfloat16


def test_blocks_hide_nothing(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    original = {"w": rng.normal(size=1000).astype(np.float32)}
    whole = decode(encode(original))["w"]
    monkeypatch.setattr(label_blocks, "BLOCK", 64)
    np.testing.assert_array_equal(decode(encode(original))["w"], whole)


def test_very_few_bytes_for_many_weights() -> None:
    weights = np.zeros(20_000_000, np.float32)
    weights[5] = 1
    data = encode({"w": weights}, 2)
    assert len(data) < 30_000
    np.testing.assert_array_equal(decode(data)["w"], weights)


def test_numbers_that_are_none() -> None:
    with pytest.raises(NonFiniteError, match="'b'"):
        encode({"a": np.ones(3, np.float32), "b": np.array([1, np.nan], np.float32)})


def tampered(section: int, body: bytes) -> bytes:
    message = Message.from_bytes(encode({"w": np.arange(300.0, dtype=np.float32)}, 4))
    sections = dict(message.sections) | {section: body}
    return Message(MessageKind.MODEL, "", layout=message.layout, sections=sections).to_bytes()


@pytest.mark.parametrize(
    ("section", "body", "said"),
    [
        (Section.LABELS, b"", "cut short"),
        (Section.LABELS, b"\x01\x07", "way 7"),
        (Section.LABELS, b"\x4c\x01" + bytes(75) + b"\x00", "1 bytes too many"),
        (Section.CENTERS, b"", "1 to 65536 centres"),
        (Section.CENTERS, np.array([2, 1], "<f4").tobytes(), "ascending"),
        (Section.ERROR, np.array([np.nan], "<f4").tobytes(), "NaN"),
        (Section.ERROR, np.array([-1], "<f4").tobytes(), "error of -1"),
        (Section.STATISTICS, bytes(4), "0 floats"),
        (Section.COUNTERS, bytes(1), "1 bytes too many"),
        (Section.LAYOUT, b"\x00", "layout"),
        (200, b"", "sections"),
    ],
)
def test_sections_that_lie(section: int, body: bytes, said: str) -> None:
    with pytest.raises(MessageError, match=said):
        decode(tampered(section, body))


def test_another_kind_of_message() -> None:
    with pytest.raises(MessageError, match="hello"):
        decode(Message(MessageKind.HELLO, "fedcode").to_bytes())


def test_a_small_message_must_not_declare_a_large_model() -> None:
    layout = ModelFile.from_bytes(encode({"w": np.zeros(1 << 22, np.float32)})).layout
    message = Message(MessageKind.MODEL, "", layout=layout.fingerprint, sections={Section.LAYOUT: layout.to_bytes()})
    with pytest.raises(MessageError, match="a message of this size"):
        decode(message.to_bytes())


GOOD = encode({"w": np.random.default_rng(1).normal(size=400).astype(np.float32), "running_mean": np.ones(2)}, 8)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=4), st.integers(0, len(GOOD)))
def test_damage_is_an_error_of_the_tree(changes: list[tuple[int, int]], length: int) -> None:
    data = bytearray(GOOD)
    for place, byte in changes:
        data[place] = byte
    try:
        decode(bytes(data[:length]))
    except FedcodeError:
        return
    assert bytes(data[:length]) == GOOD


def test_no_torch_no_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(FedcodeError, match=r"pip install 'fedcode\[train\]'"):
        decode(GOOD, tensors=True)


def labelled(k: int, labels: list[int]) -> bytes:
    """A file of nine weights that has k centres, and labels that were packed for four."""
    message = Message.from_bytes(encode({"w": np.arange(9, dtype=np.float32)}, 4))
    body = b"\x01" + pack(np.array(labels, np.uint8), 4)
    sections = dict(message.sections) | {
        Section.CENTERS: np.arange(k, dtype="<f4").tobytes(),
        Section.LABELS: bytes((len(body),)) + body,
    }
    return Message(MessageKind.MODEL, "", layout=message.layout, sections=sections).to_bytes()


def test_a_k_that_lies_and_labels_out_of_range() -> None:
    assert decode(labelled(4, [3] * 9))["w"].tolist() == [3.0] * 9
    with pytest.raises(MessageError, match="a label is 3 where there are 3 centres"):
        decode(labelled(3, [0, 1, 2, 3, 0, 0, 0, 0, 0]))
    for k in (1, 2, 5, 300):
        with pytest.raises(MessageError, match=r"labels of .* take"):
            decode(labelled(k, [0] * 9))


def test_a_huge_declared_size_costs_nothing() -> None:
    data = encode({"w": np.arange(300, dtype=np.float32)}, 4)
    message = Message.from_bytes(data)
    for size in (1 << 21, 1 << 30, 1 << 40):
        layout = Layout((Entry("w", (size,), "float32", Kind.WEIGHT),))
        sections = dict(message.sections) | {Section.LAYOUT: layout.to_bytes()}
        lying = Message(MessageKind.MODEL, "", layout=layout.fingerprint, sections=sections).to_bytes()
        tracemalloc.start()
        try:
            with pytest.raises(MessageError, match=f"declares {size} values in {len(lying)} bytes"):
                decode(lying)
            assert tracemalloc.get_traced_memory()[1] < 1 << 18
        finally:
            tracemalloc.stop()
