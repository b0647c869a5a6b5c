"""A message and its bytes: all of the header comes back, it is small, and bytes that lie are refused."""

from __future__ import annotations

import ast
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedcode
from fedcode.errors import ArgumentError, MessageError
from fedcode.reader import varint
from fedcode.wire import ASKS, MAGIC, NOTHING, Message, MessageKind, Section, peek
from tests.damage import seal

GOOD = Message(
    MessageKind.REPLY,
    "fedcode",
    round=300,
    federation=b"training",
    layout=b"12345678",
    base=b"the base",
    gives=b"and this",
    accepted=299,
    seed=2**32 - 1,
    examples=4956,
    asks={"clusters": 64, "bits": 2.5, "mine": 0.0, "negative": -3},
    sections={Section.CENTERS: bytes(8), Section.LABELS: b"\x01\x02", 200: b""},
)


def test_all_of_a_message_comes_back() -> None:
    back = Message.from_bytes(GOOD.to_bytes())
    assert back == GOOD
    assert list(back.sections) == list(GOOD.sections)
    assert list(back.asks) == list(GOOD.asks)


def ids() -> st.SearchStrategy[bytes]:
    return st.binary(min_size=8, max_size=8)


def counts() -> st.SearchStrategy[int]:
    return st.integers(0, 2**63 - 1)


@settings(deadline=None)
@given(
    st.builds(
        Message,
        st.sampled_from(MessageKind),
        st.text(st.characters(codec="ascii"), max_size=64),
        counts(),
        ids(),
        ids(),
        ids(),
        ids(),
        counts(),
        st.integers(0, 2**32 - 1),
        counts(),
        st.dictionaries(
            st.sampled_from(ASKS[1:]) | st.text(st.characters(codec="ascii"), max_size=64),
            st.integers(0, 2**62 - 1) | st.floats(allow_nan=False, allow_infinity=False),
            max_size=6,
        ),
        st.dictionaries(st.integers(0, 255), st.binary(max_size=300), max_size=6),
    )
)
def test_any_message_comes_back(message: Message) -> None:
    data = message.to_bytes()
    assert Message.from_bytes(data) == message
    assert Message.from_bytes(bytearray(data)) == message
    assert b"".join(message.parts()) == data
    assert peek(data) == (message.kind, message.federation)


def test_sections_are_not_copied() -> None:
    data = bytearray(GOOD.to_bytes())
    section = Message.from_bytes(data).section(Section.CENTERS)
    data[-7] = 7  # before two bytes of labels and the checksum
    assert section[7] == 7


def server(clusters: int = 64) -> Any:
    weights = np.random.default_rng(0).normal(size=(100, 300)).astype(np.float32)
    method = fedcode.method("fedcode", clusters=clusters, downlink=0, uplink=0, start=1)
    return method.server({"w": weights, "norm.running_var": np.ones(7, np.float32), "steps": np.array(10**6)})


def test_a_codebook_message_has_at_most_80_bytes_beside_its_codebook() -> None:
    ends, memory = server(), None
    for number in (1, 2, 3):
        down = ends.message_for("client-3")
        task = fedcode.receive(down, memory)
        up, memory = fedcode.reply(task, task.start, examples=10**9, client="client-3")
        ends.accept("client-3", up)
        ends.finish_round()
        if number == 1:
            ends.round = 10**6  # late rounds take longer numbers
            ends._begin()
    for message in (down, up):
        assert set(Message.from_bytes(message).sections) == {Section.CENTERS}
        assert len(Message.from_bytes(message).section(Section.CENTERS)) == 256
        assert len(message) <= 256 + 80


def test_messages_of_whole_models_carry_the_layout_and_others_do_not() -> None:
    ends = server()
    down = ends.message_for("client-3")
    assert Section.LAYOUT in Message.from_bytes(down).sections
    assert Section.LAYOUT in Message.from_bytes(ends.message_for("client-3", evaluate=True)).sections
    task = fedcode.receive(down)
    up, _ = fedcode.reply(task, task.start, examples=1, client="client-3")
    ends.accept("client-3", up)
    ends.finish_round()
    assert Section.LAYOUT not in Message.from_bytes(ends.message_for("client-3")).sections
    assert Section.LAYOUT in Message.from_bytes(ends.message_for("client-4")).sections


def test_nothing_in_the_package_unpickles() -> None:
    """Only a worker's process is spoken to in pickle, which is the same program on the same machine."""
    package = Path(fedcode.__file__).parent
    loads = {"loads", "load", "Unpickler"}
    for file in sorted(package.rglob("*.py")):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in loads:
                assert node.value.id not in ("pickle", "torch", "marshal", "shelve", "dill"), file
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant)
                assert node.value.value is False, file


