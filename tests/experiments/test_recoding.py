"""What other codings of the labels would have cost, against runs that used them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedcode.base_message import LABELS
from fedcode.events import RunDone
from fedcode.experiments.cell import Cell
from fedcode.experiments.recoding import recoded, recodes
from fedcode.experiments.runner import How, events
from fedcode.methods import method
from fedcode.rundir import read

Ran = tuple[dict[str, Any], dict[str, dict[str, int]]]


def run(coding: str, runs: Path) -> Ran:
    """A short run with labels sent so: its summary, and the bytes that the other codings would have come to."""
    cell = Cell(
        method="fedcode",
        settings=(("clusters", 16), ("downlink", 0.5), ("labels", coding), ("start", 1), ("uplink", 1.0)),
        dataset="digits",
        network="digits",
        scale="digits",
        rounds=4,
        epochs=1,
        clients=4,
    )
    *_, last = events(cell, How(runs=runs, workers=1))
    assert isinstance(last, RunDone)
    found = recoded(runs / cell.key, last.summary)
    assert found is not None
    return dict(last.summary) | {"history": read(runs / cell.key).history}, found["bytes"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    place = tmp_path_factory.mktemp("recoding")
    return {coding: run(coding, place) for coding in LABELS}


def test_what_is_counted_is_what_a_run_with_that_coding_sends(runs: dict[str, Ran]) -> None:
    for coding, (summary, _) in runs.items():
        sent = {way: summary["bytes"][way] for way in ("down", "up")}
        for _, other in runs.values():
            assert other[coding] == pytest.approx(sent, abs=40)  # a header's field may be a digit shorter
    summary, own = runs["context"]
    assert own["context"] == {way: summary["bytes"][way] for way in ("down", "up")}


def test_how_labels_are_coded_changes_no_accuracy_and_saves_bytes(runs: dict[str, Ran]) -> None:
    curves = [[(line["accuracy"], line["loss"]) for line in summary["history"]] for summary, _ in runs.values()]
    assert curves[0] == curves[1] == curves[2]
    packed, _, context = (sum(runs["packed"][1][coding].values()) for coding in LABELS)
    assert context < 0.8 * packed


def test_a_run_that_was_not_watched_from_the_first_round_says_nothing(tmp_path: Path) -> None:
    assert recoded(tmp_path, {"rounds": 2}) is None
    (tmp_path / "recoded.jsonl").write_text('{"bytes": {}, "messages": {}}\n')
    assert recoded(tmp_path, {"rounds": 2}) is None


def test_only_methods_that_send_labels_are_coded_again() -> None:
    assert {name for name in ("fedavg", "fedavg_ws", "fedcode", "fedzip", "delta") if recodes(method(name))} == {
        "fedavg_ws",
        "fedcode",
    }
