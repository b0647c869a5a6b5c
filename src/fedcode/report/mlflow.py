"""An observer that writes to MLflow: where MLFLOW_TRACKING_URI says, else to a database in a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcode.errors import extra
from fedcode.events import Event, RoundDone, RunDone, RunStarted
from fedcode.report.measures import measures, settings

EXPERIMENT = "fedcode"
DATABASE = "mlflow.db"
_PLACE = "fedcode.folder"  # the tag by which a run that goes on is found again


class MLflow:
    """An MLflow run for every run: settings as parameters, metrics by round, the summary's figures at the end.

    A run that goes on is the same run in MLflow too: rounds that stand there already are not written again.
    """

    def __init__(self, folder: str | os.PathLike[str], experiment: str = EXPERIMENT) -> None:
        with extra("mlflow"):
            from mlflow.entities import Metric, Param
            from mlflow.tracking import MlflowClient
        self._metric, self._param = Metric, Param
        self.folder = Path(folder).resolve()
        self.uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.folder / DATABASE}"
        if self.uri.startswith("sqlite:"):
            self.folder.mkdir(parents=True, exist_ok=True)
        self.client = MlflowClient(self.uri)
        self.experiment = experiment
        self.run: str | None = None
        self.written, self.sent = 0, 0.0

    def on(self, event: Event) -> None:
        """Hear one event."""
        if isinstance(event, RunStarted):
            self._begin(event)
        elif isinstance(event, RoundDone):
            self._round(event.record)
        elif isinstance(event, RunDone) and self.run is not None:
            accuracy, now = event.summary["accuracy"], int(1000 * time.time())
            figures = {"best_accuracy": accuracy["best"], "best_round": accuracy["best_round"]}
            figures |= {f"dtr_{way}": value for way, value in event.summary["dtr"].items()}
            known = {name: float(value) for name, value in figures.items() if value is not None}
            self.client.log_batch(self.run, [self._metric(name, value, now, 0) for name, value in known.items()])
            self.close("FINISHED")

    def close(self, status: str = "KILLED") -> None:
        """Say how the run ended."""
        if self.run is not None:
            self.client.set_terminated(self.run, status)
            self.run = None

    def _begin(self, event: RunStarted) -> None:
        label = str(event.config["label"])
        place = str(self.folder / label)
        found = self.client.get_experiment_by_name(self.experiment)
        where = self.client.create_experiment(self.experiment) if found is None else found.experiment_id
        quoted = place.replace("\\", "\\\\").replace("'", "\\'")
        before = (
            self.client.search_runs([where], f"tags.`{_PLACE}` = '{quoted}'", max_results=1) if event.history else []
        )
        if before:
            self.run = before[0].info.run_id
            self.client.update_run(self.run, "RUNNING")
            history = self.client.get_metric_history(self.run, "megabytes/so far")
            self.written = max((metric.step for metric in history), default=0)
        else:
            self.run = self.client.create_run(where, run_name=label, tags={_PLACE: place}).info.run_id
            self.written = 0
            parameters = [self._param(name, value[:6000]) for name, value in settings(event.config).items()]
            self.client.log_batch(self.run, params=parameters[:100])  # MLflow's limits
        self.sent = 0.0
        for record in event.history:
            self._round(record)

    def _round(self, record: Mapping[str, Any]) -> None:
        assert self.run is not None
        found = measures(record, self.sent)
        self.sent, step = found["megabytes/so far"], record["round"]
        if step <= self.written:
            return
        now = int(1000 * time.time())
        self.client.log_batch(self.run, [self._metric(name, value, now, step) for name, value in found.items()])
