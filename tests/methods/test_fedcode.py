"""FedCode against algorithms 1 and 2 of its paper, as docs/reproduction.md reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import fedcode
from fedcode.coding import decode_labels
from fedcode.errors import ArgumentError, RefusedError
from fedcode.reader import Buffer
from fedcode.wire import Message, Section
from tests.methods.reference import kmeans, mean_row, nearest, rest_of
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

K = 8
SETTINGS: dict[str, Any] = {"clusters": K, "downlink": 0.5, "uplink": 1 / 3, "start": 1, "labels": "packed"}
# rounds:      1     2      3     4      5        6
# down full:   yes   yes    no    yes    no       yes
# up full:     yes   no     yes   no     no       yes


@dataclass
class Paper:
    """The two algorithms. `own`: what each client had after its last clustering."""

    state: Arrays
    own: dict[str, Arrays] = field(default_factory=dict)
    round: int = 1

    def full(self, frequency: float) -> bool:
        return self.round <= SETTINGS["start"] or self.round % round(1 / frequency) == 0

    def broadcast(self) -> tuple[Floats, Arrays]:
        """cluster(theta): the codebook, and the model as it decodes."""
        centers, labels = kmeans(row(self.state), K)
        return centers, self.state | placed(centers[labels], self.state)

    def start_of(self, client: str) -> Arrays:
        centers, decoded = self.broadcast()
        if self.full(SETTINGS["downlink"]) or client not in self.own:
            return decoded
        own = self.own[client]
        weights = row(own)
        return own | placed(centers[nearest(weights, centers)], own)

    def replies(self, trained: dict[str, Arrays]) -> None:
        codebooks, decoded = {}, {}
        for client, after in trained.items():
            codebooks[client], labels = kmeans(row(after), K)
            decoded[client] = codebooks[client][labels]
            self.own[client] = after | placed(decoded[client], after)
        if self.full(SETTINGS["uplink"]):
            self.state = placed(mean_row(decoded), self.state) | rest_of(trained)
        else:
            together = np.sort(np.concatenate(list(codebooks.values())))
            weights = row(self.state)
            self.state = self.state | placed(together[nearest(weights, together)], self.state)
        self.round += 1


def one_round(ends: Ends, paper: Paper, clients: tuple[str, ...]) -> dict[str, Exchange]:
    starts = {client: paper.start_of(client) for client in clients}
    exchanges = ends.round(clients)
    for client, found in exchanges.items():
        assert_same(found.start, starts[client])
    paper.replies({client: found.trained for client, found in exchanges.items()})
    assert_same(ends.state, paper.state)
    return exchanges


def test_six_rounds_as_the_algorithms_say() -> None:
    ends, paper = Ends.of("fedcode", **SETTINGS), Paper(model())
    shapes = [set(one_round(ends, paper, CLIENTS)["client-1"].message.sections) for _ in range(6)]
    assert [Section.LABELS in sections for sections in shapes] == [True, True, False, True, False, True]
    assert shapes[2] == shapes[4] == {Section.CENTERS}


def test_who_comes_late_or_was_away_is_served_as_he_stands() -> None:
    ends, paper = Ends.of("fedcode", **SETTINGS), Paper(model())
    for clients in (
        ("client-0", "client-1"),
        ("client-0", "client-1"),
        ("client-0", "client-2"),  # codebooks down: client-2 holds nothing and is sent the whole
        ("client-0", "client-1", "client-2"),
        ("client-1", "client-2"),
        ("client-0", "client-1"),
    ):
        one_round(ends, paper, clients)
    late = one_round(ends, paper, CLIENTS)  # round 7: client-2 was away in round 6 and snaps what it had in round 5
    assert set(late["client-2"].message.sections) == {Section.CENTERS}


def test_what_travels_in_each_kind_of_round() -> None:
    ends, paper = Ends.of("fedcode", **SETTINGS), Paper(model())
    for number in range(1, 7):
        centers, _ = paper.broadcast()
        for found in one_round(ends, paper, CLIENTS).values():
            sent, codebook = found.reply.sections, kmeans(row(found.trained), K)
            np.testing.assert_allclose(np.frombuffer(sent[Section.CENTERS], "<f4"), codebook[0], rtol=2e-6)
            assert (Section.LABELS in sent) == (number in (1, 3, 6))
            if Section.LABELS in sent:
                np.testing.assert_array_equal(decode_labels(sent[Section.LABELS], WEIGHTS, K), codebook[1])
                np.testing.assert_array_equal(
                    np.frombuffer(sent[Section.VALUES], "<f4"), row(found.trained, STATISTICS)
                )
            else:
                assert set(sent) == {Section.CENTERS}
            given = np.frombuffer(found.message.section(Section.CENTERS), "<f4")
            np.testing.assert_allclose(given, centers, rtol=2e-6)


def test_a_codebook_round_leaves_statistics_as_they_were() -> None:
    ends = Ends.of("fedcode", clusters=K, downlink=0, uplink=0, start=1)
    own = ends.round()["client-0"].trained
    before = ends.state
    found = ends.round()["client-0"]
    for name in STATISTICS:
        np.testing.assert_array_equal(ends.state[name], before[name])
        np.testing.assert_array_equal(found.start[name], own[name])
        assert not np.array_equal(found.start[name], before[name])  # the client's are its own


def test_the_server_snaps_its_unclustered_model() -> None:
    ends = Ends.of("fedcode", clusters=2, downlink=0, uplink=0, start=0)
    ends.round()
    # a clustered model has two values and would be left with two; the unclustered one reaches all six centres
    assert np.unique(row(ends.state)).size > 2


@pytest.mark.parametrize("labels", ["entropy", "context"])
def test_the_way_of_sending_labels_changes_no_number(labels: str) -> None:
    packed, other = (Ends.of("fedcode", **(SETTINGS | {"labels": way})) for way in ("packed", labels))
    for _ in range(6):
        packed.round()
        other.round()
        for name, value in packed.state.items():
            np.testing.assert_array_equal(other.state[name], value)


def test_statistics_at_eight_bits_change_no_weight_in_the_first_round() -> None:
    exact, coarse = (Ends.of("fedcode", **(SETTINGS | {"statistics": what})) for what in ("exact", "8bit"))
    starts = exact.exchange("client-0").start, coarse.exchange("client-0").start
    for name in TRAINED:
        np.testing.assert_array_equal(starts[0][name], starts[1][name])
    for name in STATISTICS:
        np.testing.assert_allclose(starts[1][name], starts[0][name], rtol=0.05, atol=0.02)
        assert not np.array_equal(starts[1][name], starts[0][name])


class TestSilent:
    """codebook_rounds="silent": such rounds carry a header alone."""

    def test_clients_train_on_and_the_server_stays_where_replies_are_silent(self) -> None:
        ends = Ends.of("fedcode", **SETTINGS, codebook_rounds="silent")
        own: dict[str, Arrays] = {}
        for number in range(1, 7):
            before = ends.state
            decoded = Paper(before).broadcast()[1]
            exchanges = ends.round()
            for client, found in exchanges.items():
                assert_same(found.start, own[client] if number in (3, 5) else decoded)
                # in round 6 the model is the one of round 4 still, and there is nothing to say either
                assert (found.message.sections == {}) == (number in (3, 5, 6))
                assert (found.reply.sections == {}) == (number in (2, 4, 5))
                centers, labels = kmeans(row(found.trained), K)
                own[client] = found.trained | placed(centers[labels], found.trained)
            if number in (2, 4, 5):
                for name, value in before.items():
                    np.testing.assert_array_equal(ends.state[name], value)
            else:
                weights = mean_row({client: row(own[client]) for client in exchanges})
                assert_same({name: ends.state[name] for name in TRAINED}, placed(weights, before))

    def test_they_are_nothing_by_the_papers_count_and_their_bytes_are_real(self) -> None:
        ends = Ends.of("fedcode", **SETTINGS, codebook_rounds="silent")
        for _ in range(4):
            ends.round()
        data, found = ends.server.message_for("client-0"), ends.exchange("client-0")  # round 5
        for message in (found.message, found.reply):
            assert ends.server.method.paper_bits(message, ends.server.layout) == 0
        assert 40 < len(data) < 100
        assert 40 < len(found.reply_bytes) < 100

    def test_a_new_client_is_sent_the_whole_even_so(self) -> None:
        ends = Ends.of("fedcode", **SETTINGS, codebook_rounds="silent")
        for _ in range(2):
            ends.round(("client-0",))
        assert Section.LABELS in ends.exchange("client-2").message.sections


def test_the_paper_counts_codebooks_and_packed_labels() -> None:
    ends = Ends.of("fedcode", **(SETTINGS | {"labels": "context"}))
    counted = []
    for _ in range(6):
        found = ends.round()["client-0"]
        counted.append([ends.server.method.paper_bits(m, ends.server.layout) for m in (found.message, found.reply)])
    whole, alone = 32 * K + 3 * WEIGHTS, 32 * K
    down, up = zip(*counted, strict=True)
    assert down == (whole, whole, alone, whole, alone, whole)
    assert up == (whole, alone, whole, alone, alone, whole)


@pytest.mark.parametrize("number", [1, 2])
def test_a_reply_of_the_other_kind_is_refused(number: int) -> None:
    ends = Ends.of("fedcode", clusters=K, downlink=0, uplink=0, start=1)
    whole = ends.round()["client-0"].reply
    alone = ends.exchange("client-0").reply
    if number == 1:
        ends = Ends.of("fedcode", clusters=K, downlink=0, uplink=0, start=1)
        good = ends.exchange("client-0").reply
        forged: dict[int, Buffer] = {Section.CENTERS: alone.section(Section.CENTERS)}
    else:
        good, forged = alone, {**whole.sections}
    bad = Message(**{**vars(good), "sections": forged}).to_bytes()
    before = ends.state
    with pytest.raises(RefusedError, match="something else came"):
        ends.server.accept("client-0", bad)
    ends.server.finish_round()
    for name, value in before.items():
        np.testing.assert_array_equal(ends.state[name], value)


@pytest.mark.parametrize("whole", [True, False])
def test_more_centres_than_were_asked_for_are_refused(whole: bool) -> None:
    few, many = (Ends.of("fedcode", clusters=k, uplink=0, start=int(whole), labels="packed") for k in (K, 2 * K))
    said, forged = few.exchange("client-0").reply, many.exchange("client-0").reply
    assert (Section.LABELS in forged.sections) == whole
    bad = Message(**{**vars(said), "sections": forged.sections})
    with pytest.raises(RefusedError, match="8 centres were asked for, client-0 sent 16"):
        few.server.accept("client-0", bad.to_bytes())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"clusters": 1}, "clusters must be from 2 to 4096: got 1"),
        ({"downlink": -0.1}, "a frequency is a share of the rounds, from 0 .* to 1 .*got -0.1"),
        ({"uplink": 1.5}, "a frequency is a share of the rounds, from 0 .* to 1 .*got 1.5"),
        ({"start": -1}, "start must be a number of rounds, 0 or more: got -1"),
        ({"codebook_rounds": "quiet"}, "codebook_rounds must be one of sent, silent: got 'quiet'"),
        ({"labels": "zip"}, "labels must be one of packed, entropy, context: got 'zip'"),
        ({"statistics": "half"}, "statistics must be one of exact, 8bit: got 'half'"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_may_be(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        fedcode.method("fedcode", **settings)


def test_the_defaults_are_the_papers_for_resnet20() -> None:
    settings = fedcode.method("fedcode").settings()
    assert [settings[name] for name in ("clusters", "downlink", "uplink", "start")] == [64, 0.2, 0.5, 2]
