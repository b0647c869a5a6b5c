"""A residual counts only when its reply did."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import fedcode
from fedcode.client import Memory
from fedcode.ends import Incoming
from fedcode.layout import Layout
from fedcode.rehearsal import Rehearsal
from fedcode.residual import PENDING, RESIDUAL, ROUND, acknowledged, kept_residual, settled
from fedcode.wire import Message, MessageKind

BEFORE, AFTER = np.zeros(2, np.float32), np.ones(2, np.float32)


def incoming(kept: dict[str, Any], accepted: int = 0, number: int = 5) -> Incoming:
    return Incoming(Message(MessageKind.BROADCAST, "delta", round=number, accepted=accepted), Layout(()), None, kept)


KEPT = {RESIDUAL: BEFORE, PENDING: AFTER, ROUND: np.array([3])}


def test_who_has_replied_to_nothing_has_nothing_left_over() -> None:
    assert settled(incoming({}), 2) is None
    assert not acknowledged(incoming({}))


def test_a_reply_that_counted_leaves_what_it_left_out() -> None:
    assert settled(incoming(KEPT, accepted=3), 2) is AFTER
    assert acknowledged(incoming(KEPT, accepted=3))


def test_a_reply_that_was_lost_leaves_what_was_left_over_before() -> None:
    assert settled(incoming(KEPT, accepted=2), 2) is BEFORE
    assert settled(incoming({PENDING: AFTER, ROUND: np.array([3])}, accepted=0), 2) is None


def test_an_old_copy_of_a_memory_starts_clean() -> None:
    assert settled(incoming(KEPT, accepted=4), 2) is None


def test_what_is_kept_holds_both() -> None:
    kept = kept_residual(incoming(KEPT, accepted=3, number=7), np.full(2, 9.0))
    assert kept[RESIDUAL] is AFTER
    assert kept[PENDING].dtype == np.float32
    assert (kept[PENDING].tolist(), kept[ROUND].tolist()) == ([9, 9], [7])
    assert RESIDUAL not in kept_residual(incoming({}), np.zeros(2, np.float32))


@pytest.mark.parametrize(
    "damage",
    [
        {PENDING: np.ones(3, np.float32)},
        {PENDING: np.ones(2, np.float64)},
        {PENDING: np.ones((1, 2), np.float32)},
        {PENDING: np.array([1, np.nan], np.float32)},
        {ROUND: np.array([3.0])},
        {ROUND: np.array(3)},
        {ROUND: np.array([3, 3])},
    ],
)
def test_what_cannot_be_a_residual_counts_as_none(damage: dict[str, Any]) -> None:
    assert settled(incoming({**KEPT, **damage}, accepted=3), 2) is None


@pytest.mark.parametrize("name", ["delta", "stc", "gtopk"])
def test_over_a_whole_training(name: str) -> None:
    settings: dict[str, dict[str, Any]] = {"delta": {"residual": 0.5}, "stc": {"keep": 0.1}, "gtopk": {"warmup": 0}}
    rehearsal = Rehearsal.of(fedcode.method(name, **settings[name]))

    def kept() -> dict[str, Any]:
        return dict(Memory.from_bytes(rehearsal.memories["a"]).kept)

    rehearsal.rounds(1)
    first = kept()
    assert RESIDUAL not in first
    rehearsal.answer("a")  # of round 2, and lost
    rehearsal.round("bc")
    lost = kept()
    assert lost[ROUND].tolist() == [2]
    rehearsal.rounds(1)
    third = kept()
    if name == "delta":  # what was left over after round 1 is again what counts
        np.testing.assert_array_equal(third[RESIDUAL], first[PENDING])
    assert not np.array_equal(third[RESIDUAL], lost[PENDING])
    rehearsal.rounds(1)
    assert kept()[ROUND].tolist() == [4]


def test_without_a_residual_nobody_is_told_what_counted() -> None:
    for settings, told in (({}, 0), ({"residual": 0.9}, 1)):
        rehearsal = Rehearsal.of(fedcode.method("delta", **settings))
        rehearsal.rounds(1)
        assert Message.from_bytes(rehearsal.server.message_for("a")).accepted == told


def test_a_residual_brings_back_what_few_bits_left_out() -> None:
    """The same change again and again: what arrives in all is nearer to it with a residual than without."""
    rng = np.random.default_rng(0)
    model = {"w": rng.normal(size=(60, 60)).astype(np.float32)}
    change = (0.01 * rng.normal(size=(60, 60))).astype(np.float32)
    off = {}
    for residual in (0.0, 1.0):
        method = fedcode.method("delta", bits=0.3, warm_bits=0.3, residual=residual, debias=False)
        server, memory = method.server(model), b""
        for _ in range(12):
            task = fedcode.receive(server.message_for("a"), memory or None)
            trained = {"w": task.start.arrays()["w"] + change}
            reply, memory = fedcode.reply(task, trained, examples=1, client="a")
            server.accept("a", reply)
            server.finish_round()
        off[residual] = np.square(server.state["w"] - model["w"] - 12 * change).sum() / np.square(12 * change).sum()
    assert off[1.0] < 0.5 * off[0.0]


def test_a_residual_of_another_model_is_left_alone() -> None:
    rehearsal = Rehearsal.of(fedcode.method("delta", residual=0.9))
    rehearsal.rounds(2)
    memory = Memory.from_bytes(rehearsal.memories["a"])
    short = dataclasses.replace(memory, kept={**memory.kept, PENDING: np.ones(3, np.float32)})
    rehearsal.memories["a"] = short.to_bytes()
    rehearsal.rounds(1)
