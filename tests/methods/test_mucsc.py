"""MUCSC: soft clustering without bias, tensor by tensor and both ways, against its paper."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest

import fedcode
from fedcode.coding import decode_labels
from fedcode.errors import ArgumentError
from fedcode.methods.mucsc import soft_centers, soft_labels
from fedcode.wire import Message, Section
from tests.methods.reference import mean_row, rest_of
from tests.methods.rounds import (
    CLIENTS,
    STATISTICS,
    TRAINED,
    WEIGHTS,
    Ends,
    Exchange,
    Floats,
    assert_same,
    model,
    placed,
    row,
    sent_row,
)

K = 5
SIZES = [model()[name].size for name in TRAINED]


def codebooks(message: Message) -> list[Floats]:
    """The centres of each tensor, as the message says them."""
    sizes = np.frombuffer(message.section(Section.SIZES), np.uint8)
    assert sizes[0] == 1  # one byte each, twice the size
    centers = np.frombuffer(message.section(Section.CENTERS), "<f4").astype(np.float64)
    return np.split(centers, np.cumsum(sizes[1:] // 2)[:-1])


def soft(change: Floats, centers: list[Floats], drawn: Floats) -> tuple[Floats, Floats]:
    """A value between the neighbouring centres a and b becomes b with probability (v - a) / (b - a)."""
    labels, values = np.empty(change.size), np.empty(change.size)
    at = 0
    for size, own in zip(SIZES, centers, strict=True):
        for i in range(at, at + size):
            lower = max(j for j in range(own.size) if own[j] <= change[i])
            chance = (change[i] - own[lower]) / (own[lower + 1] - own[lower]) if lower + 1 < own.size else 0.0
            labels[i] = lower + (drawn[i] < chance)
            values[i] = own[int(labels[i])]
        at += size
    return labels, values


def draws(message: Message, client: str | None = None) -> Floats:
    """A number from 0 to 1 for every weight: from seed and round, and at a client from its name."""
    seed = [message.seed, message.round]
    if client is not None:
        seed.append(int.from_bytes(hashlib.blake2b(client.encode(), digest_size=8).digest(), "little"))
    uniform: Floats = np.random.default_rng(seed).random(WEIGHTS)
    return uniform


def change_of(found: Exchange) -> Floats:
    return (row(found.trained) - row(found.start)).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("labels", ["packed", "entropy", "context"])
def test_three_rounds_as_the_paper_says_however_labels_are_sent(labels: str) -> None:
    ends, state = Ends.of("mucsc", clusters=K, labels=labels), model()
    for _ in range(3):
        exchanges = ends.round()
        updates = {}
        for client, found in exchanges.items():
            assert_same(found.start, state)
            _, updates[client] = soft(change_of(found), codebooks(found.reply), draws(found.message, client))
        # the centres of the aggregated update are in the message that the next round begins with
        mean = sent_row(row(state) + mean_row(updates)) - row(state)
        given = Message.from_bytes(ends.server.message_for("client-0"))
        _, update = soft(sent_row(mean), codebooks(given), draws(exchanges["client-0"].message))
        trained = {client: found.trained for client, found in exchanges.items()}
        state = placed(row(state) + update, state) | rest_of(trained)
        assert_same(ends.state, state)
        state = ends.state


def test_a_reply_holds_a_codebook_and_labels_a_tensor() -> None:
    found = Ends.of("mucsc", clusters=K).exchange("client-2")
    labels, _ = soft(change_of(found), codebooks(found.reply), draws(found.message, "client-2"))
    np.testing.assert_array_equal(decode_labels(found.reply.section(Section.LABELS), WEIGHTS, K), labels)
    np.testing.assert_array_equal(
        np.frombuffer(found.reply.section(Section.VALUES), "<f4"), row(found.trained, STATISTICS)
    )


def test_each_codebook_spans_its_tensor_from_the_least_to_the_greatest_value() -> None:
    found = Ends.of("mucsc", clusters=K).exchange("client-0")
    for values, centers in zip(np.split(change_of(found), np.cumsum(SIZES)[:-1]), codebooks(found.reply), strict=True):
        assert (centers[0], centers[-1]) == (values.min(), values.max())
        assert centers.size <= K


def spread(values: Floats, centers: Floats) -> float:
    """The variance that soft clustering adds: sum of (b - v)(v - a)."""
    lower = np.clip(np.searchsorted(centers, values, "right") - 1, 0, centers.size - 2)
    return float(((centers[lower + 1] - values) * (values - centers[lower])).sum())


def test_no_centre_could_stand_elsewhere_for_less_variance() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.standard_t(3, 60).astype(np.float32)
        centers = soft_centers(values, 6).astype(np.float64)
        wide = np.sort(values.astype(np.float64))
        least = spread(wide, centers)
        for i, other in itertools.product(range(1, centers.size - 1), wide):
            moved = np.sort(np.concatenate([np.delete(centers, i), [other]]))
            if centers[i - 1] <= other <= centers[i + 1]:
                assert spread(wide, moved) >= least - 1e-6


def test_soft_clustering_is_unbiased_with_the_variance_that_two_neighbours_leave() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_t(3, 500).astype(np.float32)
    centers = soft_centers(values, 8)
    times = 4000
    total = np.zeros(500)
    for _ in range(times):
        total += centers[soft_labels(values, centers, rng)]
    lower = np.clip(np.searchsorted(centers, values, "right") - 1, 0, centers.size - 2)
    wide = values.astype(np.float64)
    deviation = np.sqrt((centers[lower + 1] - wide) * (wide - centers[lower]) / times)
    drawn = deviation > 1e-9  # a value that is a centre is certain
    error = (total / times - wide)[drawn] / deviation[drawn]
    assert np.abs(error).max() < 5
    assert (error**2).mean() == pytest.approx(1, abs=0.25)
    np.testing.assert_allclose((total / times)[~drawn], wide[~drawn], rtol=1e-6)


def test_a_client_that_was_away_is_sent_the_whole_model() -> None:
    ends = Ends.of("mucsc", clusters=K)
    ends.round()
    ends.round(("client-0", "client-1"))
    exchanges = {client: ends.exchange(client) for client in CLIENTS}
    for client, found in exchanges.items():
        assert_same(found.start, ends.state)
        assert (Section.LABELS in found.message.sections) == (client != "client-2")


def test_the_count_is_32_bits_a_centre_and_a_packed_label_a_weight() -> None:
    ends = Ends.of("mucsc", clusters=K)
    found = ends.exchange("client-0")
    bits = sum(
        32 * centers.size + size * int(np.ceil(np.log2(centers.size)))
        for size, centers in zip(SIZES, codebooks(found.reply), strict=True)
    )
    assert ends.server.method.paper_bits(found.reply, ends.server.layout) == bits
    assert ends.server.method.paper_bits(found.message, ends.server.layout) == 32 * WEIGHTS


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"clusters": 1}, "clusters must be from 2 to 4096: got 1"),
        ({"clusters": 5000}, "clusters must be from 2 to 4096: got 5000"),
        ({"labels": "rice"}, "labels must be one of packed, entropy, context: got 'rice'"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_may_be(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        fedcode.method("mucsc", **settings)
