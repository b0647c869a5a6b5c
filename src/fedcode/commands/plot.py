"""`fedcode plot`: a figure of the paper, or the frontier, as a file for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcode.commands import console
from fedcode.commands.report import Where

NAMES = ("volume", "volume-linear", "clusters", "epochs", "tradeoff", "bounds", "bitrate", "frontier")


def _complete(begun: str) -> list[str]:
    return [name for name in NAMES if name.startswith(begun)]


def plot(
    name: Annotated[str, typer.Argument(help="One of the figures above.", autocompletion=_complete)],
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[DIR...]", help="Directories of runs, or results/NAME.json.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file: .pdf, .svg or .png.", show_default="NAME.pdf"),
    ] = None,
    where: Where = None,
    quiet: console.Quiet = False,
) -> None:
    """Draw a figure of the paper, or the frontier, from runs of your own or from results.

    \b
    volume         accuracy over megabytes sent, both ways
    volume-linear  the same with a linear axis of megabytes
    clusters       best accuracy over K, FedAvg's as a level
    epochs         accuracy over rounds, for runs that differ in their epochs
    tradeoff       best accuracy over the reduction (DTR), a point for each K
    bounds         reduction over K by the paper's formula; takes no runs
    bitrate        bits a weight and message, over rounds
    frontier       best accuracy over megabytes, with the front of the best

    Runs that differ by their seed alone are one curve, with a band from the least to the greatest. Curves are told
    apart in grey print too.

    \b
    Examples:
      fedcode plot volume runs/study -o volume.pdf
      fedcode plot frontier results/frontier.json -o frontier.svg
      fedcode plot volume results/small-iid.json --where dataset=cifar10 --where scale=paper -o cifar.pdf
      fedcode plot bounds -o bounds.png
    """
    from fedcode.report import figures
    from fedcode.report.gathering import gather

    gathering = gather(runs, where or ()) if runs else None
    for remark in gathering.remarks if gathering else ():
        console.remark(f"fedcode: note: {remark}", quiet)
    path = out or Path(f"{name}.pdf")
    figures.plot(name, gathering, path)
    if gathering and (thin := figures.thin(name, gathering)):
        console.remark(f"fedcode: note: {thin}", quiet)
    console.remark(f"wrote {path}", quiet)
