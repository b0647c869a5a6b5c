"""`fedcode run`: one or several methods trained on the same data, draw and seeds, and what each cost and reached."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcode import rundir
from fedcode.commands import console
from fedcode.commands.lines import following
from fedcode.commands.report import PAGE, LinkName, leave, show_air
from fedcode.errors import ArgumentError, RunError, WorkerError
from fedcode.events import Observer, RunDone

_RUN, _TRAIN, _MACHINE = "The federation", "Local training", "This machine"
_SETTINGS = frozenset(
    {
        *("dataset", "data_dir", "network", "fraction", "clients", "participation", "partition", "beta", "minimum"),
        *("rounds", "known", "seed", "epochs", "batch", "optimizer", "lr", "workers", "device", "precision"),
        *("compile", "evaluate_every", "evaluate_clients"),
    }
)
_OF_A_METHOD = ("method", "label", "settings")
_COLUMNS = ("", "best %", "final", "to FedAvg", "MB down", "up", "DTR down", "up", "total", "bits/weight", "seconds")


def _option(text: str, panel: str = _RUN, *names: str) -> Any:
    # a bracket would be taken for markup, and vanish
    return typer.Option(*names, help=text.replace("[", r"\["), rich_help_panel=panel, show_default=False)


def _complete(begun: str) -> list[str]:
    from fedcode.methods import names

    return [name for name in names() if name.startswith(begun)]


def run(
    methods: Annotated[
        list[str] | None, typer.Argument(help="Methods by name; see fedcode methods.", autocompletion=_complete)
    ] = None,
    dataset: Annotated[str | None, _option("digits, cifar10, cifar100 or speechcommands. [default: digits]")] = None,
    data_dir: Annotated[str | None, _option("Where its archive or folder is.")] = None,
    network: Annotated[
        str | None,
        _option("digits, resnet20, mobilenetv2 or yamnet. [default: the usual one]", _RUN, "--model", "--network"),
    ] = None,
    fraction: Annotated[float | None, _option("The share of the training examples to use. [default: 1]")] = None,
    clients: Annotated[int | None, _option("How many clients there are. [default: 10]")] = None,
    participation: Annotated[float | None, _option("The share of them in a round. [default: 1.0]")] = None,
    partition: Annotated[str | None, _option("dirichlet, equal or shards. [default: dirichlet]")] = None,
    beta: Annotated[float | None, _option("Dirichlet's concentration: small is skewed. [default: 10]")] = None,
    minimum: Annotated[int | None, _option("Examples that every client has at least. [default: 10]")] = None,
    rounds: Annotated[int | None, _option("How many rounds. [default: 30]")] = None,
    known: Annotated[bool | None, _option("Clients hold the first weights already.")] = None,
    seed: Annotated[int | None, _option("What everything random comes from. [default: 0]")] = None,
    draw: Annotated[Path | None, _option("Take partition, first weights and trace from this directory.")] = None,
    save_draw: Annotated[Path | None, _option("Write them to this directory.")] = None,
    epochs: Annotated[int | None, _option("Epochs a round. [default: 4]", _TRAIN)] = None,
    batch: Annotated[int | None, _option("Examples a batch. [default: 128]", _TRAIN)] = None,
    optimizer: Annotated[str | None, _option("adam, sgd or momentum. [default: adam]", _TRAIN)] = None,
    lr: Annotated[float | None, _option("Learning rate. [default: 0.001]", _TRAIN)] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A method's setting: fedcode.clusters=64. Again for more.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with any of these; options given here win.")] = None,
    out: Annotated[Path | None, typer.Option(help=r"Where to keep the runs. \[default: runs/DATASET-DATE]")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the runs in this directory, from their last checkpoints.")
    ] = None,
    workers: Annotated[int | None, _option("Processes that train side by side. [default: what pays]", _MACHINE)] = None,
    device: Annotated[str | None, _option("cpu, cuda, ... [default: cpu]", _MACHINE)] = None,
    precision: Annotated[str | None, _option("float32 or bf16. [default: float32]", _MACHINE)] = None,
    compile: Annotated[bool | None, _option("Compile the training step.", _MACHINE)] = None,
    evaluate_every: Annotated[int | None, _option("Rounds between evaluations. [default: 1]", _MACHINE)] = None,
    evaluate_clients: Annotated[
        bool | None, _option("Send every model to its clients for evaluation too; counted apart.", _MACHINE)
    ] = None,
    link: LinkName = None,
    log: Annotated[
        list[str] | None,
        typer.Option(
            help="Write to tensorboard, mlflow, csv or parquet as it goes; again for more.", show_default=False
        ),
    ] = None,
    quiet: console.Quiet = False,
    as_json: console.Json = False,
) -> None:
    """Train with one or several methods, one after the other, on the same draw.

    \b
    Examples:
      fedcode run fedavg fedcode delta
      fedcode run fedavg fedcode --beta 0.1 --participation 0.5 --set fedcode.clusters=32
      fedcode run --config study.toml --out runs/study
      fedcode run --resume runs/study
      fedcode run fedavg fedcode --link nb-iot --log tensorboard

    Every run is kept in a directory, DIR/METHOD, from which it can go on after whatever ended it. Checkpoints take
    a fiftieth of the time at most, so the last rounds, if they were short, are made again and come out the same.
    DIR/report.html is a page about all of them; open it in a browser.
    """
    given = {name: value for name, value in locals().items() if value is not None and name in _SETTINGS}
    if resume is not None and (methods or set_ or config or out or draw or save_draw):
        raise ArgumentError(
            "--resume goes on with the runs as they were begun: neither methods nor --set, --config, --out, --draw "
            "and --save-draw go with it."
        )
    from fedcode.report.link import Link
    from fedcode.report.observers import observers
    from fedcode.simulation import plan

    air = None if link is None else Link.of(link)
    if resume is None:
        document = plan.with_settings((plan.read_plan(config) if config else {}) | given, set_ or [])
        if methods:
            document["methods"] = methods
        configs = plan.plan(document)
        if out is None:
            out = Path("runs") / f"{configs[0].dataset}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
        if save_draw is not None:
            plan.save_draw(configs[0], draw, save_draw)
        made = _new(out, configs)
        plan.keep_plan(out, document)
    else:
        out, configs, made = resume, plan.go_on(resume, given), []
    try:
        with observers(log or (), out) as others, following(quiet) as view:
            summaries = [_one(config, out, draw, [view, *others]) for config in configs]
    except (KeyboardInterrupt, SystemExit, WorkerError):
        console.remark(f"Go on with: fedcode run --resume {out}")
        raise
    except RunError:  # whoever holds the directory, or fills the disk, may be another
        raise
    except Exception:
        if not any(_rounds(out / config.label) for config in configs):
            _remove(made, out)
        raise
    comparison = leave(out, air, quiet)
    if air is not None:
        summaries = [rundir.read(out / config.label).summary or {} for config in configs]
    common = {name: value for name, value in configs[0].document().items() if name not in _OF_A_METHOD}
    if as_json:
        console.document({"out": str(out), "config": common, "runs": summaries})
        return
    show(common, summaries)
    if air is not None and comparison is not None:
        show_air(comparison)
    console.remark(f"kept in {out}, with a page about it: {out / PAGE}" if comparison else f"kept in {out}", quiet)


def _new(out: Path, configs: Sequence[Any]) -> list[Path]:
    """What this call is about to make, the innermost first."""
    from fedcode.simulation.plan import PLAN

    places = [*(out / config.label for config in configs), out / PLAN, out, *out.parents]
    return [place for place in places if not place.exists()]


def _remove(made: Sequence[Path], out: Path) -> None:
    """Take away what a call made that ran nothing; what lies above its directory only where it is empty."""
    for place in made:
        if place in out.parents:
            with suppress(OSError):
                place.rmdir()
        elif place.is_dir():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)


def _rounds(place: Path) -> int:
    """How many rounds a run's directory holds."""
    return len(rundir.read(place).history) if rundir.RunDirectory(place).begun else 0


