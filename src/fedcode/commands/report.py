"""`fedcode report`: one page about runs that opens in any browser, and the table of what each cost and reached."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcode.commands import console
from fedcode.errors import FedcodeError

if TYPE_CHECKING:
    from fedcode.report.comparison import Comparison
    from fedcode.report.link import Link

PAGE = "report.html"
LinkName = Annotated[
    str | None,
    typer.Option(
        "--link",
        metavar="DOWN/UP",
        help="Count time on the air, in Mbit/s; or 4g, 3g, nb-iot, lorawan.",
        show_default=False,
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(help="Only runs with this setting: NAME=VALUE; again for more.", show_default=False),
]


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Directories of runs, or that hold some; results/NAME.json.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the page.")] = Path(PAGE),
    link: LinkName = None,
    where: Where = None,
    title: Annotated[str | None, typer.Option(help="The page's title.", show_default=False)] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write the history of all runs as CSV too, a line a round.", show_default=False)
    ] = None,
    parquet: Annotated[Path | None, typer.Option(help="The same as Parquet.", show_default=False)] = None,
    quiet: console.Quiet = False,
    as_json: console.Json = False,
) -> None:
    """Write one page about runs: a table, charts, settings. It needs no network, and nothing beside it.

    \b
    Examples:
      fedcode report runs/study
      fedcode report runs/study --link nb-iot -o study.html
      fedcode report runs/monday/fedavg runs/tuesday/fedcode
      fedcode report runs/study --csv study.csv

    A directory that is damaged or not finished is named, and the rest of the page is still made.
    """
    from fedcode.report.comparison import Comparison
    from fedcode.report.gathering import gather
    from fedcode.report.link import Link
    from fedcode.report.page import write_page

    air = None if link is None else Link.of(link)
    comparison = Comparison(gather(runs, where or ()), air)
    for remark in comparison.gathering.remarks:
        console.remark(f"fedcode: note: {_printable(remark)}", quiet)
    write_page(out, comparison, title)
    if csv is not None or parquet is not None:
        from fedcode.report import history

        if csv is not None:
            history.write_csv(csv, comparison.gathering.traces)
        if parquet is not None:
            history.write_parquet(parquet, comparison.gathering.traces)
    if as_json:
        console.document(_document(out, comparison))
        return
    show(comparison)
    console.remark(f"wrote {out}", quiet)


def leave(out: Path, link: Link | None, quiet: bool) -> Comparison | None:
    """What a finished `fedcode run` leaves beside its runs: the page, and in each summary what the air costs.

    The runs are there whatever happens here, so that it ends with a remark and not with an error.
    """
    from fedcode.report.comparison import Comparison
    from fedcode.report.gathering import gather
    from fedcode.report.link import note
    from fedcode.report.page import write_page

    try:
        comparison = Comparison(gather([out]), link)
        if link is not None:
            note(link, comparison.gathering.traces, comparison.target)
        write_page(out / PAGE, comparison)
    except (FedcodeError, OSError) as error:
        console.remark(f"fedcode: note: there is no page of these runs: {error}", quiet)
        return None
    return comparison


def show(comparison: Comparison) -> None:
    """The table, the best of each column with a star; what is on the air is a table of its own."""
    from fedcode.report.page import heading

    _table(heading(comparison.gathering.traces), comparison, slice(len(comparison.columns) - comparison.of_air))
    if comparison.link:
        _table(f"On the air, {comparison.link.name}", comparison, slice(-comparison.of_air, None))
    for line in (*comparison.legend("*"), *comparison.notes):
        print(line)


def show_air(comparison: Comparison) -> None:
    """What the runs take on the link, and its figures."""
    assert comparison.link is not None
    part = slice(-comparison.of_air, None)
    _table(f"On the air, {comparison.link.name}", comparison, part)
    for line in (*comparison.legend("*", part), comparison.notes[-1]):
        print(line)


def _table(title: str, comparison: Comparison, part: slice) -> None:
    rows = [
        [cells[0], *[f"{text} *" if comparison.is_best(row, at) else text for at, text in enumerate(cells[1:])][part]]
        for row, cells in enumerate(comparison.texts())
    ]
    rows = [[_printable(cell) for cell in row] for row in rows]
    console.table(_printable(title), ["run", *[column.head for column in comparison.columns][part]], rows)


def _printable(text: str) -> str:
    """Somebody else's text for a terminal, which would obey what is no letter of it."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _document(out: Path, comparison: Comparison) -> dict[str, Any]:
    from fedcode.rundir import finite

    return {
        "page": str(out),
        "target_accuracy": comparison.target,
        "runs": [finite(comparison.document(trace)) for trace in comparison.gathering.traces],
        "remarks": [_printable(remark) for remark in comparison.gathering.remarks],
    }
