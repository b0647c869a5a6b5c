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
from functools import partial

import numpy as np

from fedcode.client import memory_of, receive, reply
from fedcode.ends import Method
from fedcode.errors import ArgumentError, CannotUse, MessageError
from fedcode.ledger import Ledger, fedavg_sizes
from fedcode.mishaps import Mishaps, raises
from fedcode.rehearsal import Rehearsal, models, moved, same, sample
from fedcode.server import Server
from fedcode.state import State
from fedcode.tampering import Tampering
from fedcode.wire import NOTHING, Message, MessageKind

A_HEADER = 200  # bytes, with all that may be asked


class Contract(Mishaps, Tampering):
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
        raises(ArgumentError, lambda: method.restore(spoilt))
        raises(MessageError, lambda: method.restore(data[:-9]))

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

    # ---- what is there beforehand

    def test_weights_that_are_known_beforehand_are_not_sent(self, method: Method) -> None:
        model = models()["plain"]
        rehearsal = Rehearsal.of(method, model, known=True)
        rehearsal.memories = dict.fromkeys("ab", memory_of(model))
        message = rehearsal.server.message_for("a")
        assert len(message) < A_HEADER
        assert same(receive(message, rehearsal.memories["a"]).start, model)
        error = raises(CannotUse, lambda: receive(message))
        assert not rehearsal.server.accept("c", error.reply)
        assert same(receive(rehearsal.server.message_for("c")).start, model)
        rehearsal.rounds(3)
        data = rehearsal.server.to_bytes()
        assert method.restore(data).to_bytes() == data

    # ---- besides training

    def test_evaluation_carries_the_global_model_and_touches_nothing(self, method: Method) -> None:
        rehearsal = Rehearsal.of(method)
        rehearsal.rounds(3)
        before, memory = rehearsal.server.to_bytes(), rehearsal.memories["a"]
        for held in (memory, None):
            task = receive(rehearsal.server.message_for("a", evaluate=True), held)
            assert task.evaluate
            assert same(task.start, rehearsal.server.model)
            raises(ArgumentError, partial(reply, task, task.start, examples=1, client="a"))
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
