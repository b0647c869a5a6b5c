"""STC against algorithms 1 and 2 of its paper: ternary changes both ways, and each end keeps its rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import fedcode
from fedcode.coding import decode_labels
from fedcode.errors import ArgumentError, MessageError
from fedcode.joined import join, split
from fedcode.methods.stc import golomb_bits
from fedcode.topk import read_positions
from fedcode.wire import Message, Section
from tests.methods.reference import largest, mean_row, rest_of
from tests.methods.rounds import (
    CLIENTS,
    STATISTICS,
    TRAINED,
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

SIZES = [model()[name].size for name in TRAINED]
P = 0.1
SETTINGS: dict[str, Any] = {"keep": P, "statistics": "exact"}
KEPT = sum(max(int(P * size), 1) for size in SIZES)


def ternary(change: Floats, p: float = P) -> Floats:
    """Algorithm 1, tensor by tensor: mu sign(T) where |T| is among the k = max(p n, 1) largest, else 0."""
    out: Floats = np.zeros(change.size)
    at = 0
    for size in SIZES:
        part = change[at : at + size]
        where = largest(part, max(int(p * size), 1))
        out[at + where] = np.abs(part[where]).mean() * np.sign(part[where])
        at += size
    return out


@dataclass
class Paper:
    """Algorithm 2. `left`: what each client has left over, and the server under its own name."""

    state: Arrays
    left: dict[str, Floats] = field(default_factory=dict)
    p: float = P

    def compressed(self, who: str, change: Floats) -> Floats:
        change = change + self.left.get(who, 0)
        sent = ternary(change, self.p)
        self.left[who] = change - sent
        return sent

    def round(self, exchanges: dict[str, Exchange]) -> None:
        sent = {
            client: self.compressed(client, row(found.trained) - row(found.start))
            for client, found in exchanges.items()
        }
        down = self.compressed("server", mean_row(sent))
        trained = {client: found.trained for client, found in exchanges.items()}
        self.state = placed(row(self.state) + down, self.state) | rest_of(trained)


def one_round(ends: Ends, paper: Paper, clients: tuple[str, ...] = CLIENTS) -> dict[str, Exchange]:
    exchanges = ends.round(clients)
    for found in exchanges.values():
        assert_same(found.start, paper.state)
    paper.round(exchanges)
    assert_same(ends.state, paper.state)
    return exchanges


def test_rounds_as_the_algorithms_say() -> None:
    ends, paper = Ends.of("stc", **SETTINGS), Paper(model())
    for _ in range(5):
        before = dict(paper.left)
        for client, found in one_round(ends, paper).items():
            change = row(found.trained) - row(found.start) + before.get(client, 0)
            positions, signs, scales = split(split(found.reply.section(Section.CHANGES))[0])
            where = read_positions(positions, WEIGHTS)
            expected = ternary(change)
            np.testing.assert_array_equal(where, np.flatnonzero(expected))
            np.testing.assert_array_equal(decode_labels(signs, where.size, 2), expected[where] > 0)
            magnitudes = [np.abs(part).max() for part in np.split(expected, np.cumsum(SIZES)[:-1])]
            np.testing.assert_allclose(np.frombuffer(scales, "<f4"), magnitudes, rtol=1e-5)


def test_both_ends_keep_their_rest() -> None:
    ends, paper = Ends.of("stc", **SETTINGS), Paper(model())
    one_round(ends, paper)
    assert all(paper.left[who].any() for who in (*CLIENTS, "server"))
    one_round(ends, paper)  # which it could not be without them
    forgetful = Paper(ends.state)
    exchanges = ends.round()
    forgetful.round(exchanges)
    assert not np.allclose(row(forgetful.state), row(ends.state))


def test_who_was_away_is_told_of_the_rounds_that_he_missed_and_keeps_his_rest() -> None:
    ends, paper = Ends.of("stc", **SETTINGS), Paper(model())
    for clients in (CLIENTS, CLIENTS[:2], CLIENTS[:1], CLIENTS):
        exchanges = one_round(ends, paper, clients)
    told = [len(split(found.message.section(Section.CHANGES))) for found in exchanges.values()]
    assert told == [1, 2, 3]


def test_who_was_away_too_long_is_sent_the_model_and_keeps_his_rest_even_so() -> None:
    ends, paper = Ends.of("stc", **(SETTINGS | {"keep": 0.5})), Paper(model(), p=0.5)
    one_round(ends, paper)
    # a round is told of in some seventy bytes here, and the model has nine hundred
    for _ in range(16):
        one_round(ends, paper, CLIENTS[:2])
    exchanges = one_round(ends, paper)
    assert Section.CHANGES not in exchanges["client-2"].message.sections
    one_round(ends, paper)


def test_a_reply_that_did_not_count_leaves_no_trace() -> None:
    ends, paper = Ends.of("stc", **SETTINGS), Paper(model())
    one_round(ends, paper)
    ends.exchange("client-2")  # trained and answered; the reply is lost
    one_round(ends, paper, CLIENTS[:2])
    one_round(ends, paper)
    one_round(ends, paper)


def test_a_restored_server_still_has_its_rest() -> None:
    ends, paper = Ends.of("stc", **SETTINGS), Paper(model())
    one_round(ends, paper)
    ends.server = ends.server.method.restore(ends.server.to_bytes())
    one_round(ends, paper)


def test_statistics_are_averaged_and_come_at_eight_bits_unless_exact() -> None:
    ends = Ends.of("stc", keep=P)
    exchanges = ends.round()
    rest = rest_of({client: found.trained for client, found in exchanges.items()})
    for name in STATISTICS:
        np.testing.assert_allclose(ends.state[name], rest[name], rtol=0.05, atol=0.02)


def test_golombs_count_is_what_its_code_takes_where_positions_are_random() -> None:
    rng = np.random.default_rng(0)
    for p in (0.5, 0.1, 0.01, 1 / 400):
        gaps = rng.geometric(p, 400_000) - 1
        bits = min(float((low + 1 + (gaps >> low)).mean()) for low in range(12))
        assert golomb_bits(p) == pytest.approx(bits, rel=0.005)
    assert golomb_bits(1.0) == 1


def test_the_paper_counts_a_position_and_a_sign_a_round_that_is_told_of() -> None:
    ends = Ends.of("stc", **SETTINGS)
    first = ends.round()["client-0"]
    ends.round(CLIENTS[:2])
    found = ends.exchange("client-2")
    method, layout = ends.server.method, ends.server.layout
    assert method.paper_bits(first.message, layout) == 32 * WEIGHTS
    assert method.paper_bits(first.reply, layout) == round(KEPT * (golomb_bits(P) + 1))
    assert method.paper_bits(found.message, layout) == round(2 * KEPT * (golomb_bits(P) + 1))


def test_positions_cost_about_what_golombs_code_would() -> None:
    ends = Ends.of("stc", {"w": np.zeros((400, 500), np.float32)})
    ends.training = lambda start, client, round: {
        "w": np.random.default_rng(0).normal(size=(400, 500)).astype(np.float32)
    }
    positions = split(split(ends.exchange("client-0").reply.section(Section.CHANGES))[0])[0]
    assert 8 * len(positions) < 500 * golomb_bits(1 / 400) * 1.03 + 64


def test_more_weights_than_were_asked_for_are_refused() -> None:
    few, many = (Ends.of("stc", **(SETTINGS | {"keep": keep})) for keep in (P, 0.5))
    reply, forged = (ends.exchange("client-0").reply for ends in (few, many))
    with pytest.raises(MessageError, match=f"{KEPT} weights were asked for, client-0 sent 109"):
        few.server.accept("client-0", Message(**{**vars(reply), "sections": forged.sections}).to_bytes())


def test_a_change_that_is_no_ternary_one_is_refused() -> None:
    ends = Ends.of("stc", **SETTINGS)
    reply = ends.exchange("client-0").reply
    parts = split(split(reply.section(Section.CHANGES))[0])
    forged = {**reply.sections, Section.CHANGES: join([join(map(bytes, parts[:2]))])}
    with pytest.raises(MessageError, match="positions, signs and magnitudes, got 2 parts"):
        ends.server.accept("client-0", Message(**{**vars(reply), "sections": forged}).to_bytes())


@pytest.mark.parametrize("keep", [0, 1.01, float("nan")])
def test_a_wrong_share_is_named(keep: float) -> None:
    with pytest.raises(ArgumentError, match="keep must be a share of the weights, above 0 and up to 1: got"):
        fedcode.method("stc", keep=keep)


def test_the_default_is_the_published_share() -> None:
    assert fedcode.method("stc").settings()["keep"] == 1 / 400
