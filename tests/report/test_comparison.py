"""The table of methods."""

from __future__ import annotations

import re
from pathlib import Path

from fedcode.report.comparison import Comparison
from fedcode.report.gathering import gather
from fedcode.report.link import Link
from tests.report.conftest import write_run


def best(comparison: Comparison) -> dict[str, list[str]]:
    """The labels that are marked, by column."""
    labels = [trace.label for trace in comparison.gathering.traces]
    return {
        column.head: [label for row, label in enumerate(labels) if comparison.is_best(row, at)]
        for at, column in enumerate(comparison.columns)
    }


def test_the_best_of_each_column_is_marked(study: Path) -> None:
    marked = best(Comparison(gather([study]), Link.of("4g")))
    assert marked["best %"] == ["fedavg"]
    assert marked["MB down"] == marked["MB up"] == marked["DTR"] == marked["on the air"] == ["delta"]
    assert marked["MB until 80 %"] == ["delta"]
    assert marked["rounds"] == marked["training"] == []


def test_half_a_run_is_no_bargain(tmp_path: Path) -> None:
    write_run(tmp_path / "fedavg", "fedavg", scale=5000)
    write_run(tmp_path / "fedcode", scale=4000)
    write_run(tmp_path / "half", rounds=1, wanted=6, scale=10)
    assert best(Comparison(gather([tmp_path])))["MB down"] == ["fedcode"]


def test_a_run_of_fewer_rounds_is_no_bargain_either(tmp_path: Path) -> None:
    write_run(tmp_path / "fedavg", "fedavg", rounds=6, scale=5000)
    write_run(tmp_path / "long", rounds=8, scale=4000)
    comparison = Comparison(gather([tmp_path]), Link.of("4g"))
    marked = best(comparison)
    assert [head for head in ("best %", "final %", "MB down", "MB up", "on the air") if marked[head]] == []
    assert marked["DTR"] == marked["MB until 80 %"] == ["long"]
    assert "These runs have 6 and 8 rounds: of figures of the whole run" in comparison.notes[0]


def test_an_unfinished_run_does_not_make_the_rest_uneven(tmp_path: Path) -> None:
    for name, method in (("fedavg", "fedavg"), ("fedcode", "fedcode")):
        write_run(tmp_path / name, method, scale=5000 - len(name))
    write_run(tmp_path / "half", rounds=1, wanted=6, scale=10)
    comparison = Comparison(gather([tmp_path]))
    assert comparison.lengths == [6]
    assert comparison.legend("*") == ["*: the best of its column among the runs that are finished."]


def test_a_mark_is_explained_where_there_is_one(study: Path) -> None:
    assert Comparison(gather([study])).legend("*") == ["*: the best of its column."]
    assert Comparison(gather([study])).legend("*", slice(-1, None)) == []  # of the number of rounds none is the best
    assert Comparison(gather([study / "fedavg"])).legend("*") == []


def test_the_target_is_said_once_and_with_its_value(study: Path) -> None:
    comparison = Comparison(gather([study]), Link.of("4g"))
    assert comparison.target is not None
    words = f"Until 80 %: of FedAvg's best accuracy, so until {100 * comparison.target:.2f} % was first reached."
    assert words in comparison.notes
    assert "Training: of all clients" in comparison.notes[-1]


def test_one_run_alone_has_no_best(study: Path) -> None:
    assert not any(best(Comparison(gather([study / "fedavg"]))).values())


def test_figures_are_those_of_the_runs(study: Path) -> None:
    comparison = Comparison(gather([study]))
    rows = {
        texts[0]: dict(zip(["run", *(c.head for c in comparison.columns)], texts, strict=True))
        for texts in comparison.texts()
    }
    trace = next(trace for trace in comparison.gathering.traces if trace.label == "fedcode")
    assert trace.best is not None
    assert rows["fedcode"]["best %"] == f"{100 * trace.best:.2f}"
    assert rows["fedcode"]["MB down"] == f"{trace.down.sum() / 2**20:.2f}"
    assert comparison.target is not None
    rounds = trace.until(comparison.target)
    assert rounds is not None
    assert rows["fedcode"]["MB until 80 %"] == f"{trace.megabytes[rounds - 1]:.2f}"
    assert str(comparison).splitlines()[1].split()[0] == comparison.texts()[0][0]


def test_a_label_is_text_wherever_it_stands(tmp_path: Path) -> None:
    write_run(tmp_path / "x", "fedavg", label="<b>|bold|</b>")
    comparison = Comparison(gather([tmp_path / "x"]))
    assert "<b>|" not in comparison.html()
    assert "&lt;b&gt;" in comparison.html()
    assert r"<b>\|bold\|</b>" in comparison.markdown()


def test_the_best_is_said_to_screen_readers(study: Path) -> None:
    comparison = Comparison(gather([study]))
    html = comparison.html()
    assert html.count('<span class="unseen"> (best)</span>') == sum(len(labels) for labels in best(comparison).values())
    assert len(re.findall(r'<th scope="col"', html)) == len(comparison.columns) + 1
    assert len(re.findall(r'<th scope="row"', html)) == 3


def test_runs_on_different_data_are_not_to_be_compared(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fedavg")
    write_run(tmp_path / "b", "fedavg", dataset="cifar10", beta=0.1)
    assert "These runs differ in dataset, beta:" in Comparison(gather([tmp_path])).notes[0]
    assert "differ" not in Comparison(gather([tmp_path / "a"])).notes[0]
