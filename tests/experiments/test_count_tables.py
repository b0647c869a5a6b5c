"""The paper's printed reductions and megabytes, by the count and without training."""

from __future__ import annotations

import pytest

from fedcode.experiments.catalogue import EXPERIMENTS
from fedcode.experiments.count_tables import bounds, counted
from fedcode.experiments.plan import Line, Plan
from fedcode.paper_count import MEGABYTE

# As the paper prints them: down, up, total. CIFAR-10 and CIFAR-100, rho = 1 and 0.1; IID and non-IID alike.
PRINTED = {
    "table-resnet20": [(22.8, 10.3, 14.2), (24.2, 10.4, 14.6), (26, 10.6, 15), (26.2, 10.6, 15.1)],
    "table-mobilenet": [(12.6, 8.7, 10.3), (13.2, 8.9, 10.6), (13.7, 9.1, 10.9), (13.7, 9.1, 10.9)],
    "table-yamnet": [(12.8, 8.7, 10.3), (13.7, 9.1, 10.9)],
}
MEGABYTES = {"(1, 1)": 394.21, "(0.5, 0.5)": 201.08, "(0.2, 0.5)": 143.92, "(0.33, 0.33)": 138.01, "(0.1, 0.1)": 47.35}


def fedcode_lines(name: str) -> list[Line]:
    return [line for line in Plan(name, scale="paper").lines() if line.row.cell.method == "fedcode"]


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        pytest.param(line, PRINTED[name][at // 2 if name != "table-yamnet" else at], id=f"{name}: {line.label}")
        for name in PRINTED
        for at, line in enumerate(fedcode_lines(name))
    ],
)
def test_the_reductions_of_the_main_tables_come_out(line: Line, printed: tuple[float, float, float]) -> None:
    size = line.counted()
    assert size is not None
    for name, ours, paper in zip(
        ("down", "up", "total"), (size.dtr_down, size.dtr_up, size.dtr_total), printed, strict=True
    ):
        assert ours == pytest.approx(paper, abs=0.15)
        assert line.row.printed[f"dtr.{name}"] == paper


def test_each_main_table_has_the_rows_of_the_paper() -> None:
    assert [len(fedcode_lines(name)) for name in PRINTED] == [8, 8, 2]


@pytest.mark.parametrize(("pair", "megabytes"), MEGABYTES.items())
def test_the_megabytes_of_the_frequencies_come_out_by_the_printed_count(pair: str, megabytes: float) -> None:
    downlink, uplink = pair.strip("()").split(", ")
    line = next(line for line in fedcode_lines("table-frequencies") if line.label == f"F1={downlink}, F2={uplink}")
    size = line.counted("printed")
    assert size is not None
    assert line.row.printed["megabytes"] == megabytes
    assert size.bits_total / MEGABYTE == pytest.approx(megabytes, abs=0.05)


def test_the_tables_of_the_frequencies_show_both_counts_and_what_fedavg_sends() -> None:
    reductions, megabytes = counted(Plan("table-frequencies"))
    assert megabytes.rows[0][1] == 2102.44
    assert megabytes.rows[0][2] == pytest.approx(2102.44, abs=0.05)
    assert all(abs(float(row[-1] or 9)) < 0.05 for row in megabytes.rows)
    silent = next(texts for texts in reductions.texts() if texts[0] == "F1=0, F2=0")
    assert silent[-1] == "264.7"  # the paper's value, which its formula does not give
    assert silent[reductions.heads.index("total, formula")] == "251.11"


def test_where_the_runs_have_other_rounds_the_count_says_that_it_keeps_to_the_papers() -> None:
    said = "the runs have 2."
    assert all(said not in " ".join(table.notes) for table in counted(Plan("table-frequencies")))
    for table, own in zip(
        counted(Plan("table-frequencies", rounds=2)), counted(Plan("table-frequencies")), strict=True
    ):
        assert said in table.notes[-1]
        assert table.rows == own.rows


def test_the_bounds_fall_with_every_bit_and_every_full_round() -> None:
    table = bounds()
    values = [[float(value or 0) for value in row[1:]] for row in table.rows]
    for row in values:
        assert row == sorted(row, reverse=True)
    for column in zip(*values, strict=True):
        assert list(column) == sorted(column, reverse=True)
    assert values[2][-1] == pytest.approx(5.33, abs=0.01)  # K=64 both ways in every round: 32 bits against 6


def test_only_methods_that_the_paper_counts_stand_in_these_tables() -> None:
    for name in EXPERIMENTS:
        for line in Plan(name, everything=True).lines():
            silent = ("codebook_rounds", "silent") in line.row.cell.settings
            assert (line.counted() is not None) == (line.row.cell.method in ("fedcode", "fedavg_ws") and not silent)
