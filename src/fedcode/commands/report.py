"""`fedcode report`: one page about runs that opens in any browser, and the table of what each cost and reached."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcode.commands import console

if TYPE_CHECKING:
    from fedcode.report.comparison import Comparison

LinkName = Annotated[
    str | None,
    typer.Option(
        "--link",
        metavar="DOWN/UP",
        help="Count time on the air, in Mbit/s; or 4g, 3g, nb-iot, lorawan.",
        show_default=False,
    ),
]


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Directories of runs, or that hold some; results/NAME.json.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the page.")] = Path("report.html"),
    link: LinkName = None,
    title: Annotated[str | None, typer.Option(help="The page's title.", show_default=False)] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write the history of all runs as CSV too, a line a round.", show_default=False)
    ] = None,
    parquet: Annotated[Path | None, typer.Option(help="The same as Parquet.", show_default=False)] = None,
    quiet: console.Quiet = False,
    as_json: console.Json = False,
) -> None:
    """Write one page about runs: a table, charts, settings. It needs no network, and nothing beside it.

    \\b
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
    comparison = Comparison(gather(runs), air)
    for remark in comparison.gathering.remarks:
        console.remark(f"fedcode: note: {remark}", quiet)
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


def show(comparison: Comparison) -> None:
    """The table, the best of each column with a star; what is on the air is a table of its own."""
    from fedcode.report.page import heading

    texts = comparison.texts()
    heads = [column.head for column in comparison.columns]
    rows = [
        [f"{text} *" if comparison.is_best(number, at) else text for at, text in enumerate(cells[1:])]
        for number, cells in enumerate(texts)
    ]
    behind = len(heads) - comparison.of_air
    for title, part in ((heading(comparison.gathering.traces), slice(behind)), ("On the air", slice(behind, None))):
        if heads[part]:
            labelled = [[cells[0], *row[part]] for cells, row in zip(texts, rows, strict=True)]
            console.table(title, ["run", *heads[part]], labelled)
    for note in comparison.notes:
        print(note)


def _document(out: Path, comparison: Comparison) -> dict[str, Any]:
    columns = [column.head for column in comparison.columns]
    runs = [
        {"run": trace.label, **dict(zip(columns, row, strict=True))}
        for trace, row in zip(comparison.gathering.traces, comparison.figures, strict=True)
    ]
    return {
        "page": str(out),
        "target_accuracy": comparison.target,
        "runs": runs,
        "remarks": list(comparison.gathering.remarks),
    }
