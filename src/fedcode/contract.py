"""What every method must keep to, as tests that any method can be put through, one from outside the package too.

    class TestMine(Contract):
        @pytest.fixture
        def method(self) -> Method:
            return fedcode.method("mine", clusters=8)

pytest then runs every test below over it: with small models, clients that move their weights at random in place of
training, and carriers that lose, repeat, exchange and damage what they carry.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np

from fedcode.client import memory_of, receive, reply
from fedcode.ends import Method
from fedcode.errors import ArgumentError, CannotUse, FedcodeError, MessageError, RefusedError, WrongModelError
from fedcode.ledger import Ledger, fedavg_sizes
from fedcode.rehearsal import Rehearsal, models, moved, same, sample
from fedcode.server import Server
from fedcode.state import State
from fedcode.wire import NOTHING, Message, MessageKind

_E = TypeVar("_E", bound=FedcodeError)

A_HEADER = 200  # bytes, with all that may be asked


class Contract:
    """Tests for one method; a subclass has a fixture `method`."""

    # ---- what arrives

    def test_what_claims_to_be_lossless_arrives_bit_for_bit(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(2)
        task = rehearsal.task("a")
        if "down" in method.lossless:
            assert same(task.start, rehearsal.server.model)
        if "up" in method.lossless and method.settings().get("server", "none") == "none":
            trained = moved(task, "a")
            data, _ = reply(task, trained, examples=7, client="a")
            rehearsal.server.accept("a", data)
            rehearsal.server.finish_round()
            assert same(rehearsal.server.model, trained)

    def test_everybody_with_the_same_base_trains_from_the_same_model(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(1)
        one, other = rehearsal.task("a"), rehearsal.task("b")
        if one.received.base is not None:
            assert same(one.start, other.start)

    def test_how_labels_are_coded_changes_nothing_that_arrives(self, method: Method) -> None:
        if "labels" not in method.settings():
            return
        ends = [Rehearsal.of(method.replaced(labels=labels)) for labels in ("packed", "entropy", "context")]
        for rehearsal in ends:
            rehearsal.rounds(3)
        assert same(ends[0].server.model, ends[1].server.model)
        assert same(ends[0].server.model, ends[2].server.model)

    def test_all_kinds_of_models_pass_through(self, method: Method) -> None:
        for name, model in models().items():
            rehearsal = Rehearsal.of(method, model)
            rehearsal.rounds(3)
            got = rehearsal.server.model
            assert got.layout == model.layout, name
            assert np.isfinite(got.vector).all(), name
            assert not same(got, model), f"{name}: three rounds changed nothing"
            assert (got.counters > model.counters).all(), f"{name}: nothing was counted"
            assert (got.counters <= model.counters + 3).all(), name
            variances = [got.vector[place] for entry, place in got.layout.statistics if entry.name.endswith("_var")]
            assert all((part > 0).all() for part in variances), name
            assert got.arrays().keys() == {entry.name for entry in model.layout.entries}, name

    # ---- what it costs

    def test_bytes_are_what_the_ledger_says(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        start = rehearsal.server.model
        ledger = Ledger(start.layout, method, fedavg_sizes(start))
        for _ in range(3):
            passed = len(rehearsal.sent), len(rehearsal.came)
            rehearsal.round()
            down, up = rehearsal.sent[passed[0] :], rehearsal.came[passed[1] :]
            for name, message, answer in zip("abc", down, up, strict=True):
                ledger.sent(name, message)
                ledger.came(name, answer)
            asked = rehearsal.server.message_for("a", evaluate=True)
            ledger.evaluated("a", asked)
            traffic = ledger.finish_round()
            expected = {"down": sum(map(len, down)), "up": sum(map(len, up)), "evaluate": len(asked)}
            assert traffic.bytes == expected
            assert traffic.messages == {"down": 3, "up": 3, "evaluate": 1}
            assert {name: count["up"] for name, count in traffic.per_client.items()} == {
                name: len(answer) for name, answer in zip("abc", up, strict=True)
            }
            assert all(count is None or count >= 0 for count in traffic.paper_bits.values())

    def test_one_encoding_serves_all_who_stand_alike(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        assert rehearsal.server.message_for("a") is rehearsal.server.message_for("b")
        rehearsal.round()
        assert rehearsal.server.message_for("a") is rehearsal.server.message_for("b")

    # ---- the same again

    def test_the_same_seed_gives_the_same_bytes(self, method: Method) -> None:
        one, other = Rehearsal.of(method, seed=3), Rehearsal.of(method, seed=3)
        one.rounds(3)
        other.rounds(3)
        assert (one.sent, one.came) == (other.sent, other.came)
        assert same(one.server.model, other.server.model)

    def test_ends_restored_from_bytes_go_on_identically(self, method: Method) -> None:
        one, other = Rehearsal.of(method), Rehearsal.of(method)
        for number in range(5):
            clients = "abc" if number != 2 else "bc"
            one.round(clients)
            other.round(clients)
            data = other.server.to_bytes()
            other.server = method.restore(data)
            assert other.server.to_bytes() == data
        assert (one.sent, one.came, one.memories) == (other.sent, other.came, other.memories)
        assert same(one.server.model, other.server.model)

    def test_a_checkpoint_of_other_settings_is_not_gone_on_with(self, method: Method) -> None:
        data = Rehearsal.of(method).server.to_bytes()
        spoilt = dataclasses.replace(Message.from_bytes(data), method="another").to_bytes()
        _raises(ArgumentError, lambda: method.restore(spoilt))
        _raises(MessageError, lambda: method.restore(data[:-9]))

    def test_replies_in_any_order_and_repeated_give_the_same_model(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.round()
        replies = {client: rehearsal.answer(client) for client in "abc"}
        checkpoint = rehearsal.server.to_bytes()

        def folded(order: str) -> State:
            server: Server = method.restore(checkpoint)
            for client in order:
                server.message_for(client)
            for index, client in enumerate(order):
                assert server.accept(client, replies[client]) is (client not in order[:index])
            assert server.finish_round().replies == 3
            return server.model

        expected = folded("abc")
        assert same(folded("aabbaccb"), expected)
        for order in ("cba", "bac"):
            np.testing.assert_allclose(folded(order).vector, expected.vector, rtol=1e-5, atol=1e-7)

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

    # ---- what is there beforehand

    def test_weights_that_are_known_beforehand_are_not_sent(self, method: Method) -> None:
        model = models()["plain"]
        rehearsal = Rehearsal.of(method, model, known=True)
        rehearsal.memories = dict.fromkeys("ab", memory_of(model))
        message = rehearsal.server.message_for("a")
        assert len(message) < A_HEADER
        assert same(receive(message, rehearsal.memories["a"]).start, model)
        error = _raises(CannotUse, lambda: receive(message))
        assert not rehearsal.server.accept("c", error.reply)
        assert same(receive(rehearsal.server.message_for("c")).start, model)
        rehearsal.rounds(3)
        data = rehearsal.server.to_bytes()
        assert method.restore(data).to_bytes() == data

    # ---- what must be refused

    def test_a_round_without_a_valid_reply_leaves_the_model_as_it_was(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(2)
        before = rehearsal.server.model
        rehearsal.answer("a")
        _raises(FedcodeError, lambda: rehearsal.server.accept("a", b"nothing"))
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
            _raises(error, partial(rehearsal.server.accept, "b", data))
        _raises(RefusedError, lambda: rehearsal.server.accept("nobody", good))
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

    def test_a_client_refuses_what_is_not_for_it(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(1)
        message = rehearsal.server.message_for("a")
        _raises(MessageError, lambda: receive(message[:-1], rehearsal.memories["a"]))
        _raises(MessageError, lambda: receive(rehearsal.came[0]))
        _raises(MessageError, lambda: receive(rehearsal.server.hello()))
        task = rehearsal.task("a")
        _raises(ArgumentError, lambda: reply(task, moved(task, "a"), examples=0, client="a"))
        _raises(WrongModelError, lambda: reply(task, models()["tied"], examples=1, client="a"))
        broken = moved(task, "a")
        broken.vector[3] = np.nan
        _raises(ArgumentError, lambda: reply(task, broken, examples=1, client="a"))

    # ---- besides training

    def test_evaluation_carries_the_global_model_and_touches_nothing(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(3)
        before, memory = rehearsal.server.to_bytes(), rehearsal.memories["a"]
        for held in (memory, None):
            task = receive(rehearsal.server.message_for("a", evaluate=True), held)
            assert task.evaluate
            assert same(task.start, rehearsal.server.model)
            _raises(ArgumentError, partial(reply, task, task.start, examples=1, client="a"))
        assert rehearsal.server.to_bytes() == before
        rehearsal.rounds(1)

    def test_a_hello_is_a_header_alone(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        said = Message.from_bytes(rehearsal.server.hello())
        assert (said.kind, said.method, dict(said.sections)) == (MessageKind.HELLO, method.name, {})

    def test_what_is_asked_of_training_was_announced(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        for _ in range(3):
            task = rehearsal.task("a")
            assert task.asks.keys() <= method.asks_of_training
            assert task.mask is None or "mask" in method.asks_of_training
            rehearsal.round()

    def test_a_method_that_codes_against_nothing_keeps_no_bases(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(2)
        if not method.keeps_bases:
            assert all(Message.from_bytes(message).base == NOTHING for message in rehearsal.sent)
            assert len(rehearsal.server.bases) <= 1

    def test_a_round_says_how_many_replies_and_examples_counted(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(1)
        for client in "ab":
            rehearsal.server.accept(client, rehearsal.answer(client))
        report = rehearsal.server.finish_round()
        assert (report.replies, report.examples) == (2, sample("a") + sample("b"))


def _raises(kind: type[_E], work: Callable[[], object]) -> _E:
    """The error of this kind that `work` raises."""
    found: _E | None = None
    try:
        work()
    except kind as error:
        found = error
    assert found is not None, f"{kind.__name__} was to be raised, and nothing was"
    assert str(found).endswith("."), f"an error's message is a sentence: {found}"
    return found
