"""A base has one name on every machine, and both ends expect the same labels of it."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedcode
from fedcode.arrays import encode_arrays
from fedcode.base import Base
from fedcode.base_message import read_base, write_base, write_labels
from fedcode.client import Memory
from fedcode.clustering import nearest
from fedcode.errors import ArgumentError, MessageError, WrongModelError
from fedcode.joined import join
from fedcode.layout import Entry, Kind, Layout
from fedcode.reader import Buffer
from fedcode.state import State, flatten
from fedcode.wire import NOTHING, Message, MessageKind, Section

LAYOUT = flatten({"w": np.zeros((6, 5), np.float32), "running_mean": np.zeros(3), "steps": np.array(0)}).layout


def base(seed: int, k: int = 4, codebook: bool = True) -> Base:
    rng = np.random.default_rng(seed)
    counters = np.array([seed], np.int64)
    if not codebook:
        return Base.of(State(LAYOUT, rng.normal(size=33).astype(np.float32), counters))
    centers = np.sort(rng.normal(size=k)).astype(np.float32)
    kind: Any = np.uint8 if k <= 256 else np.uint16
    return Base(LAYOUT, centers, rng.integers(0, k, 30).astype(kind), rng.normal(size=3).astype(np.float32), counters)


def same(one: Base, other: Base) -> None:
    assert one.digest == other.digest
    np.testing.assert_array_equal(one.state.vector, other.state.vector)
    np.testing.assert_array_equal(one.counters, other.counters)
    assert one.labels.dtype == other.labels.dtype


@pytest.mark.parametrize(("k", "codebook"), [(1, True), (2, True), (256, True), (257, True), (4096, True), (2, False)])
def test_it_comes_back_from_its_bytes_and_from_a_message(k: int, codebook: bool) -> None:
    ours = base(1, k, codebook)
    same(Base.from_bytes(ours.to_bytes(), LAYOUT), ours)
    for held in (None, base(2), base(3, codebook=False)):
        message = Message(MessageKind.BROADCAST, "", sections=write_base(ours, held))
        same(read_base(Message.from_bytes(message.to_bytes()), LAYOUT, held), ours)


def test_its_vector_is_its_centres_and_the_rest() -> None:
    ours = base(1)
    np.testing.assert_array_equal(ours.state.vector, np.concatenate([ours.centers[ours.labels], ours.rest]))
    for start in (0, 10, 30, 32):
        np.testing.assert_array_equal(ours.values_from(start), ours.state.vector[start:])


def test_the_digest_tells_apart_all_that_matters() -> None:
    ours = base(1)
    renamed = tuple(replace(entry, name=f"the {entry.name}") for entry in LAYOUT.entries)
    swapped = ours.labels.copy()
    swapped[0] ^= 1
    others = [
        ours,
        replace(ours, layout=Layout(renamed)),
        replace(ours, centers=np.nextafter(ours.centers, np.float32(9))),
        replace(ours, labels=swapped),
        replace(ours, rest=-ours.rest),
        replace(ours, counters=ours.counters + 1),
        Base.of(ours.state),  # the same weights, but another way to speak of them
    ]
    assert len({one.digest for one in others}) == len(others)
    assert base(1).digest == ours.digest


def floats() -> st.SearchStrategy[float]:
    return st.floats(-(2.0**100), 2.0**100, width=32)


@settings(deadline=None, max_examples=60)
@given(st.lists(floats(), min_size=1, max_size=9, unique=True), st.lists(floats(), min_size=1, max_size=9))
def test_what_is_expected_is_the_new_centre_nearest_to_the_old_value(old: list[float], new: list[float]) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, len(old), 30).astype(np.uint8)
    held = Base(LAYOUT, np.sort(np.array(old, np.float32)), labels, np.zeros(3, np.float32), np.zeros(1, np.int64))
    centers = np.sort(np.array(new, np.float32))
    found = held.predict(centers, 30)
    np.testing.assert_array_equal(found, nearest(held.state.vector[:30], centers))
    np.testing.assert_array_equal(found, Base.of(held.state).predict(centers, 30))
    np.testing.assert_array_equal(found[:7], held.predict(centers, 7))
    thresholds = (centers[1:].astype(np.float64) + centers[:-1]) / 2
    below = (thresholds[None, :] < held.state.vector[:30, None]).sum(1)
    np.testing.assert_array_equal(found, below)


def test_labels_as_expected_take_next_to_nothing() -> None:
    layout = flatten({"w": np.zeros((100, 400), np.float32)}).layout
    rng = np.random.default_rng(0)
    centers = np.sort(rng.normal(size=64)).astype(np.float32)
    labels = rng.integers(0, 64, 40_000).astype(np.uint8)
    held = Base(layout, centers, labels, np.empty(0, np.float32), np.empty(0, np.int64))
    assert len(write_labels(labels, centers, held, "context")) < 100
    assert len(write_labels(labels, centers, held, "entropy")) > 25_000
    assert len(write_labels(labels, centers, held, "packed")) == 30_001
    with pytest.raises(ArgumentError, match="labels must be one of packed, entropy, context: got 'zip'"):
        write_labels(labels, centers, held, "zip")


# ---- bytes that lie


def tampered(found: Base, **change: Any) -> bytes:
    message = Message.from_bytes(found.to_bytes())
    sections = {**message.sections, **change.pop("sections", {})}
    return replace(
        message, sections={tag: body for tag, body in sections.items() if body is not None}, **change
    ).to_bytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": MessageKind.MODEL}, "no base of this model"),
        ({"layout": b"another!"}, "no base of this model"),
        ({"gives": b"another!"}, "its digest does not fit"),
        ({"sections": {Section.VALUES: bytes(4 * 34)}}, "no base of this model"),
        ({"sections": {Section.VALUES: bytes(4 * 9)}}, "24 labels of 2 bits take 6 bytes, got 8"),
        ({"sections": {Section.VALUES: b"\0\0\xc0\x7f" * 3}}, "NaN or infinite"),
        ({"sections": {Section.CENTERS: None}}, "as many values as its model"),
        ({"sections": {Section.LABELS: None}}, "lacks its labels section"),
        ({"sections": {Section.CENTERS: b""}}, "1 to 65536 centres"),
        ({"sections": {Section.CENTERS: bytes(8)}}, "30 labels of 1 bits take 4 bytes, got 8"),
        ({"sections": {Section.COUNTERS: b"\0\0"}}, "1 bytes too many"),
        ({"sections": {Section.COUNTERS: b""}}, "counters"),
    ],
)
def test_lies_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(MessageError, match=said):
        Base.from_bytes(tampered(base(1), **change), LAYOUT)


HUGE = Layout((Entry("w", (1 << 33,), "float32", Kind.WEIGHT),))


def huge_base() -> bytes:
    """Labels of a single centre take no bytes, however many there are."""
    sections: dict[int, Buffer] = {
        Section.VALUES: b"",
        Section.COUNTERS: b"",
        Section.CENTERS: bytes(4),
        Section.LABELS: b"",
    }
    return Message(MessageKind.BASE, "", layout=HUGE.fingerprint, gives=b"whatever", sections=sections).to_bytes()


def memory(bases: list[bytes], layout: Layout) -> bytes:
    sections: dict[int, Buffer] = {
        Section.LAYOUT: layout.to_bytes(),
        Section.BASES: join(bases),
        Section.EXTRA: encode_arrays({}),
    }
    return Message(MessageKind.MEMORY, "fedavg", layout=layout.fingerprint, sections=sections).to_bytes()


def test_few_bytes_cannot_take_much_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MessageError, match="a message of this size may declare"):
            Base.from_bytes(huge_base(), HUGE)
        with pytest.raises(MessageError, match="a message of this size may declare"):
            Memory.from_bytes(memory([huge_base()], HUGE))
        with pytest.raises(MessageError, match="3 bases; a client keeps 2"):
            Memory.from_bytes(memory([base(1).to_bytes()] * 3, LAYOUT))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_large_model_of_one_value_is_no_lie() -> None:
    """Its bytes are padded so far that its reader believes them."""
    state = {"w": np.ones((3000, 1000), np.float32)}
    found = Base.of(flatten(state))
    constant = Base(
        found.layout, np.ones(1, np.float32), np.zeros(3_000_000, np.uint8), np.empty(0, np.float32), found.counters
    )
    data = constant.to_bytes()
    assert len(data) < 3000
    assert Base.from_bytes(data, found.layout).digest == constant.digest
    kept = Memory(NOTHING, "fedavg_ws", found.layout, {constant.digest: constant})
    back = Memory.from_bytes(kept.to_bytes())
    assert back.newest is not None
    assert back.newest.digest == constant.digest


def test_a_memory_comes_back_and_another_thing_is_refused() -> None:
    one, two = base(1), base(2, codebook=False)
    kept = {"residual": np.ones(3, np.float32)}
    ours = Memory(b"training", "delta", LAYOUT, {one.digest: one, two.digest: two}, kept, 7)
    back = Memory.from_bytes(ours.to_bytes())
    assert (back.federation, back.method, back.layout, back.round) == (b"training", "delta", LAYOUT, 7)
    assert list(back.bases) == [one.digest, two.digest]
    assert back.newest is back.bases[two.digest]
    np.testing.assert_array_equal(back.kept["residual"], kept["residual"])
    with pytest.raises(MessageError, match="a client's memory is expected, got a base message"):
        Memory.from_bytes(one.to_bytes())
    said = Message.from_bytes(ours.to_bytes())
    with pytest.raises(MessageError, match="fingerprint"):
        Memory.from_bytes(replace(said, layout=b"another!").to_bytes())


def test_a_client_with_a_damaged_memory_goes_on_as_one_without() -> None:
    state = {"w": np.arange(12, dtype=np.float32).reshape(3, 4)}
    server = fedcode.method("fedavg_ws", clusters=4).server(state)
    first = server.message_for("a")
    reply, kept = fedcode.reply(fedcode.receive(first), state, examples=1, client="a")
    damaged = bytearray(kept)
    damaged[-9] ^= 1
    assert fedcode.receive(first, bytes(damaged)).memory is None
    server.accept("a", reply)
    server.finish_round()
    with pytest.raises(fedcode.CannotUse) as caught:
        fedcode.receive(server.message_for("a"), bytes(damaged))
    server.accept("a", caught.value.reply)
    assert fedcode.receive(server.message_for("a"), bytes(damaged)).start.vector.size == 12


def test_a_message_about_another_model_is_told_apart() -> None:
    state, other = {"w": np.ones((3, 4), np.float32)}, {"w": np.ones((4, 3), np.float32)}
    server = fedcode.method("fedavg").server(state, federation=b"training")
    message = Message.from_bytes(server.message_for("a"))
    lying = replace(message, layout=flatten(other).layout.fingerprint).to_bytes()
    with pytest.raises(WrongModelError, match="fingerprint"):
        fedcode.receive(lying)
    task = fedcode.receive(server.message_for("a"))
    with pytest.raises(WrongModelError):
        fedcode.reply(task, other, examples=1, client="a")
    theirs = fedcode.method("fedavg").server(other, federation=b"training")
    answer, _ = fedcode.reply(fedcode.receive(theirs.message_for("a")), other, examples=1, client="a")
    with pytest.raises(WrongModelError, match="another model"):
        server.accept("a", answer)
