"""FedAvg_ws: both routes clustered before every message, as the FedCode paper's baseline."""

from __future__ import annotations

import numpy as np
import pytest

import fedcode
from fedcode.coding import decode_labels
from fedcode.errors import ArgumentError
from fedcode.wire import Section
from tests.methods.reference import kmeans, mean_row, rest_of
from tests.methods.rounds import (
    CLIENTS,
    COUNTER,
    STATISTICS,
    WEIGHTS,
    Ends,
    Floats,
    assert_same,
    model,
    placed,
    row,
)

K = 8


def clustered(weights: Floats) -> Floats:
    centers, labels = kmeans(weights, K)
    return centers[labels]


@pytest.mark.parametrize("labels", ["packed", "entropy", "context"])
def test_three_rounds_as_the_paper_says_however_labels_are_sent(labels: str) -> None:
    ends, state = Ends.of("fedavg_ws", clusters=K, labels=labels), model()
    for _ in range(3):
        exchanges = ends.round()
        start = state | placed(clustered(row(state)), state)
        for found in exchanges.values():
            assert_same(found.start, start)
        trained = {client: found.trained for client, found in exchanges.items()}
        weights = mean_row({client: clustered(row(found)) for client, found in trained.items()})
        state = placed(weights, state) | rest_of(trained)
        assert_same(ends.state, state)


def test_what_travels_is_codebook_and_labels_and_statistics_as_they_are() -> None:
    found = Ends.of("fedavg_ws", clusters=K, labels="packed").exchange("client-0")
    for message, state in ((found.message, model()), (found.reply, found.trained)):
        centers, labels = kmeans(row(state), K)
        np.testing.assert_allclose(np.frombuffer(message.section(Section.CENTERS), "<f4"), centers, rtol=1e-6)
        np.testing.assert_array_equal(decode_labels(message.section(Section.LABELS), WEIGHTS, K), labels)
        np.testing.assert_array_equal(np.frombuffer(message.section(Section.VALUES), "<f4"), row(state, STATISTICS))
        assert len(message.section(Section.LABELS)) == 1 + -(-WEIGHTS * 3 // 8)


def test_labels_given_what_the_other_end_holds_are_smaller_and_say_the_same() -> None:
    def bytes_of_labels(labels: str) -> int:
        # a model large enough for an entropy coder, which moves little
        big = {"w": np.random.default_rng(0).normal(size=(200, 100)).astype(np.float32)}
        ends = Ends.of("fedavg_ws", big, clusters=64, labels=labels)
        ends.training = lambda start, client, round: {
            "w": start["w"] + np.random.default_rng(round).normal(0, 0.01, (200, 100)).astype(np.float32)
        }
        ends.round()
        found = ends.exchange("client-0")
        return len(found.message.section(Section.LABELS)) + len(found.reply.section(Section.LABELS))

    sizes = [bytes_of_labels(labels) for labels in ("context", "entropy", "packed")]
    assert sizes[0] < 0.5 * sizes[1] < 0.5 * sizes[2]


def test_statistics_at_eight_bits_stay_near_and_variances_positive() -> None:
    exact, coarse = (Ends.of("fedavg_ws", clusters=K, statistics=what) for what in ("exact", "8bit"))
    for _ in range(2):
        exact.round(CLIENTS)
        coarse.round(CLIENTS)
    np.testing.assert_allclose(coarse.state["bn.running_var"], exact.state["bn.running_var"], rtol=0.05)
    np.testing.assert_allclose(coarse.state["bn.running_mean"], exact.state["bn.running_mean"], atol=0.02)
    assert not np.array_equal(coarse.state["bn.running_var"], exact.state["bn.running_var"])
    assert (coarse.state["bn.running_var"] > 0).all()
    assert coarse.state[COUNTER] == exact.state[COUNTER]


def test_the_paper_counts_a_codebook_and_packed_labels_each_way() -> None:
    ends = Ends.of("fedavg_ws", clusters=K)
    found = ends.exchange("client-0")
    for message in (found.message, found.reply):
        assert ends.server.method.paper_bits(message, ends.server.layout) == 32 * K + 3 * WEIGHTS


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"clusters": 1}, "clusters must be from 2 to 4096: got 1"),
        ({"clusters": 4097}, "clusters must be from 2 to 4096: got 4097"),
        ({"labels": "huffman"}, "labels must be one of packed, entropy, context: got 'huffman'"),
        ({"statistics": "none"}, "statistics must be one of exact, 8bit: got 'none'"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_may_be(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        fedcode.method("fedavg_ws", **settings)