def _one(config: Any, out: Path, draw: Path | None, observers: Sequence[Observer]) -> dict[str, Any]:
    """One run from wherever it was; its summary."""
    from fedcode.simulation import run as events_of

    place = out / config.label
    if rundir.RunDirectory(place).finished:
        found = rundir.read(place).summary
        assert found is not None
        return found
    summary: dict[str, Any] = {}
    for event in events_of(config, out=place, resume=True, draw=draw):
        for observer in observers:
            observer.on(event)
        if isinstance(event, RunDone):
            summary = dict(event.summary)
    return summary


def show(config: Mapping[str, Any], summaries: Sequence[Mapping[str, Any]]) -> None:
    """The table of what each method cost and reached."""
    fedavg = next((summary for summary in summaries if summary["method"] == "fedavg"), None)
    console.table(
        ", ".join(
            (
                config["dataset"],
                _counted(config["clients"], "client"),
                f"{_counted(config['rounds'], 'round')} of {_counted(config['epochs'], 'epoch')}",
            )
        ),
        _COLUMNS,
        [_row(summary, fedavg) for summary in summaries],
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _row(summary: Mapping[str, Any], fedavg: Mapping[str, Any] | None) -> list[str]:
    best, megabytes, dtr = summary["accuracy"]["best"], summary["megabytes"], summary["dtr"]
    against = None if fedavg is None or best is None else 100 * (best - fedavg["accuracy"]["best"])
    return [
        summary["label"],
        *("" if value is None else f"{100 * value:.2f}" for value in (best, summary["accuracy"]["final"])),
        "" if against is None or summary is fedavg else f"{against:+.2f}",
        *(f"{megabytes[direction]:.2f}" for direction in ("down", "up")),
        *("" if dtr[key] is None else f"{dtr[key]:.1f}" for key in ("down", "up", "total")),
        "" if summary["bits_per_parameter"] is None else f"{summary['bits_per_parameter']:.2f}",
        f"{summary['seconds']:.1f}",
    ]
