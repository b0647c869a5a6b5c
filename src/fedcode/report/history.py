"""The history of runs as one flat table for other tools: a line a round and run, as CSV or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedcode.errors import extra
from fedcode.files import new_file
from fedcode.report.trace import PARTS, Trace

COLUMNS = (
    *("run", "method", "round", "accuracy", "loss", "bytes_down", "bytes_up", "megabytes", "bits_per_parameter"),
    *(f"seconds_{part}" for part in PARTS),
)


def rows(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """A dictionary a round; what is not known is None.

    >>> trace = Trace.of({"method": "fedavg"}, [], None, "here")
    >>> rows([trace])
    []
    """
    found = []
    for trace in traces:
        bits, megabytes = trace.bits, trace.megabytes
        for n in range(trace.rounds):
            values = (
                *(trace.accuracy[n], trace.loss[n], trace.down[n], trace.up[n], megabytes[n], bits[n]),
                *(trace.parts[part][n] for part in PARTS),
            )
            numbers = [None if value != value else float(value) for value in values]
            numbers[2:4] = [int(trace.down[n]), int(trace.up[n])]
            found.append(dict(zip(COLUMNS, (trace.label, trace.method, n + 1, *numbers), strict=True)))
    return found


def write_csv(path: Path, traces: Sequence[Trace]) -> None:
    """Write them as CSV, in UTF-8, with a head; what is not known is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows(traces):
        writer.writerow(row | {name: _plain(str(row[name])) for name in ("run", "method")})
    with new_file(path, force=True) as file:
        file.write(text.getvalue().encode("utf-8", "replace"))


def write_parquet(path: Path, traces: Sequence[Trace]) -> None:
    """Write them as Parquet."""
    with extra("parquet"):
        import pyarrow
        import pyarrow.parquet

    words, whole = ("run", "method"), ("round", "bytes_down", "bytes_up")
    kinds = {name: pyarrow.string() if name in words else pyarrow.int64() for name in (*words, *whole)}
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.float64())) for name in COLUMNS])
    with new_file(path, force=True) as file:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows(traces), schema), file)


def _plain(text: str) -> str:
    """A spreadsheet takes a cell that begins with one of these for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
