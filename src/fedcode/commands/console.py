"""How commands speak: one JSON document for programs, tables for people, progress and remarks on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from fedcode.progress import Progress, silent

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on the way.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace the output if it is there already.")]


def document(value: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> None:
    """Print a table; with `numbers`, all columns but the first stand to the right.

    Where it is wider than the terminal it goes without lines, then on its side: rather than with words cut in two.
    """
    from rich.box import HEAVY_HEAD, SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def grid(columns: Sequence[str], rows: Sequence[Sequence[str]], lines: bool) -> Table:
        box, padding = (HEAVY_HEAD, (0, 1)) if lines else (SIMPLE_HEAD, (0, 0))
        made = Table(title=Text(title), title_justify="left", box=box, padding=padding, pad_edge=lines)
        for index, column in enumerate(columns):
            made.add_column(column, justify="right" if index and numbers else "left", overflow="fold")
        for row in rows:
            made.add_row(*(Text(cell) for cell in row))  # Text: a name's [brackets] are no markup
        return made

    out = Console(width=None if sys.stdout.isatty() else 120)
    shapes = [grid(columns, rows, True), grid(columns, rows, False)]
    if numbers:
        on_its_side = list(zip(columns, *rows, strict=True))
        shapes.append(grid(on_its_side[0], on_its_side[1:], False))
    free = out.options.update(max_width=10_000)
    fitting = (shape for shape in shapes if out.measure(shape, options=free).maximum <= out.width)
    out.print(next(fitting, shapes[0]))


def remark(sentence: str, quiet: bool = False) -> None:
    """Say something on stderr that is no result."""
    if not quiet:
        print(sentence, file=sys.stderr)


@contextmanager
def progress(quiet: bool = False) -> Iterator[Progress]:
    """Show how far a long work is: bars in a terminal, a line for every stage elsewhere, nothing if quiet."""
    if quiet:
        yield silent
    elif not sys.stderr.isatty():
        yield _lines()
    else:
        from rich.console import Console
        from rich.progress import Progress as Bars
        from rich.progress import TaskID

        with Bars(console=Console(stderr=True), transient=True) as bars:
            tasks: dict[str, TaskID] = {}

            def show(stage: str, done: int, total: int) -> None:
                if stage not in tasks:
                    tasks[stage] = bars.add_task(stage, total=total)
                bars.update(tasks[stage], completed=done, total=total)

            yield show


def _lines() -> Callable[[str, int, int], None]:
    said: set[str] = set()

    def show(stage: str, *_: int) -> None:
        if stage not in said:
            said.add(stage)
            print(f"{stage} ...", file=sys.stderr)

    return show


def size(count: float) -> str:
    """Bytes for people.

    >>> size(999), size(2_104_000)
    ('999 B', '2.10 MB')
    """
    units = ["B", "kB", "MB", "GB", "TB"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        del units[0]
    return f"{count:.0f} B" if units[0] == "B" else f"{count:.2f} {units[0]}"
