"""What a run did, as a report needs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcode.errors import RunError
from fedcode.report.gathering import gather
from fedcode.report.trace import Trace


def history(study: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (study / name / "history.jsonl").read_text().splitlines()]


def test_columns_are_what_the_lines_say(study: Path) -> None:
    lines = history(study, "fedcode")
    trace = gather([study / "fedcode"]).traces[0]
    assert trace.accuracy.tolist() == [line["accuracy"] for line in lines]
    assert trace.down.tolist() == [line["bytes"]["down"] for line in lines]
    sent = [line["bytes"]["down"] + line["bytes"]["up"] for line in lines]
    assert trace.megabytes.tolist() == pytest.approx([sum(sent[: n + 1]) / 2**20 for n in range(len(sent))])
    assert trace.bits.tolist() == pytest.approx([8 * count / (6 * 500) for count in sent])
    assert trace.slowest["up"].tolist() == [2 * line["bytes"]["up"] // 4 for line in lines]
    assert [list(centers or ()) for centers in trace.centers] == [line["centers"] for line in lines]
    assert trace.parts["training"].sum() == pytest.approx(0.5 * len(lines))
    assert (trace.best, trace.best_round, trace.final) == (lines[-1]["accuracy"], 6, lines[-1]["accuracy"])
    assert trace.classes == [[5, 6, 7, 0], [5, 6, 7, 1], [5, 6, 7, 2]]


def test_rounds_without_evaluation_are_no_zeros(study: Path) -> None:
    lines = history(study, "fedcode")
    lines[0]["accuracy"] = lines[-1]["accuracy"] = None
    trace = Trace.of({"method": "fedcode", "rounds": 6}, lines, None, "history.jsonl")
    assert np.isnan(trace.accuracy[[0, -1]]).all()
    assert trace.best == trace.final == lines[-2]["accuracy"]
    assert trace.until(lines[1]["accuracy"]) == 2
    assert trace.until(0.99) is None


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("bytes", "down"), "many", r"bytes\.down should be a number of 0 or more, got 'many'"),
        (("bytes", "up"), -1, r"bytes\.up should be a number of 0 or more, got -1"),
        (("bytes",), None, r"bytes\.down should be .*, got None"),
        (("messages", "down"), True, r"messages\.down should be .*, got True"),
        (("accuracy",), float("inf"), r"accuracy should be .*, got inf"),
        (("seconds", "training"), [], r"seconds\.training should be .*, got \[\]"),
        (("centers",), ["a"], r"centers should be a list of at most 4096 numbers"),
        (("centers",), [], r"centers should be a list"),
        (("centers",), [float("nan")], r"centers should be a list"),
        (("per_client",), {"client-0": 7}, r"line 3, 'client-0' is damaged: down should be"),
    ],
)
def test_whatever_a_line_may_say_is_refused_by_its_name(
    study: Path, path: tuple[str, ...], value: object, words: str
) -> None:
    lines = history(study, "fedcode")
    place = lines[2]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(RunError, match=f"^the history, line 3.*{words.removeprefix('line 3')}"):
        Trace.of({}, lines, None, "the history")


@pytest.mark.parametrize("classes", [None, [], [[1, 2], [3]], [["a"]], [[-1]], {"a": 1}, [[]]])
def test_a_partition_that_is_none_is_left_out(classes: object) -> None:
    assert Trace.of({}, [], {"partition": {"classes": classes}}, "here").classes is None


@pytest.mark.parametrize("value", [True, "1", float("nan"), None, [1]])
def test_a_figure_that_is_no_number_is_none(value: object) -> None:
    assert Trace.of({}, [], {"dtr": {"total": value}}, "here").said("dtr", "total") is None
