"""docs/reproduction.md: everything that was measured, beside what the paper says."""

from __future__ import annotations

from pathlib import Path

from fedcode.experiments.catalogue import EXPERIMENTS
from fedcode.experiments.count_tables import counted
from fedcode.experiments.plan import Plan
from fedcode.experiments.results import Results
from fedcode.experiments.tables import tables
from fedcode.files import new_file


def write_page(path: Path, results: Results) -> None:
    """Write the page about everything in the results."""
    with new_file(path, force=True) as file:
        file.write(page(results).encode())


def page(results: Results) -> str:
    """The page as markdown."""
    parts = ["# The paper's experiments, and what we measured\n"]
    for name, experiment in EXPERIMENTS.items():
        parts.append(f"## {name}\n\n{experiment.title}.\n")
        parts += [f"{table.title}\n\n{table.filled().markdown()}\n" for table in counted(Plan(name))]
        for plan in results.plans.get(name, {}).values():
            parts += [f"### {table.title}\n\n{table.filled().markdown()}\n" for table in tables(plan, results)]
    return "\n".join(parts)
