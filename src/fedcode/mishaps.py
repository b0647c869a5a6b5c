"""What every method must withstand: clients that come and go, and replies that must be refused."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np

from fedcode.client import receive, reply
from fedcode.ends import Method
from fedcode.errors import ArgumentError, FedcodeError, MessageError, RefusedError, WrongModelError
from fedcode.ledger import Ledger, fedavg_sizes
from fedcode.rehearsal import Rehearsal, models, moved, same
from fedcode.server import Server
from fedcode.wire import Message, MessageKind

E = TypeVar("E", bound=FedcodeError)


class Mishaps:
    """The part of the contract in which something goes wrong; see `fedcode.contract`."""

    # ---- clients come and go

    def test_a_client_that_joins_late(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(3)
        task = receive(rehearsal.server.message_for("new"))
        data, memory = reply(task, moved(task, "new"), examples=5, client="new")
        assert rehearsal.server.accept("new", data)
        rehearsal.memories["new"] = memory
        rehearsal.round(["a", "b"])
        rehearsal.rounds(2, ["a", "new"])

    def test_a_client_that_missed_rounds(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(2)
        rehearsal.rounds(3, "bc")
        receive(rehearsal.server.message_for("a"), rehearsal.memories["a"])  # at once, without a repair
        rehearsal.rounds(2)

    def test_a_client_that_missed_rounds_trains_from_the_same_model(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(2)
        rehearsal.rounds(2, "bc")
        stale, fresh = rehearsal.task("a"), rehearsal.task("b")
        if fresh.received.base is not None:
            assert same(stale.start, fresh.start)

    def test_a_client_that_lost_or_damaged_its_memory_is_repaired_in_the_same_round(self, method: Method) -> None:
        rehearsal, foreign = Rehearsal.of(method), Rehearsal.of(method, federation=b"another!")
        rehearsal.rounds(2)
        foreign.rounds(2)
        memory = rehearsal.memories["b"]
        rehearsal.forget("a")
        rehearsal.memories["b"] = memory[: len(memory) // 2] + b"?" + memory[len(memory) // 2 + 1 :]
        rehearsal.memories["c"] = foreign.memories["c"]
        before = len(rehearsal.sent)
        rehearsal.round()
        assert len(rehearsal.sent) - before <= 6
        assert rehearsal.server.round == 4
        rehearsal.rounds(1)

    def test_a_message_that_was_lost(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(2)
        rehearsal.server.message_for("a")
        rehearsal.round("bc")
        receive(rehearsal.server.message_for("a"), rehearsal.memories["a"])
        rehearsal.rounds(2)

    def test_a_reply_that_was_lost(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        for number in range(6):
            if number % 2:
                rehearsal.answer("a")  # the client has a new memory and the server knows nothing of it
                rehearsal.round("bc")
            else:
                rehearsal.round()
            receive(rehearsal.server.message_for("a"), rehearsal.memories["a"])  # it goes on without a repair

    def test_a_crash_before_the_reply_loses_nothing(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(2)
        message, memory = rehearsal.server.message_for("a"), rehearsal.memories["a"]
        replies = []
        for _ in range(2):
            task = receive(message, memory)
            replies.append(reply(task, moved(task, "a"), examples=9, client="a"))
        assert replies[0] == replies[1]

    def test_bases_beyond_the_ring_are_forgotten_and_their_clients_served(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method, ring_bytes=1)
        rehearsal.rounds(2)
        rehearsal.rounds(3, "bc")
        assert len(rehearsal.server.bases) <= 1
        receive(rehearsal.server.message_for("a"), rehearsal.memories["a"])
        rehearsal.rounds(2)

    # ---- what must be refused

    def test_a_round_without_a_valid_reply_leaves_the_model_as_it_was(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(2)
        before = rehearsal.server.model
        rehearsal.answer("a")
        raises(FedcodeError, lambda: rehearsal.server.accept("a", b"nothing"))
        report = rehearsal.server.finish_round()
        assert report.empty
        assert report.refused == {"MessageError": 1}
        assert same(rehearsal.server.model, before)
        assert rehearsal.server.finish_round().empty  # nor does one in which no message left
        assert same(rehearsal.server.model, before)
        rehearsal.rounds(2)

    def test_replies_that_do_not_belong_here_are_refused_and_change_nothing(self, method: Method) -> None:
        rehearsal, other = Rehearsal.of(method), Rehearsal.of(method, models()["no normalisation"])
        rehearsal.rounds(1)
        other.rounds(1)
        late = rehearsal.answer("c")
        rehearsal.round("ab")
        good = rehearsal.answer("a")
        rehearsal.server.message_for("b")
        said = Message.from_bytes(good)

        def changed(**header: object) -> bytes:
            return dataclasses.replace(said, **header).to_bytes()  # type: ignore[arg-type]

        hostile: list[tuple[bytes, type[FedcodeError]]] = [
            (b"", MessageError),
            (good[:-1], MessageError),
            (good + b"x", MessageError),
            (late, RefusedError),
            (other.answer("a"), WrongModelError),
            (changed(federation=b"another!"), RefusedError),
            (changed(method="another"), RefusedError),
            (changed(kind=MessageKind.MEMORY), RefusedError),
            (changed(examples=0), RefusedError),
            (changed(examples=10**10), RefusedError),
            (changed(base=b"no base!"), RefusedError),
            (rehearsal.server.message_for("b"), RefusedError),
        ]
        if said.sections:
            hostile.append((changed(sections={}), FedcodeError))
        for data, error in hostile:
            raises(error, partial(rehearsal.server.accept, "b", data))
        raises(RefusedError, lambda: rehearsal.server.accept("nobody", good))
        assert rehearsal.server.accept("a", good)
        twin = Rehearsal.of(method)
        twin.rounds(1)
        twin.answer("c")
        twin.round("ab")
        twin.server.accept("a", twin.answer("a"))
        report = rehearsal.server.finish_round()
        twin.server.finish_round()
        assert report.replies == 1
        assert sum(report.refused.values()) == len(hostile) + 1
        assert same(rehearsal.server.model, twin.server.model)

    def test_damaged_replies_are_refused_whole_or_taken(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(2)
        good, checkpoint = rehearsal.answer("a"), rehearsal.server.to_bytes()
        rng = np.random.default_rng(11)
        for _ in range(30):
            server: Server = method.restore(checkpoint)
            server.message_for("a")
            data = bytearray(good)
            data[rng.integers(41, len(good) - 4)] ^= 1 << int(rng.integers(8))
            data[-4:] = zlib.crc32(data[:-4]).to_bytes(4, "little")
            try:
                server.accept("a", bytes(data))
            except FedcodeError:
                assert server.finish_round().empty
                assert same(server.model, rehearsal.server.model)
            else:
                server.finish_round()
                assert np.isfinite(server.model.vector).all()

    def test_replies_that_make_no_sense_are_counted_by_their_bytes(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(1)
        ledger = Ledger(rehearsal.server.layout, method, fedavg_sizes(rehearsal.server.model))
        said = Message.from_bytes(rehearsal.answer("a"))
        for tag in said.sections:
            rest = {other: body for other, body in said.sections.items() if other != tag}
            for sections in (rest, {**rest, tag: b""}, {**rest, tag: b"\x07nonsense"}):
                data = dataclasses.replace(said, sections=sections).to_bytes()
                ledger.came("a", data)
                traffic = ledger.finish_round()
                assert traffic.bytes["up"] == len(data)
                assert (traffic.paper_bits["up"] or 0) >= 0

    def test_a_client_refuses_what_is_not_for_it(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(1)
        message = rehearsal.server.message_for("a")
        raises(MessageError, lambda: receive(message[:-1], rehearsal.memories["a"]))
        raises(MessageError, lambda: receive(rehearsal.came[0]))
        raises(MessageError, lambda: receive(rehearsal.server.hello()))
        task = rehearsal.task("a")
        raises(ArgumentError, lambda: reply(task, moved(task, "a"), examples=0, client="a"))
        raises(WrongModelError, lambda: reply(task, models()["tied"], examples=1, client="a"))
        broken = moved(task, "a")
        broken.vector[3] = np.nan
        raises(ArgumentError, lambda: reply(task, broken, examples=1, client="a"))


def raises(kind: type[E], work: Callable[[], object]) -> E:
    """The error of this kind that `work` raises."""
    found: E | None = None
    try:
        work()
    except kind as error:
        found = error
    assert found is not None, f"{kind.__name__} was to be raised, and nothing was"
    assert str(found).endswith("."), f"an error's message is a sentence: {found}"
    return found
