"""The server's end: what it believes, what it keeps, what it costs. What holds for every method is the contract's."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc
from typing import Any

import numpy as np
import pytest

import fedcode
from fedcode.client import receive, reply
from fedcode.ends import Broadcast, Sections
from fedcode.errors import ArgumentError, MessageError, RefusedError
from fedcode.methods.fedavg_ws import FedAvgWS
from fedcode.rehearsal import Rehearsal, models, same
from fedcode.server import Client, Server
from fedcode.standing import Standing
from fedcode.state import State
from fedcode.wire import NOTHING, Message, Section


def test_a_model_without_a_trained_weight_cannot_be_trained() -> None:
    with pytest.raises(ArgumentError, match="no trained weight"):
        fedcode.method("fedavg").server({"steps": np.array(3)})


@pytest.mark.parametrize("federation", [b"", b"seven!!", bytes(8)])
def test_a_federation_has_a_name_of_eight_bytes(federation: bytes) -> None:
    with pytest.raises(ArgumentError, match="eight bytes and not all zero"):
        fedcode.method("fedavg").server(models()["plain"], federation=federation)


def test_every_training_has_a_name_of_its_own() -> None:
    one, other = (fedcode.method("fedavg").server(models()["plain"]) for _ in range(2))
    assert one.federation != other.federation


def test_weights_that_are_not_finite_are_refused_at_once() -> None:
    with pytest.raises(fedcode.NonFiniteError):
        fedcode.method("fedavg").server({"w": np.array([1, np.nan], np.float32)})


class Counting(FedAvgWS):
    """FedAvg_ws that counts how often it clusters and encodes."""

    def broadcast(self, turn: Any) -> Broadcast:
        turn.kept["clustered"] = turn.kept.get("clustered", np.zeros(1, np.int64)) + 1
        return super().broadcast(turn)

    def sections(self, broadcast: Broadcast, held: Any) -> Sections:
        self.encoded.append(NOTHING if held is None else held.digest)
        return super().sections(broadcast, held)

    @property
    def encoded(self) -> list[bytes]:
        found: list[bytes] = self.__dict__.setdefault("_encoded", [])
        return found


def test_one_broadcast_is_clustered_once_and_encoded_once_for_all_who_stand_alike() -> None:
    method = Counting(clusters=8)
    rehearsal = Rehearsal.of(method)
    rehearsal.rounds(1, "abc")
    rehearsal.rounds(1, "ab")
    method.encoded.clear()
    server = rehearsal.server
    for name in ("a", "b", "c", "new", "newer", *"abc"):
        server.message_for(name)
    assert len(method.encoded) == len(set(method.encoded)) == 3  # of last round, of the one before, new
    assert server.kept["clustered"].tolist() == [server.round]


def test_what_was_encoded_is_bounded_and_the_next_client_is_served_all_the_same() -> None:
    method = Counting(clusters=8)
    server = Rehearsal.of(method, ring_bytes=4).server
    first = server.message_for("a")
    assert server.message_for("b") == first
    assert receive(first).start is not None


def test_memory_does_not_grow_with_replies() -> None:
    model = {"w": np.zeros((100, 200), np.float32)}
    for name in ("fedavg", "delta", "fedavg_ws"):
        server = fedcode.method(name).server(model, federation=b"measured")
        task = receive(server.message_for("client-0"))
        data, _ = reply(task, task.start, examples=5, client="client-0")

        def accept(first: int, last: int, server: Server = server, data: bytes = data) -> None:
            for number in range(first, last):
                server.message_for(f"client-{number}")
                server.accept(f"client-{number}", data)

        accept(0, 10)
        tracemalloc.start()
        accept(10, 400)
        grown = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert grown < 400 * 1000, name  # a name and a digest each, and no model: that would be 80,000 bytes


def test_the_ring_keeps_the_newest_bases_within_its_bytes() -> None:
    size = 8000 + 4 * 64
    model = {"w": np.random.default_rng(0).normal(size=(80, 100)).astype(np.float32)}
    server = fedcode.method("fedavg_ws").server(model, ring_bytes=3 * size)
    rehearsal = Rehearsal(server)
    for _ in range(6):
        rehearsal.round("ab")
        assert sum(base.nbytes for base in server.bases.values()) <= 3 * size
    assert len(server.bases) == 3
    assert server.last is not None
    assert server.last.digest == list(server.bases)[-1]


def test_a_model_that_comes_again_is_the_newest_in_the_ring() -> None:
    plain = models()["plain"]
    server = Rehearsal.of(fedcode.method("fedavg_ws", clusters=8)).server
    first, second = (State(plain.layout, plain.vector + np.float32(shift), plain.counters) for shift in (1, 2))
    for model in (first, second, first):
        server.model = model
        server._begin()
        server.message_for("a")
        server.finish_round()
    assert server.last is not None
    assert list(server.bases)[-1] == server.last.digest


def test_a_stale_client_is_coded_against_its_own_base_while_the_ring_has_it() -> None:
    rehearsal = Rehearsal.of(fedcode.method("fedavg_ws", clusters=8))
    rehearsal.rounds(2)
    held = rehearsal.server.clients["a"].holds
    rehearsal.rounds(2, "bc")
    said = Message.from_bytes(rehearsal.server.message_for("a"))
    assert said.base == held
    assert Section.LAYOUT not in said.sections
    del rehearsal.server.bases[held]
    rehearsal.server._begin()
    whole = Message.from_bytes(rehearsal.server.message_for("a"))
    assert whole.base == NOTHING
    assert Section.LAYOUT in whole.sections


def test_only_replies_are_believed() -> None:
    rehearsal = Rehearsal.of(fedcode.method("fedavg_ws", clusters=8))
    rehearsal.server.message_for("a")
    assert "a" not in rehearsal.server.clients
    rehearsal.round("a")
    assert rehearsal.server.clients["a"].accepted == 1
    rehearsal.server.message_for("a")
    rehearsal.answer("a")
    assert rehearsal.server.clients["a"].accepted == 1


def test_a_base_that_a_client_claims_and_the_server_does_not_know_counts_as_none() -> None:
    rehearsal = Rehearsal.of(fedcode.method("fedavg_ws", clusters=8))
    said = Message.from_bytes(rehearsal.answer("a"))
    assert rehearsal.server.accept("a", dataclasses.replace(said, gives=b"invented").to_bytes())
    assert rehearsal.server.clients["a"] == Client(1, NOTHING)


def test_a_client_can_lose_its_memory_many_times_in_a_round() -> None:
    rehearsal = Rehearsal.of(fedcode.method("delta", clusters=8))
    rehearsal.rounds(2)
    for _ in range(3):
        rehearsal.forget("a")
        rehearsal.task("a")
    assert rehearsal.server.accept("a", rehearsal.answer("a"))


def test_a_refused_reply_is_counted_by_its_kind_and_may_be_followed_by_a_good_one() -> None:
    rehearsal = Rehearsal.of(fedcode.method("fedavg"))
    good = rehearsal.answer("a")
    for data in (b"", good[:-1]):
        with pytest.raises(MessageError):
            rehearsal.server.accept("a", data)
    with pytest.raises(RefusedError, match="not asked for: no message left for it in round 1"):
        rehearsal.server.accept("stranger", good)
    assert rehearsal.server.accept("a", good)
    assert not rehearsal.server.accept("a", b"rubbish")  # it has counted already: whatever comes now is a repetition
    report = rehearsal.server.finish_round()
    assert (report.replies, report.refused) == (1, {"MessageError": 2, "RefusedError": 1})


def test_examples_beyond_what_is_believed() -> None:
    rehearsal = Rehearsal.of(fedcode.method("fedavg"), max_examples=20)
    task = rehearsal.task("a")
    for examples, fits in ((21, False), (20, True)):
        data, _ = reply(task, task.start, examples=examples, client="a")
        if fits:
            assert rehearsal.server.accept("a", data)
        else:
            with pytest.raises(RefusedError, match="claims 21 examples; 1 to 20 are believed"):
                rehearsal.server.accept("a", data)


def test_sums_are_weighted_by_examples_in_float64() -> None:
    server = fedcode.method("fedavg").server({"w": np.zeros(2, np.float32)})
    values = {"a": (1, [1e8, 1]), "b": (10**9, [1.0, 1e-8])}
    for client, (examples, weights) in values.items():
        task = receive(server.message_for(client))
        data, _ = reply(task, {"w": np.array(weights, np.float32)}, examples=examples, client=client)
        server.accept(client, data)
    server.finish_round()
    expected = [(1e8 + 1e9) / (1 + 1e9), (1 + 1e9 * np.float64(np.float32(1e-8))) / (1 + 1e9)]
    np.testing.assert_array_equal(server.state["w"], np.array(expected, np.float32))


def test_counters_merge_by_their_maximum() -> None:
    server = fedcode.method("fedavg").server({"w": np.zeros(2, np.float32), "steps": np.array(1)})
    for client, steps in (("a", 9), ("b", 4)):
        task = receive(server.message_for(client))
        trained = {"w": np.zeros(2, np.float32), "steps": np.array(steps)}
        server.accept(client, reply(task, trained, examples=1, client=client)[0])
    server.finish_round()
    assert server.state["steps"] == 9


def test_the_codebook_of_the_round_can_be_asked_for() -> None:
    rehearsal = Rehearsal.of(fedcode.method("fedcode", clusters=8))
    before = rehearsal.server.centers
    assert before is None  # no message has left
    rehearsal.server.message_for("a")
    centers = rehearsal.server.centers
    assert centers is not None
    assert centers.size == 8
    raw = Rehearsal.of(fedcode.method("fedavg"))
    raw.server.message_for("a")
    assert raw.server.centers is None


# ---- a checkpoint


STANDING = Standing({"clusters": 64}, 7, NOTHING, b"12345678", 1 << 30, 10**9, {"client-0": Client(3, b"12345678")})


def test_where_a_server_stands_survives_its_bytes() -> None:
    assert Standing.from_bytes(STANDING.to_bytes()) == STANDING


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("settings", []),
        ("seed", "0"),
        ("seed", True),
        ("known", "12"),
        ("last", "xx" * 8),
        ("ring_bytes", -1),
        ("max_examples", 1 << 63),
        ("max_examples", 1.5),
        ("clients", {"a": [1]}),
        ("clients", {"a": ["1", "00" * 8]}),
        ("clients", 3),
        ("clients", {"a": [1, 7]}),
    ],
)
def test_a_checkpoint_that_says_nonsense_is_a_message_error(where: str, value: object) -> None:
    about = json.loads(STANDING.to_bytes())
    about[where] = value
    with pytest.raises(MessageError, match="does not say where it stands"):
        Standing.from_bytes(json.dumps(about).encode())


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"nonsense", b"\xff\xfe", b"[" * 100_000])
def test_a_checkpoint_that_is_no_json_is_a_message_error(data: bytes) -> None:
    with pytest.raises(MessageError):
        Standing.from_bytes(data)


def test_a_server_is_taken_up_with_all_that_it_was_told() -> None:
    method = fedcode.method("fedavg_ws", clusters=8)
    rehearsal = Rehearsal.of(method, seed=5, ring_bytes=1 << 20, max_examples=777)
    rehearsal.rounds(2)
    again = method.restore(rehearsal.server.to_bytes())
    assert (again.seed, again.ring_bytes, again.max_examples, again.round) == (5, 1 << 20, 777, 3)
    assert again.clients == rehearsal.server.clients
    assert list(again.bases) == list(rehearsal.server.bases)


def test_a_checkpoint_of_other_settings_is_told_apart() -> None:
    data = Rehearsal.of(fedcode.method("fedavg_ws", clusters=8)).server.to_bytes()
    with pytest.raises(ArgumentError, match="Go on with the same settings"):
        fedcode.method("fedavg_ws", clusters=9).restore(data)


def test_the_order_of_replies_is_the_callers() -> None:
    models_of = []
    for order in ("abc", "cab"):
        rehearsal = Rehearsal.of(fedcode.method("fedavg"))
        rehearsal.round(order)
        models_of.append(rehearsal.server.model)
    one, other = models_of
    np.testing.assert_allclose(one.vector, other.vector, rtol=1e-6, atol=1e-8)


def test_a_state_is_given_and_got_in_any_form() -> None:
    start = models()["plain"]
    server = fedcode.method("fedavg").server(start.arrays())
    assert same(State(server.layout, server.model.vector, server.model.counters), start)
    assert {name: value.shape for name, value in server.state.items()} == {
        name: value.shape for name, value in start.arrays().items()
    }
