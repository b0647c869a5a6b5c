"""An observer that writes for TensorBoard: `tensorboard --logdir FOLDER` shows a run for each label."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcode.errors import extra
from fedcode.events import Event, RoundDone, RunDone, RunStarted
from fedcode.report.measures import measures, settings


class TensorBoard:
    """Scalars by round and the settings as text, in FOLDER/LABEL.

    A run that goes on is written anew from its first round; TensorBoard drops what it had of it before.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        with extra("tensorboard"):
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        self._event, self._summary, self._open = event_pb2, summary_pb2, EventFileWriter
        self.folder = Path(folder)
        self.writer: Any = None
        self.sent = 0.0

    def on(self, event: Event) -> None:
        """Hear one event."""
        if isinstance(event, RunStarted):
            self.close()
            self.writer, self.sent = self._open(str(self.folder / str(event.config["label"]))), 0.0
            start = self._event.SessionLog(status=self._event.SessionLog.START)
            self.writer.add_event(self._event.Event(wall_time=time.time(), step=1, session_log=start))
            self._text(event.config)
            for record in event.history:
                self._round(record)
        elif isinstance(event, RoundDone):
            self._round(event.record)
            self.writer.flush()
        elif isinstance(event, RunDone):
            self.close()

    def close(self) -> None:
        """Write out what is still held back."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def _round(self, record: Mapping[str, Any]) -> None:
        found = measures(record, self.sent)
        self.sent = found["megabytes/so far"]
        values = [self._summary.Summary.Value(tag=name, simple_value=value) for name, value in found.items()]
        self._add(record["round"], values)

    def _text(self, config: Mapping[str, Any]) -> None:
        from tensorboard.plugins.text.summary_v2 import text_pb

        lines = "".join(f"    {name} = {value}\n" for name, value in settings(config).items())  # indented: as it is
        summary = text_pb("settings", lines)
        self._add(0, summary.value)

    def _add(self, step: int, values: Any) -> None:
        summary = self._summary.Summary(value=values)
        self.writer.add_event(self._event.Event(wall_time=time.time(), step=step, summary=summary))
