"""Processes side by side: the same bits as one, and what happens when one dies or fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

from fedcode.errors import ArgumentError, WorkerError
from fedcode.simulation import draws, workers
from fedcode.simulation.config import Config
from fedcode.simulation.entry import simulate, trainer_for
from fedcode.simulation.given import first_model, given
from fedcode.simulation.job import InThisProcess, Job, Result
from fedcode.simulation.workers import AsItPays, Workers

CONFIG = Config(method="delta", rounds=2, epochs=1, clients=4)


class Deadly(nn.Linear):
    """A network whose process dies while training, the first time only where `mark` is a path."""

    mark = ""

    def __init__(self) -> None:
        super().__init__(4, 2)
        self.mark = os.environ.get("FEDCODE_TEST_MARK", "")

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training and not (self.mark and Path(self.mark).exists()):
            if self.mark:
                Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(inputs)


class Failing(nn.Linear):
    """A network that cannot be trained."""

    def __init__(self) -> None:
        super().__init__(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        del inputs
        raise RuntimeError("shapes that do not fit")


DATA = (np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32), np.arange(100) % 2)


def jobs(config: Config, data: Any = None, model: Any = None) -> list[Job]:
    """The jobs of the first round."""
    found = given(config, data, model)
    server = config.made().server(first_model(config, found), seed=config.seed, federation=b"training")
    names = draws.names(config.clients)
    parts = draws.parts(config, found.dataset)
    return [Job(1, name, server.message_for(name), b"", part) for name, part in zip(names, parts, strict=True)]


def test_any_number_of_workers_gives_the_same_bits() -> None:
    settings: dict[str, Any] = {"clients": 4, "rounds": 2, "epochs": 1, "participation": 0.75}
    alone = simulate("delta", **settings, workers=1)
    together = simulate("delta", **settings, workers=3)
    for name, values in alone.state.items():
        np.testing.assert_array_equal(values, together.state[name])
    for mine, theirs in zip(alone.history, together.history, strict=True):
        assert {**mine, "seconds": None} == {**theirs, "seconds": None}


def test_a_process_that_dies_has_its_job_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "died"
    monkeypatch.setenv("FEDCODE_TEST_MARK", str(mark))
    config = Config(method="fedavg", dataset="own", clients=4, epochs=1)
    with closing(Workers(config, given(config, DATA, Deadly), 2)) as trainer:
        results = list(trainer.train(jobs(config, DATA, Deadly)))
    assert mark.exists()
    assert sorted(result.client for result in results) == draws.names(4)
    assert all(result.reply for result in results)


def test_a_job_that_kills_every_process_ends_the_run() -> None:
    config = Config(method="fedavg", dataset="own", clients=4, epochs=1)
    with (
        closing(Workers(config, given(config, DATA, Deadly), 2)) as trainer,
        pytest.raises(WorkerError, match=r"client-\d in round 1 died 2 times, the last time by signal 9"),
    ):
        list(trainer.train(jobs(config, DATA, Deadly)))


def test_an_error_in_training_crosses_with_its_text() -> None:
    config = Config(method="fedavg", dataset="own", clients=4, epochs=1)
    with (
        closing(Workers(config, given(config, DATA, Failing), 2)) as trainer,
        pytest.raises(WorkerError, match="shapes that do not fit"),
    ):
        list(trainer.train(jobs(config, DATA, Failing)))


def test_what_cannot_be_handed_to_a_process_is_named() -> None:
    config = Config(method="fedavg", dataset="own", clients=4, epochs=1)

    def local() -> nn.Module:
        return nn.Linear(4, 2)

    with (
        closing(Workers(config, given(config, DATA, local), 2)) as trainer,
        pytest.raises(ArgumentError, match="top level of a module, or set workers=1"),
    ):
        list(trainer.train(jobs(config, DATA, local)))


def test_closing_ends_the_processes_in_the_middle_of_their_work() -> None:
    trainer = Workers(CONFIG, given(CONFIG), 2)
    results = trainer.train(jobs(CONFIG))
    next(results)
    trainer.close()
    assert trainer.started
    assert not any(worker.process.is_alive() for worker in trainer.started)


def test_processes_end_when_the_run_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, signal
            import fedcode
            from fedcode.simulation import Config
            from fedcode.simulation.given import given
            from fedcode.simulation.workers import Workers

            if __name__ == "__main__":
                config = Config(clients=2)
                trainer = Workers(config, given(config), 1)
                trainer._started()
                print("begun", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            """
        )
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as process:
        # the worker has the same standard output, which ends when both have ended
        output, _ = process.communicate(timeout=60)
    assert output == "begun\n"
    assert process.returncode == -signal.SIGKILL


def test_a_script_without_a_guard_is_told_of_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text('import fedcode\nfedcode.simulate("fedavg", clients=2, rounds=1, epochs=1, workers=2)\n')
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "WorkerError: a training process could not begin" in done.stderr
    assert 'if __name__ == "__main__":' in done.stderr


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"workers": 1}, InThisProcess),
        ({"workers": 2}, Workers),
        ({"compile": True}, Workers),
        ({}, AsItPays),
        ({"participation": 0.1}, InThisProcess),
    ],
)
def test_who_trains_follows_from_the_settings(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], kind: type
) -> None:
    monkeypatch.setenv("FEDCODE_THREADS", "2")
    monkeypatch.setattr(workers, "_guarded", lambda: True)
    config = Config(**changes)
    with closing(trainer_for(config, given(config))) as trainer:
        assert type(trainer) is kind


@pytest.mark.parametrize(("rounds", "kind"), [(30, InThisProcess), (10_000_000, Workers)])
def test_processes_start_where_training_takes_long(rounds: int, kind: type) -> None:
    config = CONFIG.chosen(rounds=rounds)
    with closing(AsItPays(config, given(config), 2)) as trainer:
        results: Iterator[Result] = trainer.train(jobs(config))
        assert sorted(result.client for result in results) == draws.names(4)
        assert type(trainer.now) is kind
