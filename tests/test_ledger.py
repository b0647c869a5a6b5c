"""What left, counted to the byte; DTR and the paper's count beside it."""

from __future__ import annotations

import json

import pytest

import fedcode
from fedcode import methods
from fedcode.ledger import Ledger, Traffic, fedavg_sizes
from fedcode.paper_count import full_bits, raw_bits
from fedcode.rehearsal import Rehearsal, models


def counted(name: str, rounds: int = 3, **settings: object) -> tuple[Ledger, Rehearsal, list[Traffic]]:
    rehearsal = Rehearsal.of(fedcode.method(name, **settings))
    ledger = Ledger(rehearsal.server.layout, rehearsal.server.method, fedavg_sizes(models()["plain"]))
    lines = []
    for _ in range(rounds):
        sent, came = len(rehearsal.sent), len(rehearsal.came)
        rehearsal.round("ab")
        for client, message in zip("ab", rehearsal.sent[sent:], strict=True):
            ledger.sent(client, message)
        for client, reply in zip("ab", rehearsal.came[came:], strict=True):
            ledger.came(client, reply)
        lines.append(ledger.finish_round())
    return ledger, rehearsal, lines


def test_fedavg_is_its_own_measure() -> None:
    ledger, rehearsal, _ = counted("fedavg")
    figures = ledger.totals.figures()
    assert figures["dtr"] == {"down": 1.0, "up": 1.0, "total": 1.0}
    assert figures["paper_dtr"] == {"down": 1.0, "up": 1.0, "total": 1.0}
    assert figures["bits_per_parameter"] > 32  # statistics, counters and headers are counted too
    assert figures["messages"] == {"down": 6, "up": 6, "evaluate": 0}
    assert figures["bytes"]["down"] == sum(map(len, rehearsal.sent))
    assert figures["megabytes"]["total"] == (sum(map(len, rehearsal.sent + rehearsal.came))) / 2**20


def test_a_reduction_is_by_the_bytes_that_left() -> None:
    ledger, rehearsal, _ = counted("fedavg_ws", clusters=4)
    down, up = fedavg_sizes(models()["plain"])
    dtr = ledger.totals.figures()["dtr"]
    assert dtr["down"] == 6 * down / sum(map(len, rehearsal.sent))
    assert dtr["up"] == 6 * up / sum(map(len, rehearsal.came))
    assert dtr["total"] == 6 * (down + up) / sum(map(len, rehearsal.sent + rehearsal.came))


def test_the_papers_count_is_packed_whatever_is_sent() -> None:
    weights = models()["plain"].layout.weights
    for labels in ("packed", "entropy", "context"):
        ledger, _, lines = counted("fedavg_ws", clusters=4, labels=labels)
        assert [line.paper_bits for line in lines] == 3 * [
            {"down": 2 * full_bits(weights, 4), "up": 2 * full_bits(weights, 4)}
        ]
        ratio = raw_bits(weights) / full_bits(weights, 4)
        assert ledger.totals.figures()["paper_dtr"]["total"] == pytest.approx(ratio)


def test_a_method_whose_paper_gives_no_count_has_none() -> None:
    ledger, _, lines = counted("delta")
    assert lines[0].paper_bits == {"down": None, "up": None}
    assert ledger.totals.figures()["paper_dtr"] == {"down": None, "up": None, "total": None}
    json.dumps(ledger.totals.figures())


def test_bytes_by_client_and_direction() -> None:
    _, rehearsal, lines = counted("fedcode", rounds=2, clusters=4)
    assert lines[1].per_client == {
        client: {"down": len(down), "up": len(up)}
        for client, down, up in zip("ab", rehearsal.sent[2:], rehearsal.came[2:], strict=True)
    }


def test_evaluation_is_a_column_of_its_own_and_in_no_figure() -> None:
    ledger, rehearsal, _ = counted("fedavg_ws", clusters=4)
    before = ledger.totals.figures()
    message = rehearsal.server.message_for("a", evaluate=True)
    ledger.evaluated("a", message)
    traffic = ledger.finish_round()
    assert traffic.bytes == {"down": 0, "up": 0, "evaluate": len(message)}
    assert traffic.per_client == {"a": {"down": 0, "up": 0, "evaluate": len(message)}}
    after = ledger.totals.figures()
    assert {name: after[name] for name in ("dtr", "paper_dtr", "bits_per_parameter")} == {
        name: before[name] for name in ("dtr", "paper_dtr", "bits_per_parameter")
    }
    assert after["bytes"]["evaluate"] == len(message)


def test_what_nobody_can_read_is_counted_by_its_bytes() -> None:
    ledger, _, _ = counted("fedavg_ws", rounds=0, clusters=4)
    ledger.came("a", b"x" * 1000)
    traffic = ledger.finish_round()
    assert (traffic.bytes["up"], traffic.messages["up"], traffic.paper_bits["up"]) == (1000, 1, 0)


def test_a_message_sent_twice_to_a_client_is_one_of_fedavgs() -> None:
    """A client that had lost its memory costs its method two messages, where FedAvg would have sent one."""
    ledger, rehearsal, _ = counted("fedavg_ws", clusters=4)
    down, _ = fedavg_sizes(models()["plain"])
    before = ledger.totals.fedavg["down"]
    message = rehearsal.server.message_for("a")
    ledger.sent("a", message)
    ledger.sent("a", message)
    traffic = ledger.finish_round()
    assert traffic.per_client["a"]["down"] == 2 * len(message)
    assert ledger.totals.fedavg["down"] - before == down


@pytest.mark.parametrize("name", methods.names())
def test_a_history_read_back_gives_the_same_totals(name: str) -> None:
    ledger, rehearsal, lines = counted(name, rounds=2)
    again = Ledger(rehearsal.server.layout, rehearsal.server.method, fedavg_sizes(models()["plain"]))
    again.restore([json.loads(json.dumps(line.record())) for line in lines])
    assert again.totals == ledger.totals
