"""The paper's count over the paper's own rounds, beside what the paper prints: no training is needed for it."""

from __future__ import annotations

from collections.abc import Sequence

from fedcode.experiments.plan import Plan, parameters
from fedcode.experiments.table import Column, Table, Value
from fedcode.paper_count import MEGABYTE, RunSize, label_bits

DIRECTIONS = ("down", "up", "total")


def counted(plan: Plan) -> list[Table]:
    """The paper's count, which needs no training, beside what the paper prints; none where it prints nothing."""
    if plan.experiment.shows == "bounds":
        return [bounds()]
    return [table.filled() for table in (_reductions(plan), _megabytes(plan)) if table.rows]


def _reductions(plan: Plan) -> Table:
    rows: list[list[Value]] = []
    for line in plan.lines():
        said, size = line.row.printed, line.counted()
        if size is None:
            continue
        ours = (size.dtr_down, size.dtr_up, size.dtr_total)
        theirs = [said.get(f"dtr.{direction}") for direction in DIRECTIONS]
        rows.append([line.label, size.rounds, size.full_down, size.full_up])
        for own, paper in zip(ours, theirs, strict=True):
            rows[-1] += [paper, own, None if paper is None else own - paper]
        other = line.counted("printed")
        rows[-1].append(other.dtr_total if other is not None and "megabytes" in said else None)
    columns = [Column("setting"), Column("R"), Column("full down"), Column("full up")]
    for direction in DIRECTIONS:
        columns += [
            Column(f"{direction}, paper", 1),
            Column(f"{direction}, formula"),
            Column(f"{direction}, difference", signed=True),
        ]
    columns.append(Column("total, printed count", 1))
    title = f"{plan.experiment.title}: reductions (DTR) by the paper's formula, no training"
    return Table(title, tuple(columns), rows, _of_the_paper(plan))


def _megabytes(plan: Plan) -> Table:
    rows: list[list[Value]] = []
    sizes = [(line, line.counted("printed"), line.counted()) for line in plan.lines()]
    for line, printed, formula in sizes:
        paper = line.row.printed.get("megabytes")
        if paper is None:
            continue
        values = [_fedavg_megabytes(sizes)] * 2
        if printed is not None and formula is not None:
            values = [printed.bits_total / MEGABYTE, formula.bits_total / MEGABYTE]
        rows.append([line.label, paper, *values, None if values[0] is None else values[0] - paper])
    columns = (
        Column("setting"),
        Column("MB, paper"),
        Column("by the printed count"),
        Column("by the formula"),
        Column("difference", 3, signed=True),
    )
    notes = ["The difference is that of the printed count.", *_of_the_paper(plan)]
    return Table(f"{plan.experiment.title}: megabytes, no training", columns, rows, notes)


def _of_the_paper(plan: Plan) -> list[str]:
    """What must be said where the runs have other rounds than those that are counted here."""
    if plan.rounds is None:
        return []
    return [f"It counts the paper's own rounds, so that it compares with the paper; the runs have {plan.rounds}."]


def _fedavg_megabytes(sizes: Sequence[tuple[object, RunSize | None, object]]) -> float | None:
    known = [size for _, size, _ in sizes if size is not None]
    return 2 * known[0].bits_fedavg / MEGABYTE if known else None


def bounds() -> Table:
    """DTR over K and F1 + F2 for ResNet-20 with 100 classes, as the paper's appendix has it.

    >>> bounds().rows[0][:2]
    [16, 17223.25]
    """
    weights = parameters("resnet20", 100)
    sums = (0.0, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0)
    rows: list[list[Value]] = []
    for clusters in (16, 32, 64, 128, 256, 512, 1024):
        sent = [2 * 32 * clusters + share * weights * label_bits(clusters) for share in sums]
        rows.append([clusters, *(2 * 32 * weights / bits for bits in sent)])
    columns = (Column("K", 0), *(Column(f"F1+F2={share:g}", 1) for share in sums))
    return Table("The reduction by the paper's formula, for many rounds", columns, rows)
