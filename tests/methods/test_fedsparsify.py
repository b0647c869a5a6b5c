"""FedSparsify against the schedule and the two algorithms of its paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import fedcode
from fedcode.errors import ArgumentError
from fedcode.methods.fedsparsify import FedSparsify
from fedcode.topk import read_positions
from fedcode.wire import Section
from tests.methods.reference import largest, mean_row, rest_of
from tests.methods.rounds import (
    CLIENTS,
    EXAMPLES,
    STATISTICS,
    WEIGHTS,
    Arrays,
    Ends,
    Floats,
    assert_same,
    model,
    placed,
    row,
    train,
)

Mask = npt.NDArray[np.bool_]


def sparsity(t: int, initial: float, final: float, start: int, until: int, every: int = 1) -> float:
    """s_t, held between pruning rounds."""
    if t < start:
        return 0.0
    t = min(t // every * every, until)
    return final + (initial - final) * (1 - max(t - start, 0) / (until - start)) ** 3


def purged(weights: Floats, share: float) -> Mask:
    """Which weights stay where this share of them, those of least magnitude, is pruned."""
    mask = np.zeros(weights.size, np.bool_)
    mask[largest(weights, weights.size - int(share * weights.size))] = True
    mask &= weights != 0
    return mask


@pytest.mark.parametrize(("every", "initial"), [(1, 0.0), (2, 0.1)])
def test_global_rounds_as_the_paper_says(every: int, initial: float) -> None:
    plan: dict[str, Any] = {"initial": initial, "final": 0.8, "start": 1, "until": 5, "every": every}
    ends, state = Ends.of("fedsparsify", mode="global", **plan), model()
    mask: Mask = np.ones(WEIGHTS, np.bool_)
    kept = []
    for t in range(1, 8):
        exchanges = ends.round()
        sent = {}
        for client, found in exchanges.items():
            assert_same(found.start, state)
            if mask.all():
                assert found.task.mask is None
            else:
                assert found.task.mask is not None
                np.testing.assert_array_equal(found.task.mask[:WEIGHTS], mask)
                assert found.task.mask[WEIGHTS:].all()
            sent[client] = np.where(mask, row(found.trained), 0)  # local training obeys the mask
        weights = mean_row(sent)
        mask = purged(np.where(mask, weights, 0), sparsity(t, **plan)) if sparsity(t, **plan) else mask
        trained = {client: found.trained for client, found in exchanges.items()}
        state = placed(np.where(mask, weights, 0), state) | rest_of(trained)
        assert_same(ends.state, state)
        kept.append(int(mask.sum()))
    assert kept == [WEIGHTS - int(sparsity(t, **plan) * WEIGHTS) for t in range(1, 8)]


@pytest.mark.parametrize("clients", [CLIENTS, CLIENTS[:2], CLIENTS[2:]])
def test_local_rounds_as_the_paper_says(clients: tuple[str, ...]) -> None:
    plan: dict[str, Any] = {"final": 0.8, "initial": 0.2, "start": 1, "until": 5}
    ends, state = Ends.of("fedsparsify", mode="local", **plan), model()
    mask: Mask = np.ones(WEIGHTS, np.bool_)
    for t in range(1, 7):
        exchanges = ends.round(clients)
        masks, sent = {}, {}
        for client, found in exchanges.items():
            assert_same(found.start, state)
            local = np.where(mask, row(found.trained), 0)
            masks[client] = purged(local, sparsity(t, **plan)) & mask
            sent[client] = np.where(masks[client], local, 0)
        votes = np.sum(list(masks.values()), axis=0)
        mask = mask & (votes >= len(clients) / 2)  # majority
        trained = {client: found.trained for client, found in exchanges.items()}
        state = placed(np.where(mask, mean_row(sent), 0), state) | rest_of(trained)
        assert_same(ends.state, state)
    assert 0 < mask.sum() < WEIGHTS


def test_the_schedule_is_the_cubic_one_of_the_paper() -> None:
    method = FedSparsify(initial=0.1, final=0.9, start=3, until=13, every=4)
    for t in range(1, 20):
        assert method.sparsity(t) == pytest.approx(sparsity(t, 0.1, 0.9, 3, 13, 4))
    assert [method.sparsity(t) for t in (1, 2)] == [0, 0]
    assert method.sparsity(16) == pytest.approx(0.9)
    assert method.sparsity(8) == method.sparsity(11) < method.sparsity(12)


def test_what_travels_is_what_the_mask_keeps_and_where_it_stands() -> None:
    ends = Ends.of("fedsparsify", final=0.9, until=2)
    ends.round()
    ends.round()
    weights = row(ends.state)
    found = ends.exchange("client-0")
    where = np.flatnonzero(weights)
    assert where.size == WEIGHTS - int(0.9 * WEIGHTS)
    np.testing.assert_array_equal(read_positions(found.message.section(Section.POSITIONS), WEIGHTS), where)
    expected = np.concatenate([weights[where], row(ends.state, STATISTICS)])
    np.testing.assert_array_equal(np.frombuffer(found.message.section(Section.VALUES), "<f4"), expected)
    # back go the same weights, whose places both ends know
    assert Section.POSITIONS not in found.reply.sections
    trained = np.concatenate([row(found.trained)[where], row(found.trained, STATISTICS)])
    np.testing.assert_array_equal(np.frombuffer(found.reply.section(Section.VALUES), "<f4"), trained)


def test_a_local_reply_names_what_it_keeps_among_what_the_mask_keeps() -> None:
    ends = Ends.of("fedsparsify", mode="local", initial=0.3, final=0.9, until=3)
    ends.round()
    mask = np.flatnonzero(row(ends.state))
    found = ends.exchange("client-0")
    local = row(found.trained)[mask]
    keep = WEIGHTS - int(sparsity(2, 0.3, 0.9, 1, 3) * WEIGHTS)
    kept = largest(local, keep)
    np.testing.assert_array_equal(read_positions(found.reply.section(Section.POSITIONS), mask.size), kept)
    values = np.frombuffer(found.reply.section(Section.VALUES), "<f4")
    np.testing.assert_array_equal(values[:keep], local[kept])


def test_the_mean_is_taken_in_doubles() -> None:
    ends = Ends.of("fedsparsify", initial=0.3, until=5)
    ends.round()
    mask = row(ends.state) != 0
    found = ends.round()
    total: Floats = np.zeros(WEIGHTS)
    for client, exchange in found.items():
        total += EXAMPLES[client] * row(exchange.trained)
    mean = (total / sum(EXAMPLES.values())).astype(np.float32)
    kept = mask & (row(ends.state) != 0)
    np.testing.assert_array_equal(row(ends.state)[kept], mean[kept])


@pytest.mark.parametrize("mode", ["global", "local"])
def test_what_is_pruned_stays_pruned_whatever_a_client_sends_or_an_optimiser_remembers(mode: str) -> None:
    ends = Ends.of("fedsparsify", mode=mode, final=0.8, until=4, server="momentum", server_momentum=0.9)

    def disobedient(start: Any, client: str, round: int) -> Arrays:
        return {name: value + 1 for name, value in train(start, client, round).items()}

    ends.training = disobedient
    gone: Mask = np.zeros(WEIGHTS, np.bool_)
    for _ in range(5):
        ends.round()
        weights = row(ends.state)
        assert not weights[gone].any()
        gone |= weights == 0
    assert gone.sum() >= int(0.8 * WEIGHTS)


def test_the_count_is_32_bits_a_weight_that_is_sent() -> None:
    ends = Ends.of("fedsparsify", final=0.9, until=2)
    found = ends.round()["client-0"]
    for message in (found.message, found.reply):
        assert ends.server.method.paper_bits(message, ends.server.layout) == 32 * WEIGHTS
    ends.round()
    found = ends.exchange("client-0")
    for message in (found.message, found.reply):
        assert ends.server.method.paper_bits(message, ends.server.layout) == 32 * (WEIGHTS - int(0.9 * WEIGHTS))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"mode": "both"}, "mode must be one of global, local: got 'both'"),
        ({"initial": -0.1}, "initial must be a share of the weights from 0 to below 1: got -0.1"),
        ({"final": 1.0}, "final must be a share of the weights from 0 to below 1: got 1.0"),
        ({"initial": 0.9, "final": 0.5}, "initial must not be above final, 0.5: got 0.9"),
        ({"start": 0}, "start must be a round from 1 to before until, 200: got 0"),
        ({"start": 5, "until": 5}, "start must be a round from 1 to before until, 5: got 5"),
        ({"every": 0}, "every must be a number of rounds, 1 or more: got 0"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_may_be(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        fedcode.method("fedsparsify", **settings)
