"""`fedcode reproduce`: the paper's experiments, run in pieces, and what was measured beside what the paper says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcode.commands import console
from fedcode.commands.data import DataDir
from fedcode.commands.lines import following
from fedcode.errors import ArgumentError

if TYPE_CHECKING:
    from fedcode.experiments.cell import Cell
    from fedcode.experiments.plan import Plan
    from fedcode.experiments.results import Results
    from fedcode.experiments.runner import How, Outcome
    from fedcode.experiments.table import Table

_WHAT, _HOW, _FILES = "What is run", "How it is computed", "What is kept where"


def _option(text: str, panel: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel)


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Experiments; see --list.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Say what there is, and what of it was run.")] = False,
    scale: Annotated[str, _option("small, or the paper's own setting: paper.", _WHAT)] = "small",
    dataset: Annotated[str | None, _option("Another data set; with digits everything takes minutes.", _WHAT)] = None,
    rounds: Annotated[int | None, _option("Another number of rounds; its tables stand apart.", _WHAT)] = None,
    beta: Annotated[float | None, _option("Another concentration for what is non-IID, apart as well.", _WHAT)] = None,
    seeds: Annotated[str | None, _option("Which seeds, as 0,1,2.", _WHAT)] = None,
    methods: Annotated[
        list[str] | None, _option("This method beside FedAvg; again for more.", _WHAT, "--method")
    ] = None,
    everything: Annotated[bool, _option("table-comparison with every registered method.", _WHAT, "--all")] = False,
    device: Annotated[str, _option("cpu, cuda, ...", _HOW)] = "cpu",
    workers: Annotated[int | None, _option("Clients trained side by side; the result is the same.", _HOW)] = None,
    precision: Annotated[str, _option("float32 or bf16.", _HOW)] = "float32",
    compile: Annotated[bool, _option("Compile the training step.", _HOW, "--compile")] = False,
    minutes: Annotated[float | None, _option("Stop after so long; the same command goes on.", _HOW)] = None,
    data_dir: DataDir = None,
    out: Annotated[Path, _option("Where runs are kept and go on from.", _FILES)] = Path("runs"),
    results: Annotated[Path, _option("Where NAME.json with what was measured is kept.", _FILES)] = Path("results"),
    collect: Annotated[
        Path | None, _option("Run nothing: bring home runs or results that were made elsewhere.", _FILES)
    ] = None,
    document: Annotated[
        Path | None, _option("Run nothing: write a page about everything in --results.", _FILES)
    ] = None,
    quiet: console.Quiet = False,
    as_json: console.Json = False,
) -> None:
    """Run an experiment of the paper and print what came of it beside what the paper says.

    A cell (one method, setting and seed) that was run is not run again; one that was stopped goes on where it was.
    Several processes may work on the same --out at once.

    \b
    Examples:
      fedcode reproduce --list
      fedcode reproduce small-iid --dataset digits
      fedcode reproduce small-iid --workers 2 --precision bf16 --minutes 60
      fedcode reproduce table-resnet20 --scale paper --device cuda
      fedcode reproduce --collect /mnt/brought/runs
      fedcode reproduce --document docs/reproduction.md
    """
    from fedcode.experiments.plan import Plan
    from fedcode.experiments.results import Results

    kept = Results(results)
    if list_:
        _list(kept, as_json)
        return
    if document is not None:
        from fedcode.experiments.page import write_page

        write_page(document, kept)
        console.remark(f"wrote {document}", quiet)
        return
    plans = [
        Plan(
            name,
            scale=scale,
            dataset=dataset,
            rounds=rounds,
            beta=beta,
            seeds=_seeds(seeds),
            methods=tuple(methods or ()),
            everything=everything,
        )
        for name in names or ()
    ]
    if collect is not None:
        from fedcode.experiments.collection import bring_home

        for path in bring_home(collect, plans, kept):
            console.remark(f"wrote {path}", quiet)
        return
    if not plans:
        raise ArgumentError("name an experiment; fedcode reproduce --list says which there are.")
    from fedcode.experiments.runner import How

    how = How(
        runs=out,
        data_dir=None if data_dir is None else str(data_dir),
        device=device,
        workers=workers,
        precision=precision,
        compile=compile,
        minutes=minutes,
    )
    _run(plans, kept, how, quiet, as_json)


def _run(plans: Sequence[Plan], kept: Results, how: How, quiet: bool, as_json: bool) -> None:
    from fedcode.experiments.runner import reproduce
    from fedcode.experiments.tables import tables

    try:
        with following(quiet) as observer:
            outcome = reproduce(plans, kept, how, lambda _, event: observer.on(event))
    except KeyboardInterrupt:
        console.remark("\nThe same command goes on from here.")
        raise
    found = [table for plan in plans for table in tables(plan, kept)]
    if as_json:
        console.document(_document(found, outcome))
    else:
        for table in found:
            show(table)
    _say(outcome, quiet)
    if outcome.failed and not outcome.done:
        raise next(iter(outcome.failed.values()))


def show(table: Table) -> None:
    """Print one table and what must be said below it."""
    shown = table.filled()
    console.table(shown.title, shown.heads, shown.texts())
    for note in shown.notes:
        print(note)
    print()


def _document(found: Sequence[Table], outcome: Outcome) -> dict[str, Any]:
    return {
        "tables": [table.document() for table in found],
        "done": [cell.key for cell in outcome.done],
        "busy": [cell.key for cell in outcome.busy],
        "failed": {cell.key: str(error) for cell, error in outcome.failed.items()},
        "stopped": outcome.stopped,
    }


def _say(outcome: Outcome, quiet: bool) -> None:
    reasons: dict[str, list[Cell]] = {}
    for cell, error in outcome.failed.items():
        reasons.setdefault(str(error), []).append(cell)
    for reason, cells in reasons.items():
        console.remark(f"not run: {', '.join(cell.key for cell in cells)}: {reason}", quiet)
    if outcome.busy:
        console.remark(f"another process runs {', '.join(cell.key for cell in outcome.busy)}.", quiet)
    if outcome.stopped:
        console.remark("The time is over. The same command goes on from here.", quiet)


def _list(kept: Results, as_json: bool) -> None:
    from fedcode.experiments.catalogue import EXPERIMENTS

    found: dict[str, dict[str, Any]] = {
        name: {
            "title": experiment.title,
            "lines": sum(1 for _ in experiment.rows(False)),
            "seeds": list(experiment.seeds),
            "measured": {
                key: f"{sum(cell.key in kept.records for cell in plan.cells())} of {len(plan.cells())}"
                for key, plan in sorted(kept.plans.get(name, {}).items())
            },
        }
        for name, experiment in EXPERIMENTS.items()
    }
    if as_json:
        console.document(found)
        return
    rows = [
        (name, one["title"], str(one["lines"]), "; ".join(f"{key}: {of}" for key, of in one["measured"].items()))
        for name, one in found.items()
    ]
    console.table("Experiments", ("name", "what", "lines", "cells measured"), rows, numbers=False)
    print(
        "lines: the settings that its table sets side by side. A cell is one of these with one seed: one training run."
    )


def _seeds(text: str | None) -> tuple[int, ...]:
    """Seeds as they are written on the command line.

    >>> _seeds("0,1,2"), _seeds(None)
    ((0, 1, 2), ())
    """
    if text is None:
        return ()
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ArgumentError(f"--seeds are whole numbers, as 0,1,2: got {text!r}.") from error
    if min(found) < 0 or len(set(found)) < len(found):
        raise ArgumentError(f"--seeds are different numbers of 0 or more: got {text!r}.")
    return found
