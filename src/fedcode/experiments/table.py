"""A table of results: columns, rows of numbers and words, notes; for a terminal, for markdown, for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Value = str | float | int | None

NOTHING = "-"  # what is not there


@dataclass(frozen=True)
class Column:
    """A column's head, and how many decimals its numbers have; `signed` shows a plus too."""

    head: str
    decimals: int = 2
    signed: bool = False

    def text(self, value: Value) -> str:
        """One value as people read it.

        >>> Column("difference", 2, signed=True).text(1.5), Column("MB", 1).text(None)
        ('+1.50', '-')
        """
        if value is None:
            return NOTHING
        if isinstance(value, str):
            return value
        if isinstance(value, int):
            return f"{value:,}"
        return f"{value:{'+' if self.signed else ''},.{self.decimals}f}"


@dataclass(frozen=True)
class Table:
    """A title, columns, rows as long as the columns, and what must be said below."""

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Value]]
    notes: Sequence[str] = field(default=())

    @property
    def heads(self) -> list[str]:
        """The columns' heads."""
        return [column.head for column in self.columns]

    def texts(self) -> list[list[str]]:
        """The rows as people read them."""
        return [[column.text(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]

    def without(self, *heads: str) -> Table:
        """The same table without these columns."""
        kept = [index for index, column in enumerate(self.columns) if column.head not in heads]
        columns = tuple(self.columns[index] for index in kept)
        return Table(self.title, columns, [[row[index] for index in kept] for row in self.rows], self.notes)

    def filled(self) -> Table:
        """The same table without the columns that hold nothing."""
        empty = [
            column.head
            for index, column in enumerate(self.columns)
            if all(row[index] is None for row in self.rows) and index
        ]
        return self.without(*empty)

    def markdown(self) -> str:
        """The table for a markdown page.

        >>> print(Table("t", (Column("setting"), Column("MB", 1)), [["FedAvg", 2.0]]).markdown())
        | setting | MB |
        |---|---:|
        | FedAvg | 2.0 |
        """
        lines = [self.heads, ["---", *["---:"] * (len(self.columns) - 1)], *self.texts()]
        text = [f"| {' | '.join(line)} |" for line in lines]
        text[1] = text[1].replace(" ", "")
        return "\n".join([*text, *(f"\n{note}" for note in self.notes)])

    def document(self) -> dict[str, Any]:
        """The table for JSON, numbers as numbers."""
        rows = [[round(value, 6) if isinstance(value, float) else value for value in row] for row in self.rows]
        return {"title": self.title, "columns": self.heads, "rows": rows, "notes": list(self.notes)}
