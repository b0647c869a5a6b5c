"""Methods side by side: a row a run, what each figure is, and which of a column is the best."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedcode.ledger import MEGABYTE
from fedcode.report.gathering import Gathering
from fedcode.report.link import MARK, Link, duration, target
from fedcode.report.trace import Trace

NOTHING = "-"
_ALIKE = ("dataset", "network", "fraction", "clients", "participation", "partition", "beta")  # or it is another problem
_SETTING = (*_ALIKE, "epochs", "seed")


@dataclass(frozen=True)
class Column:
    """A figure: its head, what it means, its text, and whether more or less of it is better (None: neither).

    whole: it is of the whole run, so that runs of different lengths are not to be compared by it.
    """

    head: str
    meaning: str
    figure: Callable[[Trace], float | None]
    text: Callable[[float], str] = "{:,.2f}".format
    better: Callable[[Sequence[float]], float] | None = min
    whole: bool = False


@dataclass(frozen=True)
class Comparison:
    """A table of runs.

    >>> import fedcode
    >>> from fedcode.report.gathering import Gathering
    >>> trace = Trace.of({"method": "fedavg"}, [], None, "here")
    >>> print(Comparison(Gathering((trace,))).markdown().splitlines()[-1])
    | fedavg | - | - | 0.00 | 0.00 | - | - | - | 0 |
    """

    gathering: Gathering
    link: Link | None = None

    @cached_property
    def target(self) -> float | None:
        """The accuracy that `until` is about."""
        return target(self.gathering.traces, self.gathering.fedavg)

    @cached_property
    def columns(self) -> list[Column]:
        """The figures, in order."""
        return [*_figures(self._until), *(self._air(self.link) if self.link else [])]

    @property
    def of_air(self) -> int:
        """How many of the last columns are about the link."""
        return len(self._air(self.link)) if self.link else 0

    def _until(self, trace: Trace) -> int | None:
        return None if self.target is None else trace.until(self.target)

    def _air(self, link: Link) -> list[Column]:
        return [
            Column(
                "on the air",
                f"A client's transfer in the whole run over {link.name}.",
                link.per_client,
                duration,
                whole=True,
            ),
            Column(
                f"until {MARK}",
                f"Transfer over {link.name}, round after round, until {self.wanted}.",
                lambda trace: link.elapsed(trace, self._until(trace)),
                duration,
            ),
            Column(
                "training",
                "Local training, on the machine that it ran on.",
                lambda trace: float(trace.parts["training"].sum()) / 3600 or None,
                duration,
                None,
            ),
        ]

    @property
    def _reference(self) -> str:
        return "FedAvg's best accuracy" if self.gathering.fedavg else "the best accuracy of all"

    @property
    def wanted(self) -> str:
        """The target in words."""
        value = "" if self.target is None else f" ({100 * self.target:.2f} %)"
        return f"{MARK} of {self._reference}{value}"

    @property
    def lengths(self) -> list[int]:
        """How many rounds the finished runs have, each number once: only these runs are compared."""
        return sorted({trace.rounds for trace in self.gathering.traces if trace.finished})

    @cached_property
    def figures(self) -> list[list[float | None]]:
        """A row a run, a value a column."""
        return [[column.figure(trace) for column in self.columns] for trace in self.gathering.traces]

    @cached_property
    def best(self) -> list[float | None]:
        """The best of each column, None where it has none or there is nothing to compare.

        What is of the whole run has a best only where all runs have as many rounds.
        """
        found: list[float | None] = []
        uneven = len(self.lengths) > 1
        for index, column in enumerate(self.columns):
            if column.whole and uneven:
                found.append(None)
                continue
            known = [
                value
                for trace, row in zip(self.gathering.traces, self.figures, strict=True)
                if (value := row[index]) is not None and trace.finished  # half a run is no bargain
            ]
            several = len(known) > 1 and len(set(known)) > 1
            found.append(column.better(known) if several and column.better else None)
        return found

    def texts(self) -> list[list[str]]:
        """The table as people read it, the run's label first."""
        rows = []
        for trace, row in zip(self.gathering.traces, self.figures, strict=True):
            cells = [
                NOTHING if value is None else column.text(value)
                for column, value in zip(self.columns, row, strict=True)
            ]
            rows.append([trace.label, *cells])
        return rows

    def is_best(self, row: int, column: int) -> bool:
        """Whether a value is the best of its column; `column` counts from 0 behind the labels."""
        value = self.figures[row][column]
        return value is not None and value == self.best[column]

    @property
    def notes(self) -> list[str]:
        """What must be said below."""
        found = []
        differs = [
            name for name in _ALIKE if len({repr(trace.config.get(name)) for trace in self.gathering.traces}) > 1
        ]
        if differs:
            found.append(f"These runs differ in {', '.join(differs)}: compare those that are alike there.")
        if len(self.lengths) > 1:
            *fewer, most = self.lengths
            found.append(
                f"These runs have {', '.join(map(str, fewer))} and {most} rounds: of figures of the whole run, "
                "accuracies and bytes, no best is marked."
            )
        if self.target is not None:
            found.append(f"Until {MARK}: of {self._reference}, so until {100 * self.target:.2f} % was first reached.")
        found.append("MB are 2^20 bytes.")
        if self.link:
            found.append(
                f"On the air over {self.link.words}: a client's transfer in the whole run, the mean of all. Clients "
                f"transfer side by side and rounds follow each other: until {MARK} counts the slowest client of every "
                "round, without its training. Training: of all clients, on the machine that it ran on."
            )
        return found

    def legend(self, mark: str, part: slice = slice(None)) -> list[str]:
        """What the mark of a best figure means, where one of these columns has it."""
        if all(value is None for value in self.best[part]):
            return []
        few = "" if all(trace.finished for trace in self.gathering.traces) else " among the runs that are finished"
        return [f"{mark}: the best of its column{few}."]

    def document(self, trace: Trace) -> dict[str, Any]:
        """A run's figures for programs, under the names that summary.json has for them, with what it was run on.

        >>> from fedcode.report.gathering import Gathering
        >>> trace = Trace.of({"method": "fedavg", "dataset": "digits", "seed": 3}, [], None, "here")
        >>> found = Comparison(Gathering((trace,))).document(trace)
        >>> found["dataset"], found["seed"], found["accuracy"]["best"]
        ('digits', 3, None)
        """
        sent = {"down": int(trace.down.sum()), "up": int(trace.up.sum())}
        until, own = self._until(trace), trace.config.get("settings")
        settings = (trace.summary or {}).get("settings", own)
        found = {
            "label": trace.label,
            "method": trace.method,
            **{name: trace.config.get(name) for name in _SETTING},
            "settings": settings,
            "accuracy": {"best": trace.best, "final": trace.final, "best_round": trace.best_round},
            "bytes": sent,
            "megabytes": {way: count / MEGABYTE for way, count in (*sent.items(), ("total", sum(sent.values())))},
            "dtr": {way: trace.said("dtr", way) for way in ("down", "up", "total")},
            "bits_per_parameter": trace.said("bits_per_parameter"),
            "rounds": trace.rounds,
            "finished": trace.finished,
            "rounds_until_target": until,
            "megabytes_until_target": None if until is None else float(trace.megabytes[until - 1]),
            **({"air": self.link.document(trace, self.target)} if self.link else {}),
        }
        text = json.dumps(found, default=str, ensure_ascii=False)  # TOML has dates, JSON has none
        plain: dict[str, Any] = json.loads(text.encode("utf-8", "replace"))  # half a letter cannot be printed
        return plain

    def markdown(self) -> str:
        """The table for a markdown page, the best in bold."""
        rows = [["run", *(column.head for column in self.columns)], ["---", *["---:"] * len(self.columns)]]
        for number, cells in enumerate(self.texts()):
            shown = [f"**{text}**" if self.is_best(number, n) else text for n, text in enumerate(cells[1:])]
            rows.append([cells[0].replace("|", "\\|"), *shown])
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def html(self) -> str:
        """The table as HTML; the best of a column is marked for eyes and for screen readers."""
        heads = "".join(
            f'<th scope="col" title="{html.escape(column.meaning)}">{html.escape(column.head)}</th>'
            for column in self.columns
        )
        rows = []
        for number, cells in enumerate(self.texts()):
            shown = "".join(
                f'<td class="best"><b>{html.escape(text)}</b><span class="unseen"> (best)</span></td>'
                if self.is_best(number, n)
                else f"<td>{html.escape(text)}</td>"
                for n, text in enumerate(cells[1:])
            )
            rows.append(f'<tr><th scope="row">{html.escape(cells[0])}</th>{shown}</tr>')
        return (
            f'<table class="fedcode"><thead><tr><th scope="col">run</th>{heads}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table>"
        )

    def __str__(self) -> str:
        rows = [["run", *(column.head for column in self.columns)], *self.texts()]
        widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
        lines = []
        for row in rows:
            first, *others = (
                text.ljust(w) if not n else text.rjust(w) for n, (text, w) in enumerate(zip(row, widths, strict=True))
            )
            lines.append("  ".join([first, *others]).rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return _STYLE + self.html()


_STYLE = "<style>.fedcode td{text-align:right}.fedcode .unseen{position:absolute;left:-999em}</style>"


def _figures(until: Callable[[Trace], int | None]) -> list[Column]:
    def percent(value: float) -> str:
        return f"{100 * value:.2f}"

    def megabytes_until(trace: Trace) -> float | None:
        rounds = until(trace)
        return None if rounds is None else float(trace.megabytes[rounds - 1])

    return [
        Column("best %", "Best accuracy on the test set.", lambda trace: trace.best, percent, max, whole=True),
        Column("final %", "Accuracy after the last round.", lambda trace: trace.final, percent, max, whole=True),
        Column("MB down", "Sent to all clients, in the whole run.", _megabytes("down"), whole=True),
        Column("MB up", "Sent by all clients.", _megabytes("up"), whole=True),
        Column(
            "DTR",
            "By how many times fewer bytes left than FedAvg's messages would have been.",
            lambda trace: trace.said("dtr", "total"),
            "{:,.1f}".format,
            max,
        ),
        Column("bits/weight", "Bits a weight and message.", lambda trace: trace.said("bits_per_parameter")),
        Column(f"MB until {MARK}", "Sent both ways until the target.", megabytes_until),
        Column("rounds", "Rounds that are done.", lambda trace: trace.rounds, "{:.0f}".format, None),
    ]


def _megabytes(way: str) -> Callable[[Trace], float]:
    return lambda trace: float((trace.down if way == "down" else trace.up).sum()) / MEGABYTE