# ---- bytes that lie

HEAD = struct.Struct("<3sBB8s8s8s8sI")


def lying(
    *,
    magic: bytes = MAGIC,
    version: int = 1,
    kind: int = 1,
    method: bytes = b"\x07fedcode",
    numbers: bytes = b"\x01\x00\x00",
    asks: bytes = b"\x00",
    sections: bytes = b"\x00",
    end: bytes = b"",
) -> bytes:
    """A message that may say anything, with the right checksum."""
    head = HEAD.pack(magic, version, kind, NOTHING, NOTHING, NOTHING, NOTHING, 0)
    return seal(head + method + numbers + asks + sections + end + bytes(4))


def test_what_is_true_is_read() -> None:
    assert Message.from_bytes(lying()) == Message(MessageKind.BROADCAST, "fedcode", round=1)


LONG = b"\xff" * 9 + b"\x01"  # 2^64 - 1


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "0 bytes are too few"),
        (GOOD.to_bytes()[:40], "40 bytes are too few"),
        (lying(magic=b"PK\x03"), r"it begins with b'PK\\x03', not with"),
        (lying(version=2), "format version 2; this release reads 1"),
        (lying(kind=0), "of kind 0"),
        (lying(kind=10), "of kind 10"),
        (lying(method=b"\x41" + b"x" * 65), "holds 65 where at most 64"),
        (lying(method=b"\x02\xff\xff"), "not UTF-8"),
        (lying(numbers=LONG + b"\x00\x00"), "where at most 9223372036854775807"),
        (lying(numbers=b"\xff" * 10 + b"\x01\x00\x00"), "a number longer than 64 bits"),
        (lying(numbers=b"\x80\x00\x00\x00"), "in more bytes than it needs"),
        (lying(asks=b"\x41"), "holds 65 where at most 64"),
        (lying(asks=b"\x01" + varint(len(ASKS)) + b"\x00"), "where at most 16"),
        (lying(asks=b"\x02\x02\x02\x02\x04"), "asks for clusters twice"),
        (lying(asks=b"\x01\x02\x03"), "writes clusters in a form that does not exist"),
        (lying(asks=b"\x01\x02\x01" + struct.pack("<d", float("nan"))), "asks for clusters of nan"),
        (lying(asks=b"\x01\x02\x01" + struct.pack("<d", float("-inf"))), "asks for clusters of -inf"),
        (lying(asks=b"\x01\x02\x01\x00"), "cut short"),
        (lying(sections=b"\x41"), "holds 65 where at most 64"),
        (lying(sections=b"\x01\x03\x05", end=b"four"), "5 bytes expected at byte 56, 4 are there"),
        (lying(sections=b"\x01\x03" + LONG), "18446744073709551615 bytes expected"),
        (lying(sections=b"\x02\x03\x00\x03\x00"), "holds section 3 twice"),
        (lying(sections=b"\x01\x03\x02", end=b"four"), "2 bytes too many at its end"),
        (lying(end=b"\x00"), "1 bytes too many at its end"),
        (GOOD.to_bytes() + b"\x00", "its checksum does not fit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_lies_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(MessageError, match=said):
        Message.from_bytes(data)


def test_every_cut_and_every_flipped_bit_is_seen() -> None:
    data = GOOD.to_bytes()
    for length in range(len(data)):
        with pytest.raises(MessageError):
            Message.from_bytes(data[:length])
    for place in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises(MessageError):
            Message.from_bytes(flipped)


@pytest.mark.parametrize("data", ["text", 3, None, [1, 2]])
def test_what_is_no_bytes_is_an_error_of_the_caller(data: Any) -> None:
    with pytest.raises(ArgumentError, match="a message is read from bytes, got"):
        Message.from_bytes(data)


def test_a_section_that_is_missing_is_named() -> None:
    with pytest.raises(MessageError, match="the reply message of fedcode lacks its scales section"):
        GOOD.section(Section.SCALES)
    with pytest.raises(MessageError, match="lacks its 201 section"):
        GOOD.section(201)


@pytest.mark.parametrize("data", [b"", b"\x93FC", b"PK" * 30, HEAD.pack(MAGIC, 1, 77, *[NOTHING] * 4, 0)])
def test_a_first_look_is_as_careful(data: bytes) -> None:
    with pytest.raises(MessageError):
        peek(data)
