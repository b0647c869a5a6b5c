"""A run's directory: what it was run with, what came of every round, and what a killed run goes on from.

    config.toml        every setting, seeds and versions included
    history.jsonl      one line a round
    summary.json       the figures of a finished run
    model.safetensors  its model
    partition.json     who held which examples
    checkpoint         what a killed run goes on from
    memories/          what clients remember
    lock               held by the process that writes here

The history is written before the checkpoint, so that it is never behind it: what it has beyond the checkpoint is cut
off when the run goes on. Every other file is there whole or not at all.
"""

from __future__ import annotations

import json
import math
import os
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fedcode.errors import ArgumentError, RunError
from fedcode.files import new_file
from fedcode.safetensors_file import write as write_safetensors
from fedcode.state import State
from fedcode.toml import write_toml

CONFIG, HISTORY, SUMMARY, MODEL = "config.toml", "history.jsonl", "summary.json", "model.safetensors"
PARTITION, CHECKPOINT, MEMORIES, LOCK = "partition.json", "checkpoint", "memories", "lock"


@dataclass(frozen=True)
class RunRecord:
    """What a run's directory says. summary: None until the run is finished."""

    path: Path
    config: dict[str, Any]
    history: list[dict[str, Any]]
    summary: dict[str, Any] | None


def read(path: str | os.PathLike[str]) -> RunRecord:
    """Read a run's directory, whether the run is finished, under way or was killed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, RunDirectory(folder).opened() as run:
    ...     run.begin({"method": "fedcode"})
    ...     run.append({"round": 1})
    ...     read(folder).history
    [{'round': 1}]
    """
    folder = Path(path)
    if not (folder / CONFIG).is_file():
        raise RunError(f"{folder} is no run's directory: it holds no {CONFIG}.")
    config = config_of(folder)
    history = _history(folder / HISTORY) if (folder / HISTORY).exists() else []
    summary = object_of(text_of(folder / SUMMARY), folder / SUMMARY) if (folder / SUMMARY).exists() else None
    return RunRecord(folder, config, history, summary)


class RunDirectory:
    """The writing end; use it inside `with run.opened():`, which keeps every other process out."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def begun(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / CONFIG).exists()

    @property
    def finished(self) -> bool:
        """Whether the run that was begun here came to its end."""
        return (self.path / SUMMARY).exists()

    @property
    def memories(self) -> Path:
        """Where clients' memories are kept."""
        return self.path / MEMORIES

    @contextmanager
    def opened(self) -> Iterator[RunDirectory]:
        """Hold the directory's lock; RunError where another process holds it. It ends with the process."""
        import fcntl

        with self.writing():
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / LOCK).open("ab")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RunError(
                    f"{self.path} is in use: another process runs there. Wait for it, or choose another directory."
                ) from error
            yield self

    def begin(self, config: Mapping[str, Any]) -> None:
        """Write what the run is run with."""
        self._put(CONFIG, write_toml(config).encode())

    def append(self, record: Mapping[str, Any]) -> None:
        """Add the line of a round to the history."""
        with self.writing(), (self.path / HISTORY).open("ab") as file:
            file.write(json.dumps(finite(record), separators=(",", ":")).encode() + b"\n")

    def save(self, checkpoint: bytes) -> None:
        """Replace the checkpoint; the old one stays until the new one is whole on the disk."""
        with self.writing(), (self.path / HISTORY).open("ab") as history:
            os.fsync(history.fileno())
        self._put(CHECKPOINT, zlib.crc32(checkpoint).to_bytes(4, "little") + checkpoint)

    def restore(self) -> bytes | None:
        """The last checkpoint, or None where there is none yet."""
        path = self.path / CHECKPOINT
        if not path.exists():
            return None
        content = path.read_bytes()
        if len(content) < 4 or zlib.crc32(content[4:]) != int.from_bytes(content[:4], "little"):
            raise RunError(f"{path} is damaged: its checksum does not fit. The run has to be made anew.")
        return content[4:]

    def rewind(self, rounds: int) -> list[dict[str, Any]]:
        """Cut the history off behind these rounds, clear away what a killed process left, return what stays."""
        path = self.path / HISTORY
        history = _history(path)[:rounds] if path.exists() else []
        if [record["round"] for record in history] != list(range(1, rounds + 1)):
            raise RunError(f"{path} is damaged: the checkpoint is of round {rounds}, and lines before it are missing.")
        for rest in self.path.glob(".*.part"):
            rest.unlink(missing_ok=True)
        lines = [json.dumps(record, separators=(",", ":")) + "\n" for record in history]
        self._put(HISTORY, "".join(lines).encode())
        return history

    def finish(self, summary: Mapping[str, Any], model: State) -> None:
        """Write the model, then the summary, whose presence says that the run is finished."""
        with self._file(MODEL) as file:
            write_model(file, model)
        self._put(SUMMARY, json.dumps(finite(summary), indent=2).encode() + b"\n")

    def _put(self, name: str, content: bytes) -> None:
        with self._file(name) as file:
            file.write(content)

    @contextmanager
    def _file(self, name: str) -> Iterator[BinaryIO]:
        with self.writing(), new_file(self.path / name, force=True) as file:
            yield file

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Errors of the file system, as an error that says what they mean for the run."""
        try:
            yield
        except (OSError, ArgumentError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise RunError(
                f"{self.path} cannot be written ({why}). The last checkpoint there is whole: the run can go on "
                "from it once there is room and permission."
            ) from error


def write_model(file: BinaryIO, model: State) -> None:
    """A model as one safetensors file, in the dtypes that its layout states."""
    from fedcode.layout import Kind

    places = model.layout.places
    write_safetensors(
        file,
        model.layout.entries,
        lambda entry: [(model.counters if entry.kind == Kind.COUNTER else model.vector)[places[entry.name]]],
    )


def finite(value: Any) -> Any:
    """The same for JSON, which knows neither NaN nor infinity: these become null.

    >>> finite({"loss": float("nan")})
    {'loss': None}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return value


def config_of(folder: Path) -> dict[str, Any]:
    """A run's settings."""
    try:
        return tomllib.loads(text_of(folder / CONFIG))
    except ValueError as error:  # no TOML, or a number of thousands of digits
        raise RunError(f"{folder / CONFIG} is damaged: {error}.") from error


def text_of(path: Path) -> str:
    """A file that should be text; a RunError that quotes none of it where it is not."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RunError(f"{path} cannot be read: it is no text.") from error
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}.") from error


def object_of(text: str, place: object) -> dict[str, Any]:
    """The JSON object that a text is.

    >>> object_of('{"round": 1}', "line 1")
    {'round': 1}
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{place} is damaged: {error}.") from error
    if not isinstance(value, dict):
        raise RunError(f"{place} is damaged: an object is expected, got {type(value).__name__}.")
    return value


def _history(path: Path) -> list[dict[str, Any]]:
    """Every whole line; the last may be half written, where the process was killed."""
    lines = text_of(path).split("\n")
    records = [object_of(line, f"{path}, line {n}") for n, line in enumerate(lines[:-1], 1)]
    for number, record in enumerate(records, 1):
        if record.get("round") != number:
            raise RunError(f"{path} is damaged: line {number} is of round {record.get('round')!r}.")
    return records
