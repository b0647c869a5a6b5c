"""What methods are made of: running sums, what may be asked, settings."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import fedcode
from fedcode.base import Base
from fedcode.ends import Broadcast, Incoming, Method, Sums, Turn, check, read_counters
from fedcode.errors import ArgumentError, MessageError, RefusedError
from fedcode.layout import Layout
from fedcode.rehearsal import Rehearsal, models
from fedcode.wire import NOTHING, Message, MessageKind, Section

PLAIN = models()["plain"]


def incoming(**asks: float) -> Incoming:
    return Incoming(Message(MessageKind.BROADCAST, "delta", asks=asks), Layout(()), None, {})


def test_what_is_asked_lies_within_its_bounds() -> None:
    assert incoming(bits=2.0).asked("bits", 0, 6) == 2.0
    assert incoming().asked("bits", 0, 6, 1.5) == 1.5
    for said in (incoming(bits=7.0), incoming(bits=-1.0), incoming()):
        with pytest.raises(MessageError, match=r"asks for bits of .*; from 0 to 6 can be done"):
            said.asked("bits", 0, 6)


def test_sums_begin_at_zero_and_are_weighted() -> None:
    sums = Sums(PLAIN.layout)
    assert sums.vector().size == PLAIN.layout.values
    assert sums.vector("other", 3).tolist() == [0, 0, 0]
    sums.vector("other")[:] += 6
    sums.examples = 4
    assert sums.mean("other").tolist() == [1.5, 1.5, 1.5]
    assert sums.vector().dtype == np.float64


def test_counters_merge_by_their_maximum() -> None:
    sums = Sums(PLAIN.layout)
    sums.count(None)
    before = sums.counters
    assert before is None
    sums.count(np.array([3, 9]))
    sums.count(None)
    sums.count(np.array([5, 1]))
    assert sums.counters is not None
    assert sums.counters.tolist() == [5, 9]


def test_a_message_without_counters_has_none() -> None:
    said = Message(MessageKind.REPLY, "fedavg")
    assert read_counters(said, PLAIN.layout) is None
    with pytest.raises(MessageError):
        read_counters(Message(MessageKind.REPLY, "fedavg", sections={Section.COUNTERS: b""}), PLAIN.layout)


def test_check_says_what_was_wrong() -> None:
    check(True, "nothing")
    with pytest.raises(ArgumentError, match=r"^K must be 2 or more: got 1\.$"):
        check(False, "K must be 2 or more: got 1")


def test_settings_are_shown_by_the_names_that_they_are_given_by() -> None:
    settings = fedcode.method("delta", server="adam", bits=3).settings()
    assert settings["server"] == "adam"
    assert "server_optimizer" not in settings
    assert fedcode.method("delta", **settings) == fedcode.method("delta", server="adam", bits=3)


def test_a_method_can_be_had_with_other_settings() -> None:
    method = fedcode.method("fedcode")
    other = method.replaced(clusters=8)
    assert (method.settings()["clusters"], other.settings()["clusters"]) == (64, 8)
    with pytest.raises(ArgumentError):
        method.replaced(clusters=1)


@pytest.mark.parametrize("name", ["delta", "gtopk", "mucsc", "stc"])
def test_a_change_of_another_rounds_model_is_refused(name: str) -> None:
    rehearsal = Rehearsal.of(fedcode.method(name))
    rehearsal.rounds(1)
    old, said = Message.from_bytes(rehearsal.came[0]), Message.from_bytes(rehearsal.answer("a"))
    assert old.base in rehearsal.server.bases
    with pytest.raises(RefusedError, match="the change that a sent is not from this round's model"):
        rehearsal.server.accept("a", dataclasses.replace(said, base=old.base).to_bytes())
    assert rehearsal.server.accept("a", said.to_bytes())


@dataclass(frozen=True, kw_only=True)
class Bare(Method):
    name: ClassVar[str] = "bare"


def test_a_method_says_what_it_has_to_say_itself() -> None:
    turn = Turn(1, PLAIN, None, {}, np.random.default_rng(0))
    bare = Bare()
    broadcast = Broadcast(Base.of(PLAIN))
    assert bare.open(PLAIN) == {}
    assert bare.paper_bits(Message(MessageKind.REPLY, "bare"), PLAIN.layout) is None
    assert set(bare.sections(broadcast, None)) == {Section.VALUES, Section.COUNTERS}
    for call in (lambda: bare.broadcast(turn), lambda: bare.finish(turn, Sums(PLAIN.layout))):
        with pytest.raises(NotImplementedError):
            call()


def test_a_change_is_sent_to_those_who_hold_what_it_is_a_change_of() -> None:
    base = Base.of(PLAIN)
    change: dict[int, bytes | bytearray | memoryview] = {Section.CHANGES: b"what changed"}
    broadcast = Broadcast(base, follows=base.digest, change=change)
    assert Bare().sections(broadcast, base) == change
    assert Section.CHANGES not in Bare().sections(broadcast, None)
    assert Section.CHANGES not in Bare().sections(Broadcast(base, follows=NOTHING), base)
