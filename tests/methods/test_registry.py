"""Methods by name, and those that come from outside the package: by the decorator, by an entry point."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import fedcode
from fedcode import methods
from fedcode.accumulate import add
from fedcode.averaging import Averaging
from fedcode.base import Base
from fedcode.contract import Contract
from fedcode.ends import Broadcast, Incoming, Kept, Method, Reply, Sections, Start, Sums, Turn, check, read_counters
from fedcode.errors import ArgumentError, MessageError
from fedcode.rehearsal import Rehearsal
from fedcode.sections import encode_counters
from fedcode.state import State
from fedcode.wire import Message, MessageKind, Section


@dataclass(frozen=True, kw_only=True)
class Halves(Averaging):
    """Somebody else's method: the change comes back in half precision, `times` as long."""

    name: ClassVar[str] = "halves"
    lossless: ClassVar[frozenset[str]] = frozenset({"down"})

    times: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.times > 0, f"times must be above 0: got {self.times}")

    def broadcast(self, turn: Turn) -> Broadcast:
        return Broadcast(
            Base.of(turn.model), asks={"times": self.times}
        )  # a name that the wire format has no number for

    def fold(self, sums: Sums, reply: Reply) -> None:
        data = reply.message.section(200)
        assert reply.base is not None
        if len(data) != 2 * sums.layout.values:
            raise MessageError(f"{sums.layout.values} halves are expected, got {len(data)} bytes.")
        change = np.frombuffer(data, "<f2").astype(np.float32)
        if not np.isfinite(change).all():
            raise MessageError("a change is NaN or infinite.")
        counters = read_counters(reply.message, sums.layout)
        add(sums.vector(), change + reply.base.state.vector, reply.examples)
        sums.count(counters)

    def finish(self, turn: Turn, sums: Sums) -> State:
        return self.moved(turn, sums.mean())

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        change = incoming.asked("times", 0, 10) * (trained.vector - start.state.vector)
        return {200: change.astype("<f2").tobytes(), Section.COUNTERS: encode_counters(trained.counters)}, {}


@pytest.fixture
def halves() -> Iterator[type[Halves]]:
    yield fedcode.register(Halves)
    methods._registered.pop("halves")


class TestRegisteredByTheDecorator(Contract):
    @pytest.fixture
    def method(self, halves: type[Halves]) -> Method:
        return fedcode.method(halves.name, times=0.5)


MODULE = """
from dataclasses import dataclass
from fedcode.methods.fedavg import FedAvg

@dataclass(frozen=True, kw_only=True)
class Packaged(FedAvg):
    name = "packaged"
    flavour: str = "plain"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "some_methods.py").write_text(MODULE)
    about = tmp_path / "some_methods-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: some-methods\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[fedcode.methods]\npackaged = some_methods:Packaged\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    methods._entry_points.cache_clear()
    yield
    methods._entry_points.cache_clear()
    sys.modules.pop("some_methods", None)


@pytest.mark.usefixtures("package")
def test_a_package_brings_a_method_by_an_entry_point() -> None:
    assert "packaged" in methods.names()
    assert methods.options("packaged")["flavour"] == "plain"
    rehearsal = Rehearsal.of(fedcode.method("packaged", flavour="sweet"))
    rehearsal.rounds(2)
    assert Message.from_bytes(rehearsal.sent[0]).method == "packaged"


def test_a_message_of_a_method_that_this_end_does_not_have(halves: type[Halves]) -> None:
    message = Rehearsal.of(halves()).server.message_for("a")
    methods._registered.pop("halves")
    with pytest.raises(MessageError, match="a method that this end does not have: there is no method 'halves'"):
        fedcode.receive(message)
    methods._registered["halves"] = halves


def test_a_name_of_fedcodes_own_is_taken() -> None:
    class Mine(Halves):
        name = "fedavg"

    with pytest.raises(ArgumentError, match="'fedavg' is a method of fedcode's own"):
        fedcode.register(Mine)


def test_a_method_that_does_not_exist_is_told_with_those_that_do() -> None:
    with pytest.raises(ArgumentError, match=r"no method 'fedkode'; there are fedavg, .*Did you mean 'fedcode'"):
        fedcode.method("fedkode")


def test_a_setting_that_does_not_exist_is_told_with_those_that_do() -> None:
    with pytest.raises(ArgumentError, match=r"fedcode has no setting 'cluster'; it has clusters, .*mean 'clusters'"):
        fedcode.method("fedcode", cluster=3)
    with pytest.raises(ArgumentError, match="has no setting 'server_optimizer'"):
        fedcode.method("fedavg", server_optimizer="adam")


@pytest.mark.parametrize("name", methods.names())
def test_every_method_says_who_it_is(name: str) -> None:
    cls = methods.class_of(name)
    assert cls.name == name
    assert cls() == fedcode.method(name, **fedcode.method(name).settings())
    assert cls().replaced(**{}) == cls()
    assert cls.lossless <= {"down", "up"}
    assert cls.asks_of_training <= {"proximal", "mask"}
    message = Message(MessageKind.BROADCAST, name)
    assert methods.client_of(message.method) is cls
