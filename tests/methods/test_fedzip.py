"""FedZip against its paper: pruning, k-means and Huffman's code layer by layer, of the update and upstream alone."""

from __future__ import annotations

import numpy as np
import pytest

import fedcode
from fedcode.coding import encode_labels
from fedcode.errors import ArgumentError, MessageError
from fedcode.methods.fedzip import _write_symbols, huffman_bits
from fedcode.topk import write_positions
from fedcode.wire import Message, Section
from tests.methods.reference import kmeans, largest, mean_row, rest_of
from tests.methods.rounds import (
    CLIENTS,
    MATRICES,
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


def zipped(change: Floats, kept: int, clusters: int) -> tuple[Floats, Floats]:
    """One layer: top-z and k-means of what is kept; the centres, and the layer as the server decodes it."""
    out: Floats = np.zeros(change.size)
    where = largest(change, kept)
    centers, labels = kmeans(change[where], clusters)
    out[where] = centers[labels]
    return centers, out


def layers(found: Exchange, keep: float, clusters: int) -> dict[str, tuple[Floats, Floats]]:
    """Every layer of a client's update; biases and the like are not pruned."""
    zips = {}
    for name in TRAINED:
        change = (found.trained[name] - found.start[name]).astype(np.float64).reshape(-1)
        kept = int(keep * change.size) if name in MATRICES else change.size
        zips[name] = zipped(change, kept, clusters)
    return zips


def huffman_by_hand(counts: list[int]) -> int:
    """Join the two rarest until one is left; each joint adds a bit to all below it."""
    counts = sorted(count for count in counts if count)
    if len(counts) == 1:
        return counts[0]
    bits = 0
    while len(counts) > 1:
        joint = counts.pop(0) + counts.pop(0)
        bits += joint
        counts = sorted([*counts, joint])
    return bits


@pytest.mark.parametrize(("clusters", "keep"), [(15, 0.18), (3, 0.3), (15, 1.0)])
def test_three_rounds_as_the_paper_says(clusters: int, keep: float) -> None:
    ends, state = Ends.of("fedzip", clusters=clusters, keep=keep), model()
    for _ in range(3):
        exchanges = ends.round()
        updates: dict[str, Floats] = {}
        for client, found in exchanges.items():
            assert_same(found.start, state)
            updates[client] = np.concatenate([layer for _, layer in layers(found, keep, clusters).values()])
        trained = {client: found.trained for client, found in exchanges.items()}
        state = placed(row(state) + mean_row(updates), state) | rest_of(trained)
        assert_same(ends.state, state)
        state = ends.state


def decoded(ends: Ends, found: Exchange) -> Arrays:
    """What the server makes of one reply alone: its model after it less the one before."""
    alone = Ends(ends.server.method.restore(ends.server.to_bytes()))
    alone.server.message_for("client-0")
    alone.server.accept("client-0", found.reply_bytes)
    alone.server.finish_round()
    return {name: alone.state[name].astype(np.float64) - ends.state[name] for name in TRAINED}


def test_a_reply_holds_the_centres_and_symbols_of_each_layer() -> None:
    ends = Ends.of("fedzip")
    found = ends.exchange("client-0")
    expected = layers(found, 0.18, 15)
    centers = np.frombuffer(found.reply.section(Section.CENTERS), "<f4")
    np.testing.assert_allclose(centers, np.concatenate([own for own, _ in expected.values()]), rtol=1e-6)
    for name, change in decoded(ends, found).items():
        np.testing.assert_allclose(change.reshape(-1), expected[name][1], rtol=2e-5, atol=2e-7)
    np.testing.assert_array_equal(
        np.frombuffer(found.reply.section(Section.VALUES), "<f4"), row(found.trained, STATISTICS)
    )


def test_biases_and_normalisation_weights_are_not_pruned() -> None:
    ends = Ends.of("fedzip", keep=0.02)
    change = decoded(ends, ends.exchange("client-0"))
    assert np.count_nonzero(change["conv.weight"]) == int(0.02 * 108)
    assert np.count_nonzero(change["fc.weight"]) == 1  # 1.92, rounded down
    for name in set(TRAINED) - set(MATRICES):
        assert np.count_nonzero(change[name]) == change[name].size


def test_the_papers_count_is_huffmans_code_and_a_codebook_a_layer() -> None:
    ends = Ends.of("fedzip")
    found = ends.exchange("client-0")
    bits = 0
    for centers, layer in layers(found, 0.18, 15).values():
        bits += huffman_by_hand(np.unique(layer, return_counts=True)[1].tolist()) + 32 * centers.size
    assert ends.server.method.paper_bits(found.reply, ends.server.layout) == bits
    assert ends.server.method.paper_bits(found.message, ends.server.layout) == 32 * WEIGHTS


def test_huffmans_length_agrees_with_joining_by_hand() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        counts = rng.integers(0, 40, int(rng.integers(1, 17)))
        counts[0] += 1
        assert huffman_bits(counts) == huffman_by_hand(counts.tolist())


def reply_of(change: Floats, keep: float) -> Message:
    """The reply of a client whose only layer changes like this."""
    ends = Ends.of("fedzip", {"w": np.zeros((change.size // 100, 100), np.float32)}, keep=keep)
    ends.training = lambda start, client, round: {"w": start["w"] + change.reshape(-1, 100).astype(np.float32)}
    return ends.exchange("client-0").reply


def test_zeros_are_symbols_or_what_is_kept_has_positions_whichever_is_smaller() -> None:
    rng = np.random.default_rng(0)
    spread = rng.normal(size=20_000)
    clumped = np.where(np.arange(20_000) < 2000, spread, spread * 1e-3)  # what is kept stands together
    dense = reply_of(spread, keep=1.0)
    sparse = reply_of(clumped, keep=0.05)
    assert Section.POSITIONS not in dense.sections
    assert Section.POSITIONS in sparse.sections
    sent = len(sparse.section(Section.LABELS)) + len(sparse.section(Section.POSITIONS))
    assert sent < 0.8 * 20_000 / 8 * (0.05 * np.log2(15 / 0.05) + 0.95 * np.log2(1 / 0.95))  # zeros as symbols


def test_labels_packed_or_coded_say_the_same() -> None:
    packed, coded, context = (Ends.of("fedzip", labels=labels) for labels in ("packed", "entropy", "context"))
    for _ in range(2):
        found = packed.round()["client-0"]
        assert len(found.reply.section(Section.LABELS)) == 1 + WEIGHTS * 4 // 8  # fifteen centres and zero
        coded.round()
        context.round()
        for name, value in packed.state.items():
            np.testing.assert_array_equal(coded.state[name], value)
            np.testing.assert_array_equal(context.state[name], value)
    sizes = [len(ends.exchange("client-0").reply_bytes) for ends in (packed, coded, context)]
    assert sizes[0] > sizes[1] == sizes[2]


def test_whichever_is_smaller_is_what_trying_both_finds() -> None:
    rng = np.random.default_rng(1)
    for count in (10, 300, 5000, 60_000):
        for share in (0.001, 0.05, 0.18, 0.6, 1.0):
            kept = rng.random(count) < share * (np.arange(count) % 1000 < 500) * 2
            symbols = (kept * rng.integers(1, 16, count)).astype(np.uint8)
            where = np.flatnonzero(symbols)
            dense = len(encode_labels(symbols, 16))
            sparse = len(write_positions(where, count)) + len(encode_labels(symbols[where] - np.uint8(1), 15))
            sent = _write_symbols(symbols, 15)
            assert sum(len(body) for body in sent.values()) == min(dense, sparse)


def test_a_layer_that_did_not_change_has_no_centre() -> None:
    ends = Ends.of("fedzip")
    ends.training = lambda start, client, round: {
        name: value if name in TRAINED[:1] else value + 1 for name, value in start.items()
    }
    before = ends.state
    ends.round(CLIENTS)
    np.testing.assert_array_equal(ends.state["conv.weight"], before["conv.weight"])
    np.testing.assert_allclose(ends.state["fc.bias"], before["fc.bias"] + 1, rtol=1e-6)


def test_a_label_beyond_its_layers_centres_is_refused() -> None:
    ends = Ends.of("fedzip")
    reply = ends.exchange("client-0").reply
    sizes = bytearray(reply.section(Section.SIZES))
    assert sizes[0] == 1  # a byte each, twice the size
    sizes[1] -= 2  # one centre of the convolution goes over to a vector
    sizes[3] += 2
    forged = Message(**{**vars(reply), "sections": {**reply.sections, Section.SIZES: bytes(sizes)}})
    with pytest.raises(MessageError, match=r"a label of 'conv\.weight' is beyond its 14 centres"):
        ends.server.accept("client-0", forged.to_bytes())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"clusters": 1}, "clusters must be from 2 to 255: got 1"),
        ({"clusters": 256}, "clusters must be from 2 to 255: got 256"),
        ({"labels": "huffman"}, "labels must be one of packed, entropy, context: got 'huffman'"),
        ({"keep": 0}, "keep must be a share of the weights, above 0 and up to 1: got 0"),
        ({"keep": 1.1}, "keep must be a share of the weights, above 0 and up to 1: got 1.1"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_may_be(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        fedcode.method("fedzip", **settings)


def test_the_default_is_what_fedcode_ran() -> None:
    assert fedcode.method("fedzip").settings()["clusters"] == 15
