"""Cells run one after the other: each in a directory of its own, resumable, recorded when it is finished."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from fedcode import rundir
from fedcode.errors import ArgumentError, DataError, FedcodeError, RunError
from fedcode.events import Event, RoundDone, RoundStarted, RunStarted
from fedcode.experiments.cell import Cell
from fedcode.experiments.collection import remember
from fedcode.experiments.plan import Plan
from fedcode.experiments.recoding import Recoding, recoded, recodes
from fedcode.experiments.results import Record, Results, record_of
from fedcode.experiments.tables import tables
from fedcode.simulation.config import Config

Hear = Callable[[Cell, Event], None]
NOT_NOW = (ArgumentError, DataError, RunError)  # what keeps one cell from running, and not the next


@dataclass(frozen=True)
class How:
    """How cells are computed, which decides no more of their result than rounding does.

    runs: where the directories of the runs are. minutes: stop cleanly after that long.
    """

    runs: Path = Path("runs")
    data_dir: str | None = None
    device: str = "cpu"
    workers: int | None = None
    precision: str = "float32"
    compile: bool = False
    minutes: float | None = None


@dataclass
class Outcome:
    """What came of a call.

    done: cells with a record. busy: those that another process runs. failed: those that cannot be run, and why.
    stopped: whether the time ran out.
    """

    done: list[Cell] = field(default_factory=list)
    busy: list[Cell] = field(default_factory=list)
    failed: dict[Cell, FedcodeError] = field(default_factory=dict)
    stopped: bool = False


def reproduce(plans: Sequence[Plan], results: Results, how: How, hear: Hear | None = None) -> Outcome:
    """Run every cell that has no record yet, and write the plans' files as cells are finished.

    A cell that a killed or stopped call left goes on where it was. A cell that another process runs is passed over,
    and looked at again when all others are done.
    """
    remember(plans, how.runs)
    outcome, clock = Outcome(), Clock(how.minutes)
    waiting = list(dict.fromkeys(cell for plan in plans for cell in plan.cells()))
    while waiting:
        before, outcome.busy = len(waiting), []
        for cell in waiting:
            if cell.key not in results.records:
                try:
                    record = run_cell(cell, how, clock, hear)
                except InUse:
                    outcome.busy.append(cell)
                    continue
                except NOT_NOW as error:
                    outcome.failed[cell] = error
                    continue
                if record is None:
                    outcome.stopped = True
                    break
                results.add(cell.key, record)
                write([plan for plan in plans if cell in plan.cells()], results)
            outcome.done.append(cell)
        waiting = [] if outcome.stopped or len(outcome.busy) == before else outcome.busy
    write(plans, results)
    return outcome


def run_cell(cell: Cell, how: How, clock: Clock, hear: Hear | None = None) -> Record | None:
    """Run a cell to its end, from wherever it was; None where the time ran out before."""
    directory = rundir.RunDirectory(how.runs / cell.key)
    if not directory.finished:
        if clock.over():
            return None
        _check_free(directory)
        try:
            with closing(events(cell, how)) as happened:
                for event in happened:
                    if hear is not None:
                        hear(cell, event)
                    if isinstance(event, RoundStarted) and clock.over():  # by then the last round is kept
                        return None
        except RunError:
            _check_free(directory)  # another process may have begun while the data was read
            raise
    return finished(cell, how.runs)


def finished(cell: Cell, runs: Path) -> Record | None:
    """The record of a cell whose run has come to its end; None where it has not."""
    if not rundir.RunDirectory(runs / cell.key).finished:
        return None
    run = rundir.read(runs / cell.key)
    assert run.summary is not None
    return record_of(cell, run, recoded(run.path, run.summary))


class InUse(Exception):
    """Another process runs this cell."""


def _check_free(directory: rundir.RunDirectory) -> None:
    """Before the data is read: that costs more than the question."""
    directory.path.mkdir(parents=True, exist_ok=True)
    try:
        with directory.opened():
            pass
    except RunError as error:
        raise InUse from error


def events(cell: Cell, how: How) -> Generator[Event]:
    """The events of a cell's run, begun or resumed."""
    from fedcode.simulation.draw import Draw
    from fedcode.simulation.entry import trainer_for
    from fedcode.simulation.given import given
    from fedcode.simulation.job import check_asks
    from fedcode.simulation.rounds import run_rounds

    config, directory = config_of(cell, how), rundir.RunDirectory(how.runs / cell.key)
    if directory.begun:  # rounding is part of the run: it goes on as it began
        config = config.chosen(precision=rundir.read(directory.path).config["precision"])
    check_asks(config)
    found = given(config)
    trainer = trainer_for(config, found)
    watched = Recoding(trainer, directory.path) if recodes(config.made()) else None
    draw = Draw.of(config, found)
    for event in run_rounds(config, found, draw, watched or trainer, directory, resume=True):
        if watched is not None and isinstance(event, RunStarted):
            watched.rewind(len(event.history))
        if watched is not None and isinstance(event, RoundDone):
            watched.finish_round()
        yield event


def config_of(cell: Cell, how: How) -> Config:
    """A cell as the simulator takes it.

    >>> cell = Cell(method="fedcode", dataset="cifar10", network="resnet20", rounds=60).on("digits")
    >>> config_of(cell, How()).rounds
    30
    """
    return Config(
        method=cell.method,
        settings=dict(cell.settings),
        label=cell.key,
        dataset=cell.dataset,
        data_dir=how.data_dir,
        network=cell.network,
        fraction=cell.fraction,
        clients=cell.clients,
        beta=cell.beta,
        participation=cell.participation,
        rounds=cell.rounds,
        epochs=cell.epochs,
        batch=cell.batch,
        optimizer=cell.optimizer,
        lr=cell.lr,
        seed=cell.seed,
        precision=how.precision,
        compile=how.compile,
        device=how.device,
        workers=how.workers,
    )


class Clock:
    """Says when the time is over."""

    def __init__(self, minutes: float | None) -> None:
        self.end = None if minutes is None else monotonic() + 60 * minutes

    def over(self) -> bool:
        return self.end is not None and monotonic() >= self.end


def write(plans: Iterable[Plan], results: Results) -> None:
    """Write the plans' files of results."""
    for plan in plans:
        results.write(plan, tables)
