"""The tables of a plan that was run: accuracy and bytes, what a figure shows, the codings of labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from fedcode.base_message import LABELS
from fedcode.experiments.cell import Cell
from fedcode.experiments.count_tables import DIRECTIONS, counted
from fedcode.experiments.figures import Measured
from fedcode.experiments.plan import Plan
from fedcode.experiments.results import Record, Results
from fedcode.experiments.table import Column, Table, Value

SHARES = (0.5, 0.8, 0.9, 0.95)
NETWORKS = {"resnet20": "ResNet-20", "mobilenetv2": "MobileNetV2", "yamnet": "YAMNet", "digits": "the small network"}


def tables(plan: Plan, results: Results) -> list[Table]:
    """Every table of a plan: the paper's count, then what was measured."""
    return [*counted(plan), *measured(plan, results)]


def measured(plan: Plan, results: Results) -> list[Table]:
    """What was measured; tables that have nothing to show are left out."""
    lines = [Measured.of(line, results) for line in plan.lines()]
    made: list[Callable[[Plan, Sequence[Measured]], Table]] = [_accuracy]
    if plan.experiment.shows == "volume":
        made.append(_volume)
    if plan.experiment.shows == "bitrate":
        made.append(_bitrate)
    if plan.experiment.shows == "codings":
        made.append(_codings)
    return [table for table in (make(plan, lines) for make in made) if table.rows]


def _accuracy(plan: Plan, lines: Sequence[Measured]) -> Table:
    rows: list[list[Value]] = []
    front = _front(lines) if plan.experiment.shows == "frontier" else []
    for one in lines:
        best, gap, said = one.accuracy("best"), one.difference, one.said
        paper = said.get("accuracy")
        rows.append(
            [
                one.line.label,
                one.seeds,
                best,
                one.accuracy("final"),
                paper,
                None if best is None or paper is None else best - paper,
                None if gap is None else gap.mean,
                None if gap is None or gap.half is None else f"± {gap.half:.2f}",
                said.get("delta"),
                *(one.megabytes(direction) for direction in DIRECTIONS[:2]),
                *(one.summary("dtr", direction) for direction in DIRECTIONS),
                one.summary("paper_dtr", "total"),
                one.summary("bits_per_parameter"),
                "*" if one in front else None,
            ]
        )
    same = plan.scale == "paper" and plan.rounds is None and plan.beta is None
    columns = (
        Column("setting"),
        Column("seeds"),
        Column("best %"),
        Column("final %"),
        Column("paper %" if same else "paper %, its scale"),
        Column("difference", signed=True),
        Column("to FedAvg", signed=True),
        Column("95 %"),
        Column("paper's to FedAvg" if same else "paper's to FedAvg, its scale", signed=True),
        Column("MB down", 1),
        Column("MB up", 1),
        *(Column(f"DTR {direction}", 1) for direction in DIRECTIONS),
        Column("by the paper's count", 1),
        Column("bits"),
        Column("front"),
    )
    table = Table(_title(plan, "accuracy and bytes"), columns, rows, _notes(lines))
    return table if same else table.without("difference")


def _notes(lines: Sequence[Measured]) -> list[str]:
    """What must be said of how the runs were made."""
    records = [record for one in lines for record in (*one.records, *(other for _, other in one.pairs))]
    if not records:
        return ["No cell of this table was run."]
    rounds = sorted({record["summary"]["rounds"] for record in records})
    cells = [record["cell"] for record in records]
    share = {cell["fraction"] for cell in cells}
    trained = sorted({f"{NETWORKS[cell['network']]} on {Cell.of(cell).title}" for cell in cells})
    said = [f"Trained: {', '.join(trained)}.", f"Rounds: {', '.join(str(count) for count in rounds)}."]
    if share != {1.0}:
        said.append(f"Share of the training examples: {', '.join(f'{part:.0%}' for part in sorted(share))}.")
    computed = sorted({_computed(record) for record in records})
    said.append(f"Computed: {'; '.join(computed)}.")
    return [" ".join(said)]


