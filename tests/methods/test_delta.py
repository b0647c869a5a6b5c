"""What delta costs: budgets met, what is held already not sent, and a reduction greater than FedCode's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fedcode
from fedcode.client import memory_of, receive, reply
from fedcode.ledger import fedavg_sizes
from fedcode.server import Server
from fedcode.state import State, flatten
from fedcode.wire import Message, Section

CLIENTS = ("a", "b", "c")


def network() -> State:
    """As large as ResNet-20 (270,000 weights), as heavy-tailed as trained ones, with normalisation."""
    rng = np.random.default_rng(0)
    state: dict[str, Any] = {}
    for index, (out, into) in enumerate([(16, 27), (16, 144), (32, 288), (64, 576), (160, 1280), (32, 576)]):
        state[f"{index}.weight"] = (rng.laplace(size=(out, into)) / np.sqrt(2 * into)).astype(np.float32)
        state[f"{index}.norm.weight"] = np.ones(out, np.float32)
        state[f"{index}.norm.bias"] = np.zeros(out, np.float32)
        state[f"{index}.norm.running_mean"] = np.zeros(out, np.float32)
        state[f"{index}.norm.running_var"] = np.ones(out, np.float32)
    return flatten(state)


MODEL = network()


class Federation:
    """Clients that share part of their drift and repeat some of it, by a hundredth to a tenth of the weights."""

    def __init__(self, known: bool = False, **settings: Any) -> None:
        self.server: Server = fedcode.method("delta", **settings).server(MODEL, federation=b"training", known=known)
        self.memories: dict[str, bytes] = dict.fromkeys(CLIENTS, memory_of(MODEL)) if known else {}
        self.rng = np.random.default_rng(1)
        self.size = np.abs(MODEL.vector) + np.float32(0.01)
        self.common = self.rng.normal(size=MODEL.vector.size)

    def round(self, *clients: str) -> Iterator[tuple[str, Message, Message]]:
        shared = 0.02 * (self.common + self.rng.normal(size=self.size.size))
        for client in clients:
            message = self.server.message_for(client)
            task = receive(message, self.memories.get(client))
            step = (shared + 0.04 * self.rng.normal(size=self.size.size)) * self.size
            trained = State(MODEL.layout, task.start.vector + step.astype(np.float32), task.start.counters)
            weights = MODEL.layout.weights
            trained.vector[weights:] = np.abs(trained.vector[weights:]) + np.float32(1e-3)
            answer, self.memories[client] = reply(task, trained, examples=10, client=client)
            assert self.server.accept(client, answer)
            yield client, Message.from_bytes(message), Message.from_bytes(answer)
        self.server.finish_round()


def bits(message: Message, section: Section) -> float:
    return 8 * len(message.section(section)) / MODEL.layout.matrices


@pytest.mark.parametrize("budget", [0.25, 0.5, 1.0, 2.0, 4.0])
def test_the_budget_is_what_the_change_of_a_weight_costs(budget: float) -> None:
    federation = Federation(bits=budget, warm_bits=budget)
    for _ in range(2):
        for _, _, answer in federation.round("a", "b"):
            assert bits(answer, Section.LABELS) == pytest.approx(budget, rel=0.02)
            rest = sum(len(body) for tag, body in answer.sections.items() if tag != Section.LABELS)
            assert rest < 0.03 * MODEL.vector.size / 8 + 1200  # small tensors at a byte a value, centres, scales


def test_the_first_round_has_a_budget_of_its_own() -> None:
    federation = Federation()
    rates = [bits(answer, Section.LABELS) for _ in range(2) for _, _, answer in federation.round("a")]
    assert rates == [pytest.approx(2.0, rel=0.02), pytest.approx(1.0, rel=0.02)]


def test_what_a_receiver_holds_already_is_not_sent_again() -> None:
    federation = Federation()
    for _ in federation.round("a", "b", "c"):
        pass
    for _ in range(3):
        for _ in federation.round("a", "b"):
            pass
    costs = {client: bits(message, Section.LABELS) for client, message, _ in federation.round("a", "c", "new")}
    assert costs["a"] < 1.0
    assert costs["a"] < costs["c"] < costs["new"] < 4.5


def test_everybody_has_the_same_base_whatever_it_was_coded_against() -> None:
    federation = Federation()
    for _ in federation.round("a", "b", "c"):
        pass
    for _ in federation.round("a", "b"):
        pass
    starts = [receive(federation.server.message_for(name), federation.memories.get(name)).start for name in "acn"]
    assert (starts[0].vector == starts[1].vector).all()
    assert (starts[0].vector == starts[2].vector).all()


def test_a_model_that_has_not_moved_costs_next_to_nothing() -> None:
    federation = Federation()
    for _ in federation.round("a"):
        pass
    server = federation.server
    server.model = State(MODEL.layout, MODEL.vector, MODEL.counters)
    server._begin()
    assert len(server.message_for("a")) < 150  # the base that it holds is the one that is given: a header alone


def test_weights_that_were_known_are_never_sent_whole() -> None:
    federation = Federation(known=True)
    first = federation.server.message_for("a")
    assert len(first) < 120
    for _ in federation.round(*CLIENTS):
        pass
    second = federation.server.message_for("a")
    assert len(second) < 0.2 * MODEL.layout.weights  # 1.6 bits a weight, where a new client's take 4
    assert Section.LAYOUT not in Message.from_bytes(second).sections


def test_small_tensors_take_a_byte_a_value_or_less() -> None:
    small = MODEL.layout.values - MODEL.layout.matrices
    federation = Federation()
    for _ in range(2):
        for _, message, answer in federation.round("a"):
            assert len(message.section(Section.VECTORS)) < small + 4 * 24 + 16
            assert len(answer.section(Section.VECTORS)) < small + 4 * 24 + 16
    coarse = Federation(vector_bits=4)
    for _, _, answer in coarse.round("a"):
        assert len(answer.section(Section.VECTORS)) < small / 2 + 4 * 24 + 16


def test_thirty_times_less_than_fedavg_where_clients_take_part_in_every_round() -> None:
    federation = Federation()
    down, up = fedavg_sizes(MODEL)
    for _ in federation.round(*CLIENTS):
        pass
    for _ in range(2):
        before = dict(federation.server.clients)
        for client, message, answer in federation.round(*CLIENTS):
            assert before[client].holds == message.base
            both = len(message.to_bytes()) + len(answer.to_bytes())
            assert (down + up) / both > 30
