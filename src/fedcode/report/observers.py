"""Observers by name, as `--log` takes them: each writes beside the runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedcode.errors import ArgumentError
from fedcode.events import Event, Observer, RoundDone, RunDone, RunStarted
from fedcode.report import history
from fedcode.report.trace import Trace

PathLike = str | os.PathLike[str]


class History:
    """An observer that writes the history of every run as a table, FOLDER/LABEL/history.csv or .parquet, at its end."""

    def __init__(self, folder: PathLike, kind: str = "csv") -> None:
        self.folder, self.kind = Path(folder), kind
        self.config: dict[str, Any] = {}
        self.records: list[dict[str, Any]] = []

    def on(self, event: Event) -> None:
        """Hear one event."""
        if isinstance(event, RunStarted):
            self.config, self.records = dict(event.config), [dict(record) for record in event.history]
        elif isinstance(event, RoundDone):
            self.records.append(dict(event.record))
        elif isinstance(event, RunDone):
            self._write(event.summary)

    def _write(self, summary: Any) -> None:
        place = self.folder / str(self.config["label"])
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"history.{self.kind}"
        trace = Trace.of(self.config, self.records, summary, "the history")
        (history.write_csv if self.kind == "csv" else history.write_parquet)(path, [trace])


def _tensorboard(folder: Path) -> Observer:
    from fedcode.report.tensorboard import TensorBoard

    return TensorBoard(folder / "tensorboard")


def _mlflow(folder: Path) -> Observer:
    from fedcode.report.mlflow import MLflow

    return MLflow(folder)


OBSERVERS: dict[str, Callable[[Path], Observer]] = {
    "tensorboard": _tensorboard,
    "mlflow": _mlflow,
    "csv": History,
    "parquet": lambda folder: History(folder, "parquet"),
}


@contextmanager
def observers(names: Iterable[str], folder: PathLike) -> Iterator[list[Observer]]:
    """The observers of these names, writing below a folder; closed at the end, whatever it is.

    >>> with observers(["csv"], "runs") as found:
    ...     [type(observer).__name__ for observer in found]
    ['History']
    """
    for name in names:
        if name not in OBSERVERS:
            raise ArgumentError(f"what is logged to is one of {', '.join(OBSERVERS)}: got {name!r}.")
    made = [OBSERVERS[name](Path(folder)) for name in dict.fromkeys(names)]
    try:
        yield made
    finally:
        for observer in made:
            close = getattr(observer, "close", None)
            if close is not None:
                close()
