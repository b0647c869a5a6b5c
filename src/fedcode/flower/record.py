"""A run on Flower, written as the simulator writes its own: the same ledger, files and figures."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from importlib.metadata import PackageNotFoundError, version
from logging import INFO
from os import PathLike
from pathlib import Path
from typing import Any

from flwr.app import MetricRecord
from flwr.supercore import log

import fedcode
from fedcode.ends import Method
from fedcode.errors import ArgumentError
from fedcode.ledger import Ledger, fedavg_sizes
from fedcode.rundir import RunDirectory
from fedcode.server import RoundReport, Server
from fedcode.state import State

# what Flower's own examples call these, the first that is there
_ACCURACY = ("accuracy", "acc", "eval_acc", "eval_accuracy")
_LOSS = ("loss", "eval_loss")
_TRAINING_LOSS = ("train_loss", "loss")
CODEBOOK = 256  # centres at most in a line of the history


class Record:
    """The server's end with what came of every round: in `history`, and in a run's directory where there is one."""

    def __init__(
        self, server: Server, run: RunDirectory | None, config: dict[str, Any], sizes: tuple[int, int]
    ) -> None:
        self.server = server
        self.run = run
        self.config = config
        self.ledger = Ledger(server.layout, server.method, sizes)
        self.history: list[dict[str, Any]] = []
        self.summary: dict[str, Any] | None = None
        self.report = RoundReport(0, 0, 0)
        if run is not None and run.begun:
            self.history = run.rewind(server.round - 1)
            self.ledger.restore(self.history)
        if run is not None:
            run.begin(config)
            run.save(server.to_bytes())
        self.start_round()

    def start_round(self) -> None:
        """A round begins."""
        self._began = self._trained = time.monotonic()
        self._refused: dict[str, int] = {}
        self._centers: list[float] | None = None

    def failed(self, why: str) -> None:
        """Count a client that did not answer as it should."""
        self._refused[why] = self._refused.get(why, 0) + 1

    def aggregate(self) -> RoundReport:
        """Make the new global model."""
        centers = self.server.centers  # of the round that ends
        self._centers = None if centers is None or len(centers) > CODEBOOK else centers.tolist()
        self.report = self.server.finish_round()
        self._trained = time.monotonic()
        for why, count in self.report.refused.items():
            self._refused[why] = self._refused.get(why, 0) + count
        return self.report

    def finish_round(self, trained: MetricRecord | None, shown: MetricRecord | None) -> None:
        """The round's line of the history, then the checkpoint; the metrics are those of training and evaluation."""
        server, report, traffic = self.server, self.report, self.ledger.finish_round()
        record = {
            "round": report.number,
            "clients": list(traffic.per_client),
            "replies": report.replies,
            "examples": report.examples,
            "refused": dict(self._refused),
            "accuracy": _first(shown, _ACCURACY),
            "loss": _first(shown, _LOSS),
            "training_loss": _first(trained, _TRAINING_LOSS),
            **traffic.record(),
            "centers": self._centers,
            "seconds": {
                "training": self._trained - self._began,  # waiting for the network included
                "method": 0.0,
                "evaluation": time.monotonic() - self._trained,
                "other": 0.0,
            },
        }
        self.history.append(record)
        if self.run is not None:
            self.run.append(record)
            self.run.save(server.to_bytes())

    def sent(self) -> str:
        """What has left so far, in one line."""
        figures = self.ledger.totals.figures()
        sizes, times = figures["megabytes"], figures["dtr"]["total"]
        return f"Payload: {sizes['down']:.2f} MB down, {sizes['up']:.2f} MB up" + (
            f"; FedAvg's would be {times:.1f} times as much." if times else "."
        )

    def finish(self) -> None:
        """The figures of the whole run, and its model."""
        found = [(line["accuracy"], line["round"]) for line in self.history if line["accuracy"] is not None]
        best, best_round = max(found, key=lambda pair: pair[0], default=(None, None))
        names = ("training", "method", "evaluation", "other")
        parts = {name: sum(line["seconds"][name] for line in self.history) for name in names}
        self.summary = {
            "method": self.config["method"],
            "label": self.config["label"],
            "settings": self.config["settings"],
            "accuracy": {"best": best, "final": found[-1][0] if found else None, "best_round": best_round},
            **self.ledger.totals.figures(),
            "rounds": len(self.history),
            "seconds": sum(parts.values()),
            "parts": parts,
            "refused": sum(sum(line["refused"].values()) for line in self.history),
            "partition": {"concentration": None, "classes": None},  # who holds what, the server never sees
            "versions": self.config["versions"],
            "machine": self.config["machine"],
        }
        if self.run is not None:
            self.run.finish(self.summary, self.server.model)


def open_record(
    stack: ExitStack,
    directory: str | PathLike[str] | None,
    method: Method,
    state: State,
    options: Mapping[str, Any],
    about: Mapping[str, Any],
) -> Record:
    """A new run, or the unfinished one of this method in the directory, locked until the stack closes.

    DIRECTORY/<method> is the first run's, DIRECTORY/<method>-2 the next one's, and so on.
    """
    run = None if directory is None else stack.enter_context(_place(Path(directory).expanduser(), method.name).opened())
    checkpoint = None if run is None else run.restore()
    if run is None or checkpoint is None:
        server: Server = method.server(state, **options)
    else:
        server = method.restore(checkpoint)
        if server.layout.fingerprint != state.layout.fingerprint:
            raise ArgumentError(
                f"{run.path} holds an unfinished run of another model. Choose another directory, or delete it."
            )
        log(INFO, "Going on with the run in %s at round %s.", run.path, server.round)
    config = {
        "method": method.name,
        "label": method.name if run is None else run.path.name,
        "carrier": "flower",
        **about,
        "federation": server.federation.hex(),
        "settings": method.settings(),
        **surroundings(),
    }
    return Record(server, run, config, fedavg_sizes(state))


def _place(directory: Path, name: str) -> RunDirectory:
    """The unfinished run of this method in a directory, or a place for a new one."""
    number = 1
    while (run := RunDirectory(directory / (name if number == 1 else f"{name}-{number}"))).finished:
        number += 1
    return run


def _first(metrics: MetricRecord | None, names: tuple[str, ...]) -> float | None:
    for name in names:
        value = None if metrics is None else metrics.get(name)
        if isinstance(value, int | float):
            return float(value)
    return None


def surroundings() -> dict[str, Any]:
    """The versions and the machine that the server runs with.

    >>> surroundings()["versions"]["fedcode"] == fedcode.__version__
    True
    """
    versions = {"python": platform.python_version(), "fedcode": fedcode.__version__}
    for name in ("numpy", "numba", "pcodec", "flwr"):
        with suppress(PackageNotFoundError):  # numba can be left out
            versions[name] = version(name)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "versions": versions,
        "machine": {"platform": f"{platform.system()} {platform.machine()}", "cores": cores},
    }
