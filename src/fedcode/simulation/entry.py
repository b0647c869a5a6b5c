"""How a run is started: as a generator of events, or in one call."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fedcode.ends import Method
from fedcode.errors import ArgumentError, require
from fedcode.events import Event, Observer, RoundDone, RunDone, RunStarted
from fedcode.rundir import RunDirectory
from fedcode.simulation.config import OWN, Config
from fedcode.simulation.draw import Draw
from fedcode.simulation.given import Given, given
from fedcode.simulation.job import InThisProcess, Trainer, check_asks
from fedcode.simulation.rounds import run_rounds
from fedcode.simulation.side_by_side import SideBySide
from fedcode.simulation.training import Loss
from fedcode.simulation.trial import check_fit
from fedcode.simulation.workers import AsItPays, Workers, cores

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A finished run: the lines of its history, its summary, the global model (arrays by name), and its settings.

    A notebook shows it as its table, a script as one line.

    >>> import fedcode
    >>> run = fedcode.simulate("fedavg", clients=2, rounds=1, epochs=1)
    >>> str(run.table()).splitlines()[0].split()[:3]
    ['run', 'best', '%']
    """

    history: list[dict[str, Any]]
    summary: dict[str, Any]
    state: dict[str, Any]
    config: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        best, dtr = self.summary["accuracy"]["best"], self.summary["dtr"]["total"]
        megabytes, rounds = self.summary["megabytes"], self.summary["rounds"]
        said = [
            f"{rounds} round{'s'[: rounds > 1]}",
            *([] if best is None else [f"best {100 * best:.2f} %"]),
            f"{megabytes['down']:.2f} MB down, {megabytes['up']:.2f} MB up",
            *([] if dtr is None else [f"DTR {dtr:.1f}"]),
        ]
        return f"<Run {self.summary['label']}: {', '.join(said)}>"

    def table(self, *others: Run, link: str | None = None) -> Any:
        """What it cost and reached, beside other runs; link: as `fedcode report --link` takes it."""
        return _report().table([self, *others], link)

    def plot(self, name: str = "volume", *others: Run) -> Any:
        """A matplotlib figure of it and of other runs: any of `fedcode plot`."""
        return _report().plot([self, *others], name)

    def _repr_html_(self) -> str:
        return str(self.table()._repr_html_())

    def load_into(self, module: torch.nn.Module) -> None:
        """Load the global model into a network of its kind, in place."""
        module.load_state_dict({name: torch.as_tensor(value) for name, value in self.state.items()})


def run(
    config: Config,
    *,
    data: Any = None,
    model: Any = None,
    loss: Loss | None = None,
    out: PathLike | None = None,
    resume: bool = False,
    draw: PathLike | None = None,
    trainer: Trainer | None = None,
) -> Iterator[Event]:
    """One run as a generator of events; whoever stops asking stops the run.

    data, model, loss: the caller's own, in the place of those that config names. out: the run's directory.
    resume: go on with the run that is there. draw: a folder with a draw that another run saved.

    >>> config = Config(method="fedavg", clients=2, rounds=1, epochs=1)
    >>> [type(event).__name__ for event in run(config)]
    ['RunStarted', 'RoundStarted', 'ClientDone', 'ClientDone', 'RoundDone', 'RunDone']
    """
    check_asks(config)
    found = given(config, data, model, loss)
    drawn = Draw.of(config, found)
    if draw is not None:
        drawn = drawn.read(draw)
    if trainer is None:  # another's trainer may do what it likes with them
        check_fit(config, found)
    directory = None if out is None else RunDirectory(out)
    yield from run_rounds(config, found, drawn, trainer or trainer_for(config, found), directory, resume)


def simulate(
    method: str | Method = "fedcode",
    *,
    data: Any = None,
    model: Any = None,
    loss: Loss | None = None,
    out: PathLike | None = None,
    resume: bool = False,
    draw: PathLike | None = None,
    observers: Sequence[Observer] = (),
    **settings: Any,
) -> Run:
    """Train federated on this machine and return what came of it.

    method: a name, or `fedcode.method(...)` with its settings. data: the name of a data set, two arrays or four, a
    torch Dataset, or a function. model: the name of a network, a Module, or a function that makes one. out: a
    directory to keep the run in. observers: objects with `on(event)`. What else can be set stands in
    `fedcode.simulation.Config`.

    >>> import fedcode
    >>> run = fedcode.simulate("fedcode", clients=2, rounds=2, epochs=1)
    >>> len(run.history), run.summary["method"]
    (2, 'fedcode')
    """
    if isinstance(method, Method):
        if "settings" in settings:
            raise ArgumentError("the method brings its settings with it; give settings= with a name alone.")
        settings |= {"method": method.name, "settings": method.settings()}
    else:
        settings["method"] = method
    if isinstance(data, str):
        settings["dataset"], data = data, None
    elif data is not None:
        settings["dataset"] = OWN
    if isinstance(model, str):
        settings["network"], model = model, None
    elif model is not None:
        settings["network"] = OWN
    config = Config.of(settings)
    history: list[dict[str, Any]] = []
    done: RunDone | None = None
    for event in run(config, data=data, model=model, loss=loss, out=out, resume=resume, draw=draw):
        if isinstance(event, RunStarted):
            history += [dict(record) for record in event.history]
        elif isinstance(event, RoundDone):
            history.append(dict(event.record))
        elif isinstance(event, RunDone):
            done = event
        for observer in observers:
            observer.on(event)
    assert done is not None  # every run that ends without an error ends with it
    return Run(history, dict(done.summary), dict(done.state), config.document())


def _report() -> Any:
    """The report stands above the simulation and is looked up when a run is shown, so that nothing here needs it."""
    return require("fedcode.report.notebook", "report")


def trainer_for(config: Config, found: Given) -> Trainer:
    """The trainer that these settings ask for."""
    device = torch.device(config.device).type
    if device == "cuda":
        return SideBySide(config, found)
    count = config.workers or (cores(config) if device == "cpu" else 1)
    if count == 1:
        return InThisProcess(config, found)
    if config.workers is None and not config.compile:  # compiling is worth it for long runs alone
        return AsItPays(config, found, count)
    return Workers(config, found, count)
