"""The contract's tests of what sections hold find methods that do not look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import fedcode
from fedcode import methods
from fedcode.accumulate import add
from fedcode.contract import Contract
from fedcode.ends import Incoming, Kept, Method, Reply, Sections, Start, Sums, read_counters
from fedcode.errors import MessageError
from fedcode.methods.fedavg import FedAvg
from fedcode.sections import decode_values, encode_counters
from fedcode.state import State
from fedcode.tampering import outcome, wrong_lengths
from fedcode.wire import Message, MessageKind, Section


@dataclass(frozen=True, kw_only=True)
class Careless(FedAvg):
    """Replies in half precision, whatever their length: numpy spreads one value over the whole model."""

    name: ClassVar[str] = "careless"
    lossless: ClassVar[frozenset[str]] = frozenset({"down"})

    def fold(self, sums: Sums, reply: Reply) -> None:
        body = reply.message.section(Section.VALUES)
        halves = np.frombuffer(body, "<f2", len(body) // 2)
        if halves.size not in (1, sums.layout.values):  # what numpy itself would say, but as it should be said
            raise MessageError(f"{sums.layout.values} values are expected, got {halves.size}.")
        counters = read_counters(reply.message, sums.layout)
        add(sums.vector(), halves.astype(np.float32), reply.examples)
        sums.count(counters)

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        values = trained.vector.astype("<f2").tobytes()
        return {Section.VALUES: values, Section.COUNTERS: encode_counters(trained.counters)}, {}


class Raw(Careless):
    """An error of numpy's where one of fedcode's is due."""

    name = "raw"

    def fold(self, sums: Sums, reply: Reply) -> None:
        halves = np.frombuffer(reply.message.section(Section.VALUES), "<f2")
        add(sums.vector(), halves.astype(np.float32), reply.examples)
        sums.count(read_counters(reply.message, sums.layout))


class Hasty(FedAvg):
    """The values are in the sums before the counters are looked at."""

    name = "hasty"

    def fold(self, sums: Sums, reply: Reply) -> None:
        values = decode_values(reply.message.section(Section.VALUES), sums.layout.values)
        add(sums.vector(), values, reply.examples)
        sums.count(read_counters(reply.message, sums.layout))


class Spread(FedAvg):
    """A client that spreads one value over its whole start."""

    name = "spread"

    @staticmethod
    def receive(incoming: Incoming) -> Start:
        start = FedAvg.receive(incoming) if incoming.message.kind == MessageKind.EVALUATE else None
        body = incoming.message.section(Section.VALUES)
        values = np.frombuffer(body, "<f4", len(body) // 4)
        counters = read_counters(incoming.message, incoming.layout)
        if start is not None or values.size not in (1, incoming.layout.values) or counters is None:
            return start or FedAvg.receive(incoming)
        return Start(State(incoming.layout, values + np.zeros(incoming.layout.values, np.float32), counters), None)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    classes = (Careless, Raw, Hasty, Spread)
    for cls in classes:
        fedcode.register(cls)
    yield
    for cls in classes:
        methods._registered.pop(cls.name)


FINDS: list[tuple[type[Method], str, str]] = [
    (Careless, "a_server_refuses_a_section_of_a_wrong_length_and_is_as_before", "VALUES cut to 2 bytes: it was taken"),
    (Careless, "numbers_that_are_none_get_nowhere", "VALUES with all bits set: the model is NaN or infinite"),
    (Raw, "a_server_refuses_a_section_of_a_wrong_length_and_is_as_before", "emptied: a FedcodeError was to be raised"),
    (Hasty, "a_server_refuses_a_section_of_a_wrong_length_and_is_as_before", "left something in the sums"),
    (Spread, "a_client_refuses_a_section_of_a_wrong_length", "VALUES cut to 4 bytes: it was taken"),
    (Spread, "numbers_that_are_none_get_nowhere", "VALUES with all bits set: trained from NaN or infinity"),
]


@pytest.mark.parametrize(("cls", "test", "says"), FINDS, ids=[f"{cls.name}-{test}" for cls, test, _ in FINDS])
def test_a_method_that_does_not_look_is_found(cls: type[Method], test: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        getattr(Contract(), f"test_{test}")(cls())


def test_one_section_is_spoilt_at_a_time_and_the_message_stays_one() -> None:
    bodies = {Section.VALUES: bytes(12), Section.COUNTERS: b"", Section.CENTERS: bytes(8), Section.PADDING: bytes(4)}
    sections = {int(tag): body for tag, body in bodies.items()}
    good = Message(MessageKind.REPLY, "mine", sections=sections)
    spoilt = dict(wrong_lengths(good.to_bytes()))
    for what, data in spoilt.items():
        said = {tag: bytes(body) for tag, body in Message.from_bytes(data).sections.items()}
        other = [Section(tag).name for tag in sections if said[tag] != sections[tag]]
        assert other == [what.split()[0]]
    assert {what for what in spoilt if "CENTERS" in what} == {
        *(f"CENTERS cut to {size} bytes" for size in (1, 2, 7)),
        "CENTERS emptied",
        "CENTERS doubled",
    }


def test_an_error_of_another_kind_is_no_refusal() -> None:
    def refuse() -> None:
        raise MessageError("no.")

    assert outcome("a", refuse) is None
    with pytest.raises(AssertionError, match=r"a: a FedcodeError was to be raised, not ZeroDivisionError"):
        outcome("a", lambda: 1 / 0)
