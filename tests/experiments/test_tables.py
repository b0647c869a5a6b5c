"""Tables from made-up records: what they say is what went in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedcode.experiments.plan import Plan
from fedcode.experiments.results import Results
from fedcode.experiments.table import Column, Table
from fedcode.experiments.tables import measured

MIB = 2**20


def record(cell: Any, best: float, megabytes: float, *, half: float | None = None, **how: Any) -> dict[str, Any]:
    """A record of two rounds that send the same, the better round being the second."""
    sent = int(megabytes * MIB / 4)
    history = {"accuracy": [half if half is not None else best / 2, best]}
    history |= {name: [sent, sent] for name in ("bytes_down", "bytes_up")}
    history |= {name: [10, 10] for name in ("messages_down", "messages_up")}
    return {
        "cell": cell.document(),
        "computed": {"device": "cpu", "workers": 1, "precision": "float32", "compile": False} | how,
        "summary": {
            "accuracy": {"best": best, "final": best - 0.01, "best_round": 2},
            "bytes": {"down": 2 * sent, "up": 2 * sent},
            "megabytes": {"down": megabytes / 2, "up": megabytes / 2, "total": megabytes},
            "dtr": {"down": 2.0, "up": 3.0, "total": 2.4},
            "paper_dtr": {"down": 2.0, "up": 2.0, "total": 2.0},
            "bits_per_parameter": 4.0,
            "parameters": 1000,
            "rounds": 2,
            "machine": {"processor": "a processor", "gpu": "a GPU"},
            "versions": {"torch": "2"},
        },
        "recoded": None,
        "history": history,
    }


def filled(plan: Plan, figures: dict[tuple[str, int], tuple[float, float]]) -> Results:
    """Results with a record for each (method, seed) that has figures."""
    results = Results(Path("nowhere"))
    for cell in plan.cells():
        if (cell.method, cell.seed) in figures:
            results.add(cell.key, record(cell, *figures[cell.method, cell.seed]))
    return results


def row(table: Table, label: str) -> dict[str, Any]:
    values = next(values for values in table.rows if values[0] == label)
    return dict(zip(table.heads, values, strict=True))


def test_a_line_says_the_mean_over_seeds_and_the_paired_interval() -> None:
    plan = Plan("figure-bitrate", dataset="digits", seeds=(0, 1, 2))
    fedavg = {("fedavg", seed): (accuracy, 8.0) for seed, accuracy in enumerate((0.80, 0.90, 0.85))}
    delta = {("delta", seed): (accuracy, 2.0) for seed, accuracy in enumerate((0.79, 0.88, 0.82))}
    table = measured(plan, filled(plan, fedavg | delta))[0]
    line = row(table, "delta")
    assert line["best %"] == pytest.approx(83.0)
    assert line["final %"] == pytest.approx(82.0)
    assert line["to FedAvg"] == pytest.approx(-2.0)  # of pairs 1, 2 and 3 points apart
    assert line["95 %"] == "± 2.48"
    assert (line["MB down"], line["DTR total"], line["by the paper's count"], line["seeds"]) == (1.0, 2.4, 2.0, 3)
    assert row(table, "fedavg")["to FedAvg"] is None


def test_a_difference_is_taken_over_the_seeds_that_both_have() -> None:
    plan = Plan("figure-bitrate", dataset="digits", seeds=(0, 1))
    results = filled(plan, {("fedavg", 0): (0.5, 1), ("delta", 0): (0.6, 1), ("delta", 1): (0.9, 1)})
    line = row(measured(plan, results)[0], "delta")
    assert line["to FedAvg"] == pytest.approx(10.0)
    assert (line["seeds"], line["95 %"], line["best %"]) == (2, None, pytest.approx(75.0))
    assert row(measured(plan, results)[0], "fedavg")["seeds"] == "1 of 2"


def test_a_cell_that_was_not_run_says_so() -> None:
    plan = Plan("figure-bitrate", dataset="digits")
    table = measured(plan, Results(Path("nowhere")))[0]
    assert [values[1] for values in table.rows] == ["not run"] * 4
    assert table.notes == ["No cell of this table was run."]
    assert "| delta | not run |" in table.filled().markdown()


@pytest.mark.parametrize(
    ("plan", "shown"),
    [
        (Plan("table-resnet20", scale="paper"), ("paper %", "difference", "paper's to FedAvg")),
        (Plan("table-resnet20"), ("paper %, its scale", "paper's to FedAvg, its scale")),
        (Plan("table-resnet20", scale="paper", rounds=2), ("paper %, its scale", "paper's to FedAvg, its scale")),
        (Plan("table-resnet20", dataset="digits"), ()),
        (Plan("table-comparison", scale="paper", dataset="cifar10"), ()),  # the paper's is of CIFAR-100
    ],
)
def test_the_papers_values_stand_where_they_belong(plan: Plan, shown: tuple[str, ...]) -> None:
    results = Results(Path("nowhere"))
    for cell in plan.cells():
        results.add(cell.key, record(cell, 0.9, 4.0))
    table = measured(plan, results)[0].filled()
    assert tuple(head for head in table.heads if "paper" in head or head == "difference") == (
        *shown,
        "by the paper's count",
    )


def test_the_difference_to_the_paper_is_ours_less_theirs() -> None:
    plan = Plan("table-resnet20", scale="paper")
    results = Results(Path("nowhere"))
    for cell in plan.cells():
        results.add(cell.key, record(cell, 0.89 if cell.method == "fedavg" else 0.87, 4.0))
    line = row(measured(plan, results)[0], "CIFAR-10, IID, rho=1.0, FedCode")
    assert line["paper %"] == pytest.approx(87.24)
    assert line["difference"] == pytest.approx(87 - 87.24)
    assert (line["to FedAvg"], line["paper's to FedAvg"]) == (pytest.approx(-2.0), -1.43)


def test_the_front_is_what_no_other_line_beats() -> None:
    plan = Plan("frontier", dataset="digits")
    figures = {("fedavg", 0): (0.9, 10.0), ("fedzip", 0): (0.8, 5.0), ("stc", 0): (0.8, 4.0), ("gtopk", 0): (0.5, 6.0)}
    table = measured(plan, filled(plan, figures))[0]
    starred = [values[0] for values in table.rows if values[-1] == "*"]
    assert starred == ["fedavg", "fedavg, Nesterov server", "stc"]  # made-up records of one method are alike


def test_the_volume_is_what_was_sent_until_a_share_of_fedavgs_best() -> None:
    plan = Plan("figure-volume", dataset="digits")
    results = filled(plan, {("fedavg", 0): (0.8, 8.0), ("fedcode", 0): (0.5, 4.0)})
    table = measured(plan, results)[1]
    assert row(table, "IID, fedavg")["MB to 50%"] == pytest.approx(4.0)
    assert row(table, "IID, fedavg")["MB to 95%"] == pytest.approx(8.0)
    assert row(table, "IID, fedcode")["MB to 50%"] == pytest.approx(4.0)  # in its second round, of two of 2 MB
    assert row(table, "IID, fedcode")["MB to 80%"] is None


def test_the_bits_of_a_round_are_those_of_its_messages() -> None:
    plan = Plan("figure-bitrate", dataset="digits")
    table = measured(plan, filled(plan, {("fedavg", 0): (0.8, 4.0)}))[1]
    assert table.heads == ["setting", "round 1", "round 2", "all rounds"]
    assert row(table, "fedavg")["round 2"] == pytest.approx(8 * MIB * 2 / (20 * 1000))


def test_the_codings_of_one_run_are_compared_by_whole_messages() -> None:
    plan = Plan("small-iid", dataset="digits")
    results = filled(plan, {("fedavg_ws", 0): (0.8, 4.0)})
    for one in results.records.values():
        sent = {"packed": 1000, "entropy": 500, "context": 250}
        one["recoded"] = {
            "bytes": {coding: {"down": size, "up": 2 * size} for coding, size in sent.items()},
            "messages": {"down": 4, "up": 4},
            "fedavg": {"down": 4000, "up": 4000},
        }
    table = measured(plan, results)[1]
    packed, context = (row(table, f"fedavg_ws, E=4: {coding}") for coding in ("packed", "context"))
    assert (packed["bits down"], packed["bits up"]) == (2.0, 4.0)  # 8,000 bits in 4 messages of 1,000 parameters
    assert (packed["DTR down"], packed["DTR up"]) == (4.0, 2.0)
    assert packed["DTR total"] == pytest.approx(8 / 3)
    assert context["DTR total"] == pytest.approx(4 * 8 / 3)


def test_what_it_was_computed_on_is_said_and_nothing_is_mixed() -> None:
    plan = Plan("figure-bitrate", dataset="digits")
    results = Results(Path("nowhere"))
    for cell in plan.cells():
        on_gpu: dict[str, Any] = {"device": "cuda", "precision": "bf16"} if cell.method == "delta" else {}
        results.add(cell.key, record(cell, 0.9, 4.0, **on_gpu))
    note = measured(plan, results)[0].notes[0]
    assert "a GPU, bf16, torch 2; a processor, float32, torch 2" in note


def test_a_table_drops_only_columns_that_are_empty() -> None:
    table = Table("t", (Column("setting"), Column("a"), Column("b")), [["x", None, None], ["y", 1.0, None]])
    assert table.filled().heads == ["setting", "a"]
    assert table.document()["rows"] == [["x", None, None], ["y", 1.0, None]]
