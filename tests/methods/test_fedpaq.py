"""FedPAQ against algorithm 1 of its paper, with the quantiser of QSGD, section 3."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

import fedcode
from fedcode.coding import decode_labels
from fedcode.errors import ArgumentError, MessageError
from fedcode.methods.fedpaq import quantise, restore
from fedcode.wire import Message, Section
from tests.methods.reference import mean_row, rest_of
from tests.methods.rounds import (
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
)

S, BUCKET = 7, 50


def draws(found: Exchange, client: str) -> Floats:
    """A number from 0 to 1 for every weight: from the message's seed and round and the client's name."""
    name = int.from_bytes(hashlib.blake2b(client.encode(), digest_size=8).digest(), "little")
    uniform: Floats = np.random.default_rng([found.message.seed, found.message.round, name]).random(WEIGHTS)
    return uniform


def qsgd(values: Floats, drawn: Floats) -> tuple[Floats, Floats]:
    """Q of one bucket: |v| sign(v_i) xi_i, xi_i = (l + 1) / s with probability s |v_i| / |v| - l, else l / s."""
    norm = float(np.float32(np.linalg.norm(values)))
    levels = np.empty(values.size)
    for i, (value, uniform) in enumerate(zip(values, drawn, strict=True)):
        ratio = S * abs(value) / norm
        level = math.floor(ratio)
        levels[i] = np.sign(value) * (level + 1 if uniform < ratio - level else level)
    return levels, norm * levels / S


def quantised(found: Exchange, client: str) -> tuple[Floats, Floats]:
    change = (row(found.trained) - row(found.start)).astype(np.float32).astype(np.float64)
    drawn = draws(found, client)
    parts = [qsgd(change[a : a + BUCKET], drawn[a : a + BUCKET]) for a in range(0, WEIGHTS, BUCKET)]
    return np.concatenate([levels for levels, _ in parts]), np.concatenate([values for _, values in parts])


@pytest.mark.parametrize("labels", ["packed", "entropy", "context"])
def test_three_rounds_as_the_paper_says_however_labels_are_sent(labels: str) -> None:
    ends, state = Ends.of("fedpaq", levels=S, bucket=BUCKET, labels=labels), model()
    for _ in range(3):
        exchanges = ends.round()
        updates = {}
        for client, found in exchanges.items():
            assert_same(found.start, state)
            _, updates[client] = quantised(found, client)
        trained = {client: found.trained for client, found in exchanges.items()}
        state = placed(row(state) + mean_row(updates), state) | rest_of(trained)
        assert_same(ends.state, state)
        state = ends.state


def test_a_reply_holds_levels_and_a_norm_a_bucket() -> None:
    ends = Ends.of("fedpaq", levels=S, bucket=BUCKET)
    found = ends.exchange("client-1")
    levels, _ = quantised(found, "client-1")
    np.testing.assert_array_equal(decode_labels(found.reply.section(Section.LABELS), WEIGHTS, 2 * S + 1), levels + S)
    change = row(found.trained) - row(found.start)
    norms = [np.linalg.norm(change[a : a + BUCKET]) for a in range(0, WEIGHTS, BUCKET)]
    np.testing.assert_allclose(np.frombuffer(found.reply.section(Section.SCALES), "<f4"), norms, rtol=1e-5)
    np.testing.assert_array_equal(
        np.frombuffer(found.reply.section(Section.VALUES), "<f4"), row(found.trained, STATISTICS)
    )
    np.testing.assert_array_equal(
        np.frombuffer(found.message.section(Section.VALUES), "<f4"), row(found.start, (*TRAINED, *STATISTICS))
    )


def test_the_quantiser_is_unbiased_with_the_variance_that_two_neighbours_leave() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_t(3, 700).astype(np.float32)
    times = 4000
    total, square = np.zeros(700), np.zeros(700)
    for _ in range(times):
        found = restore(*quantise(values, S, 512, rng), S, 512)
        total += found
        square += (found - values) ** 2
    norms = np.repeat([np.linalg.norm(values[:512]), np.linalg.norm(values[512:])], [512, 188])
    ratio = S * np.abs(values) / norms
    spread = np.sqrt((ratio % 1) * (1 - ratio % 1)) * norms / S
    certain = spread < 1e-3  # a value on a level has no spread but rounding
    error = np.abs(total / times - values) / np.where(certain, 1, spread / np.sqrt(times))
    assert error[~certain].max() < 5  # of 700, one in a thousand lies beyond 3.3 standard deviations
    assert (error[~certain] ** 2).mean() == pytest.approx(1, abs=0.25)
    assert error[certain].max(initial=0) < 1e-3
    np.testing.assert_allclose(np.sqrt((square / times).sum()), np.sqrt((spread**2).sum()), rtol=0.02)


def test_one_norm_for_a_whole_model_drowns_it_in_noise() -> None:
    values = np.random.default_rng(0).normal(size=100_000).astype(np.float32)
    errors = []
    for bucket in (512, values.size):
        found = restore(*quantise(values, S, bucket, np.random.default_rng(1)), S, bucket)
        errors.append(float(np.square(found - values).mean()))
    assert errors[1] > 10 * errors[0]


def test_a_bucket_of_zeros_stays_zero() -> None:
    values = np.zeros(5, np.float32)
    places, norms = quantise(values, S, 2, np.random.default_rng(0))
    assert not norms.any()
    assert not restore(places, norms, S, 2).any()


def test_the_paper_counts_log2_of_the_levels_and_a_norm_a_bucket() -> None:
    ends = Ends.of("fedpaq", levels=S, bucket=BUCKET)
    found = ends.exchange("client-0")
    counted = ends.server.method.paper_bits(found.reply, ends.server.layout)
    assert counted == math.ceil(WEIGHTS * math.log2(2 * S + 1)) + 32 * 5
    assert ends.server.method.paper_bits(found.message, ends.server.layout) == 32 * WEIGHTS


def test_entropy_coded_levels_are_smaller_than_the_count() -> None:
    sizes = {}
    for labels in ("packed", "entropy"):
        ends = Ends.of("fedpaq", {"w": np.zeros((100, 100), np.float32)}, labels=labels)
        ends.training = lambda start, client, round: {
            "w": np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32)
        }
        sizes[labels] = len(ends.exchange("client-0").reply.section(Section.LABELS))
    assert sizes["packed"] == 1 + 10_000 * 4 // 8
    assert sizes["entropy"] < 0.6 * 10_000 * math.log2(15) / 8  # most levels are -1, 0 and 1


@pytest.mark.parametrize("norm", [-1.0, float("nan"), float("inf")])
def test_a_norm_that_is_none_is_refused(norm: float) -> None:
    ends = Ends.of("fedpaq")
    reply = ends.exchange("client-0").reply
    forged = {**reply.sections, Section.SCALES: np.array([norm], "<f4").tobytes()}
    with pytest.raises(MessageError, match="negative, NaN or infinite"):
        ends.server.accept("client-0", Message(**{**vars(reply), "sections": forged}).to_bytes())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"levels": 0}, "levels must be from 1 to 32767: got 0"),
        ({"levels": 40_000}, "levels must be from 1 to 32767: got 40000"),
        ({"bucket": 0}, "bucket must be from 1 to .*: got 0"),
        ({"labels": "rice"}, "labels must be one of packed, entropy, context: got 'rice'"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_may_be(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        fedcode.method("fedpaq", **settings)


def test_the_defaults_are_four_bits_and_buckets_of_512() -> None:
    settings = fedcode.method("fedpaq").settings()
    assert (settings["levels"], settings["bucket"]) == (7, 512)
    assert math.ceil(math.log2(2 * settings["levels"] + 1)) == 4
