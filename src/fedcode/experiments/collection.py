"""What a folder of runs was run for, so that runs made elsewhere can be brought home."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedcode.errors import ArgumentError, DataError
from fedcode.experiments.held import held
from fedcode.experiments.plan import Plan
from fedcode.experiments.results import Results
from fedcode.files import new_file

PLANS = "plans.json"  # in a folder of runs


def remember(plans: Iterable[Plan], runs: Path) -> None:
    """Note beside the runs what they are for."""
    with held(runs):
        known = {(plan.name, plan.key): plan for plan in remembered(runs)}
        for plan in plans:
            place = (plan.name, plan.key)
            known[place] = plan.and_also(known[place]) if place in known else plan
        with new_file(runs / PLANS, force=True) as file:
            file.write(json.dumps([known[place].document() for place in sorted(known)], indent=1).encode() + b"\n")


def remembered(runs: Path) -> list[Plan]:
    """What the runs in a folder are for.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     remember([Plan("small-iid", rounds=3)], Path(folder))
    ...     [(plan.name, plan.key) for plan in remembered(Path(folder))]
    [('small-iid', 'small, 3 rounds')]
    """
    path = runs / PLANS
    if not path.exists():
        return []
    try:
        documents: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return [Plan.of(document) for document in documents]
    except (OSError, ValueError, KeyError, TypeError, ArgumentError) as error:
        raise DataError(f"{path} is damaged: {error!r}. Remove it: the runs beside it stay whole.") from error


def bring_home(folder: Path, plans: Iterable[Plan], results: Results) -> list[Path]:
    """Take over finished runs, or files of results, from a folder; the files of results that were written.

    plans: what the runs are for, beside what stands with them.
    """
    from fedcode.experiments.runner import finished
    from fedcode.experiments.tables import tables

    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}. Name one that holds runs, or files of results.")
    brought = Results(folder)
    wanted = [*remembered(folder), *plans, *(plan for own in brought.plans.values() for plan in own.values())]
    if not wanted:
        raise DataError(f"{folder} holds neither {PLANS} nor files of results. Name the experiments that it is for.")
    for cell in {cell.key: cell for plan in wanted for cell in plan.cells()}.values():
        record = brought.records.get(cell.key) or finished(cell, folder)
        if record is not None and cell.key not in results.records:
            results.add(cell.key, record)
    return list(dict.fromkeys(results.write(plan, tables) for plan in wanted))