def _computed(record: Record) -> str:
    how, machine = record["computed"], record["summary"]["machine"]
    where = machine["gpu"] if str(how["device"]).startswith("cuda") else machine["processor"]
    parts = [where, how["precision"], *(["compiled"] if how["compile"] else [])]
    return ", ".join([*parts, f"torch {record['summary']['versions']['torch']}"])


def _front(lines: Sequence[Measured]) -> list[Measured]:
    """Those that no other line beats in both accuracy and bytes."""
    known = [(one.accuracy("best"), one.megabytes("total"), one) for one in lines if one.records]
    places = [(best, sent, one) for best, sent, one in known if best is not None and sent is not None]
    return [
        one
        for best, sent, one in places
        if not any(b >= best and s <= sent and (b, s) != (best, sent) for b, s, _ in places)
    ]


def _volume(plan: Plan, lines: Sequence[Measured]) -> Table:
    """Megabytes until shares of FedAvg's best accuracy."""
    rows: list[list[Value]] = []
    for one in lines:
        if not one.records:
            continue
        reference = one if not one.line.against else next(x for x in lines if x.line.cells == one.line.against)
        best = reference.accuracy("best")
        reached = [None if best is None else one.until(share * best / 100) for share in SHARES]
        rows.append([one.line.label, one.accuracy("best"), one.megabytes("total"), *reached])
    heads = [Column(f"MB to {share:.0%}", 1) for share in SHARES]
    columns = (Column("setting"), Column("best %"), Column("MB in all", 1), *heads)
    note = "Megabytes, down and up, until a share of the best accuracy of FedAvg was first reached; -: never."
    return Table(_title(plan, "accuracy against volume"), columns, rows, [note])


def _bitrate(plan: Plan, lines: Sequence[Measured]) -> Table:
    rounds = max((one.rounds for one in lines), default=0)
    shown = [number for number in (1, 2, 3, 4, 5, 10, 20, 30, 40, 50, 60, 100) if number < rounds] + [rounds]
    rows: list[list[Value]] = [
        [one.line.label, *(one.bits(number) for number in shown), one.summary("bits_per_parameter")]
        for one in lines
        if one.records
    ]
    columns = (Column("setting"), *(Column(f"round {number}", 3) for number in shown), Column("all rounds", 3))
    return Table(_title(plan, "bits a parameter and message, by round"), columns, rows)


def _codings(plan: Plan, lines: Sequence[Measured]) -> Table:
    """One training run each, its labels coded in three ways: the models are the same bit for bit."""
    rows: list[list[Value]] = []
    for one in lines:
        if not one.records or any(record["recoded"] is None for record in one.records):
            continue
        for coding in LABELS:
            bits = [one.mean(partial(_recoded, coding, direction)) for direction in DIRECTIONS[:2]]
            reductions = [one.mean(partial(_reduction, coding, direction)) for direction in DIRECTIONS]
            rows.append([f"{one.line.label}: {coding}", *bits, *reductions])
    columns = (
        Column("setting: labels"),
        Column("bits down", 3),
        Column("bits up", 3),
        *(Column(f"DTR {direction}", 1) for direction in DIRECTIONS),
    )
    note = "Whole messages, headers and statistics included, measured by coding the messages of one run again."
    return Table(_title(plan, "the same messages, labels coded in three ways"), columns, rows, [note])


def _recoded(coding: str, direction: str, record: Record) -> float | None:
    """Bits a parameter and message in one direction."""
    found = record["recoded"]
    numbers = found["messages"][direction] * record["summary"]["parameters"]
    return 8 * found["bytes"][coding][direction] / numbers if numbers else None


def _reduction(coding: str, direction: str, record: Record) -> float | None:
    """FedAvg's own messages over these, in one direction or both."""
    found, ways = record["recoded"], DIRECTIONS[:2] if direction == "total" else (direction,)
    sent = sum(found["bytes"][coding][way] for way in ways)
    return sum(found["fedavg"][way] for way in ways) / sent if sent else None


def _title(plan: Plan, what: str) -> str:
    return f"{plan.experiment.title}: {what} ({plan.shown})"
