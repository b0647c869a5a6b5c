"""gTop-k against algorithm 4 of its paper: the k largest of the sum, and what did not make it goes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import fedcode
from fedcode.errors import ArgumentError, MessageError
from fedcode.joined import join, split
from fedcode.methods.gtopk import GTopK
from fedcode.topk import read_positions
from fedcode.wire import Message, Section
from tests.methods.reference import largest, mean_row, rest_of
from tests.methods.rounds import (
    CLIENTS,
    STATISTICS,
    WEIGHTS,
    Arrays,
    Ends,
    Exchange,
    Floats,
    assert_same,
    model,
    placed,
    row,
)

SETTINGS: dict[str, Any] = {"density": 0.1, "warmup": 0, "statistics": "exact"}
K = int(0.1 * WEIGHTS)


@dataclass
class Paper:
    """The algorithm on whole rows. `left`: what each client has left over."""

    state: Arrays
    left: dict[str, Floats] = field(default_factory=dict)

    def local(self, client: str, found: Exchange) -> tuple[Floats, Floats]:
        """G, and its k largest."""
        change = row(found.trained) - row(found.start) + self.left.get(client, 0)
        sent: Floats = np.zeros(WEIGHTS)
        where = largest(change, self.k)
        sent[where] = change[where]
        return change, sent

    k: int = K

    def round(self, exchanges: dict[str, Exchange]) -> None:
        changes, sent = {}, {}
        for client, found in exchanges.items():
            changes[client], sent[client] = self.local(client, found)
        mean = mean_row(sent)
        chosen = np.zeros(WEIGHTS, np.bool_)
        chosen[largest(mean, self.k)] = True
        for client, change in changes.items():
            made_it = (sent[client] != 0) & chosen
            self.left[client] = np.where(made_it, 0, change)
        trained = {client: found.trained for client, found in exchanges.items()}
        self.state = placed(row(self.state) + np.where(chosen, mean, 0), self.state) | rest_of(trained)


def one_round(ends: Ends, paper: Paper, clients: tuple[str, ...] = CLIENTS) -> dict[str, Exchange]:
    exchanges = ends.round(clients)
    for found in exchanges.values():
        assert_same(found.start, paper.state)
    paper.round(exchanges)
    assert_same(ends.state, paper.state)
    return exchanges


def reply_moves(message: Message) -> tuple[Floats, Floats]:
    positions, values = split(split(message.section(Section.CHANGES))[0])
    where = read_positions(positions, WEIGHTS)
    return where.astype(np.float64), np.frombuffer(values, "<f4").astype(np.float64)


def test_rounds_as_the_algorithm_says() -> None:
    ends, paper = Ends.of("gtopk", **SETTINGS), Paper(model())
    for _ in range(5):
        before = {client: paper.left.get(client, np.zeros(WEIGHTS)) for client in CLIENTS}
        for client, found in one_round(ends, paper).items():
            change = row(found.trained) - row(found.start) + before[client]
            where, values = reply_moves(found.reply)
            np.testing.assert_array_equal(where, largest(change, K))
            np.testing.assert_allclose(values, change[largest(change, K)], rtol=1e-5, atol=1e-7)


def test_who_was_away_is_told_of_the_rounds_that_he_missed_and_what_became_of_his_last_reply() -> None:
    ends, paper = Ends.of("gtopk", **(SETTINGS | {"density": 0.02})), Paper(model(), k=int(0.02 * WEIGHTS))
    for clients in (CLIENTS, CLIENTS[:2], CLIENTS[:1], CLIENTS, CLIENTS[1:], CLIENTS):
        exchanges = one_round(ends, paper, clients)
    told = exchanges["client-0"].message  # of two rounds, the other two of one
    assert [len(split(found.message.section(Section.CHANGES))) for found in exchanges.values()] == [2, 1, 1]
    assert len(split(told.section(Section.CHANGES))) == 2


def test_who_was_away_too_long_is_sent_the_model_and_starts_clean() -> None:
    ends, paper = Ends.of("gtopk", **(SETTINGS | {"density": 0.5})), Paper(model(), k=WEIGHTS // 2)
    one_round(ends, paper)
    assert paper.left["client-2"].any()
    for _ in range(4):  # half of all weights a round: two rounds weigh more than the model
        one_round(ends, paper, CLIENTS[:2])
    del paper.left["client-2"]
    exchanges = one_round(ends, paper)
    assert Section.CHANGES not in exchanges["client-2"].message.sections
    one_round(ends, paper)


def test_a_reply_that_did_not_count_leaves_no_trace() -> None:
    ends, paper = Ends.of("gtopk", **SETTINGS), Paper(model())
    one_round(ends, paper)
    ends.exchange("client-2")  # trained and answered; the reply is lost
    one_round(ends, paper, CLIENTS[:2])
    one_round(ends, paper)
    one_round(ends, paper)


def test_a_client_that_lost_its_memory_starts_clean() -> None:
    ends, paper = Ends.of("gtopk", **SETTINGS), Paper(model())
    one_round(ends, paper)
    del ends.memories["client-1"], paper.left["client-1"]
    with pytest.raises(fedcode.CannotUse) as caught:
        ends.exchange("client-1")
    ends.server.accept("client-1", caught.value.reply)
    one_round(ends, paper)


def test_the_warm_up_is_the_published_one() -> None:
    method = GTopK(warmup=2)
    assert [method.density_of(t) for t in range(1, 11)] == [0.25] * 2 + [0.0725] * 2 + [0.015] * 2 + [0.004] * 2 + [
        0.001
    ] * 2
    assert GTopK(warmup=0).density_of(1) == 0.001
    assert GTopK(density=0.05).density_of(4) == 0.05  # never below what was asked for
    ends = Ends.of("gtopk")
    for density in (0.25, 0.0725, 0.015):
        found = ends.round()["client-0"]
        assert len(reply_moves(found.reply)[0]) == max(1, int(density * WEIGHTS))


def test_statistics_are_averaged_and_come_at_eight_bits_unless_exact() -> None:
    ends = Ends.of("gtopk", density=0.1)
    exchanges = ends.round()
    rest = rest_of({client: found.trained for client, found in exchanges.items()})
    for name in STATISTICS:
        np.testing.assert_allclose(ends.state[name], rest[name], rtol=0.05, atol=0.02)
    for found in (ends.exchange(client) for client in CLIENTS):
        for name in STATISTICS:
            np.testing.assert_allclose(found.start[name], ends.state[name], rtol=0.05, atol=0.02)
        assert Section.VALUES not in found.message.sections


def test_the_paper_counts_2k_numbers_of_32_bits_a_round_that_is_told_of() -> None:
    ends = Ends.of("gtopk", **SETTINGS)
    first = ends.round()["client-0"]
    ends.round(("client-0", "client-1"))
    found = ends.exchange("client-2")
    method, layout = ends.server.method, ends.server.layout
    assert method.paper_bits(first.message, layout) == 32 * WEIGHTS
    assert method.paper_bits(first.reply, layout) == 64 * K
    assert method.paper_bits(found.message, layout) == 2 * 64 * K


def test_more_weights_than_were_asked_for_are_refused() -> None:
    ends = Ends.of("gtopk", density=0.01, warmup=0)
    reply = ends.exchange("client-0").reply
    many = Ends.of("gtopk", density=0.5, warmup=0).exchange("client-0").reply
    forged = {**reply.sections, Section.CHANGES: many.section(Section.CHANGES)}
    with pytest.raises(MessageError, match="2 weights were asked for, client-0 sent 109"):
        ends.server.accept("client-0", Message(**{**vars(reply), "sections": forged}).to_bytes())


def test_two_changes_in_one_reply_are_refused() -> None:
    ends = Ends.of("gtopk", **SETTINGS)
    reply = ends.exchange("client-0").reply
    change = bytes(split(reply.section(Section.CHANGES))[0])
    forged = {**reply.sections, Section.CHANGES: join([change, change])}
    with pytest.raises(MessageError, match="a reply holds one change, got 2"):
        ends.server.accept("client-0", Message(**{**vars(reply), "sections": forged}).to_bytes())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"density": 0}, "density must be a share of the weights, above 0 and up to 1: got 0"),
        ({"density": 1.5}, "density must be a share of the weights, above 0 and up to 1: got 1.5"),
        ({"warmup": -1}, "warmup must be a number of rounds, 0 or more: got -1"),
        ({"statistics": "4bit"}, "statistics must be one of exact, 8bit: got '4bit'"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_may_be(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        fedcode.method("gtopk", **settings)


def test_the_defaults_are_the_papers() -> None:
    settings = fedcode.method("gtopk").settings()
    assert (settings["density"], settings["warmup"]) == (0.001, 1)
