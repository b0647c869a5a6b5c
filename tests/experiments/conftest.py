"""One small experiment, run once for all tests here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from fedcode.experiments.plan import Plan
from fedcode.experiments.results import Results
from fedcode.experiments.runner import How, Outcome, reproduce

SMALL = Plan("codebook-silence", dataset="digits", rounds=2, seeds=(0,))


@dataclass(frozen=True)
class Made:
    """A plan that was run, where its runs and results lie, and what came of it."""

    plan: Plan
    runs: Path
    folder: Path
    outcome: Outcome

    @property
    def results(self) -> Results:
        return Results(self.folder)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    place = tmp_path_factory.mktemp("experiments")
    runs, folder = place / "runs", place / "results"
    return Made(SMALL, runs, folder, reproduce([SMALL], Results(folder), How(runs=runs, workers=1)))
