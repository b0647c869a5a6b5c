"""`fedcode size`: what a run of FedCode would send, by the paper's count, without training anything."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from fedcode.commands import console
from fedcode.paper_count import MEGABYTE, RunSize


class Count(StrEnum):
    """Which of the paper's two counts."""

    FORMULA = "formula"
    PRINTED = "printed"


def size(
    params: Annotated[int, typer.Option(help="P: how many trained parameters the model has.")],
    clusters: Annotated[int, typer.Option("--clusters", "-k", help="K: centres of a codebook.")],
    downlink: Annotated[float, typer.Option(help="F1: share of the rounds with a full broadcast.")],
    uplink: Annotated[float, typer.Option(help="F2: share of the rounds with full replies.")],
    start: Annotated[int, typer.Option(help="R_cb: codebooks alone come after this round.")],
    rounds: Annotated[int, typer.Option(help="R: rounds in all.")],
    clients: Annotated[int, typer.Option(help="M: clients that take part in a round.")] = 1,
    count: Annotated[
        Count, typer.Option(help="The paper's formula, or the count that its printed megabytes fit.")
    ] = Count.FORMULA,
    as_json: console.Json = False,
) -> None:
    """Count the bits that a run of FedCode sends, by the paper's rule.

    \b
    Example, ResNet-20 on CIFAR-100 as in the paper:
      fedcode size --params 275572 --clusters 64 --downlink 0.2 --uplink 0.5 --start 2 --rounds 100 --clients 10

    DTR is the data transfer reduction: how many times fewer bits than FedAvg. Headers and statistics are not
    counted. Megabytes are of 2^20 bytes, as in the paper.
    """
    run = RunSize(params, clusters, downlink, uplink, start, rounds, clients, count.value)
    if as_json:
        console.document(_document(run))
        return
    rows = [
        ("full rounds", str(run.full_down), str(run.full_up), ""),
        ("bits", f"{run.bits_down:,}", f"{run.bits_up:,}", f"{run.bits_total:,}"),
        ("megabytes", *(f"{bits / MEGABYTE:.2f}" for bits in (run.bits_down, run.bits_up, run.bits_total))),
        ("DTR", *(f"{dtr:.1f}" for dtr in (run.dtr_down, run.dtr_up, run.dtr_total))),
        ("bits per parameter", "", "", f"{run.bits_per_parameter:.2f}"),
    ]
    console.table(f"By the paper's {run.count} count", ("", "down", "up", "total"), rows)


def _document(run: RunSize) -> dict[str, Any]:
    """Every figure, with its direction below it."""
    return {
        "count": run.count,
        "parameters": run.parameters,
        "clusters": run.clusters,
        "rounds": run.rounds,
        "clients": run.clients,
        "full_rounds": {"down": run.full_down, "up": run.full_up},
        "bits": {"down": run.bits_down, "up": run.bits_up, "total": run.bits_total},
        "dtr": {"down": run.dtr_down, "up": run.dtr_up, "total": run.dtr_total},
        "bits_per_parameter": run.bits_per_parameter,
    }
