"""What the messages of one training run would have cost with their labels coded in the other ways.

How labels are coded changes no weight, so one run serves: a trainer around the run's own reads every message and
reply as its receiver does, codes the labels again, and counts whole messages by round and direction.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedcode.base import Base
from fedcode.base_message import LABELS, read_labels, write_labels
from fedcode.client import receive
from fedcode.clustered import Clustered
from fedcode.ends import Method
from fedcode.errors import FedcodeError
from fedcode.experiments.results import RECODED
from fedcode.ledger import DOWN, UP
from fedcode.sections import decode_centers
from fedcode.simulation.evaluation import Score
from fedcode.simulation.job import Job, Result, Trainer
from fedcode.state import State
from fedcode.wire import Message, Section

Sizes = dict[str, int]  # bytes of a whole message, by how its labels are coded


def recodes(method: Method) -> bool:
    """Whether a method has labels that can be coded in more than one way."""
    return isinstance(method, Clustered)


def sizes(data: bytes, weights: int, held: Base | None) -> Sizes:
    """How long a message would be with its labels coded in each way, given what its receiver holds.

    >>> import numpy as np, fedcode
    >>> server = fedcode.method("fedavg_ws", clusters=2).server({"w": np.arange(1000, dtype=np.float32)})
    >>> found = sizes(server.message_for("client-0"), 1000, None)
    >>> found["packed"] == len(server.message_for("client-0"))
    True
    """
    message = Message.from_bytes(data)
    if Section.LABELS not in message.sections:
        return dict.fromkeys(LABELS, len(data))
    centers = decode_centers(message.section(Section.CENTERS))
    labels = read_labels(message, weights, centers, held)
    found: Sizes = {}
    for coding in LABELS:
        sections = {**message.sections, Section.LABELS: write_labels(labels, centers, held, coding)}
        found[coding] = len(replace(message, sections=sections).to_bytes())
    return found


class Recoding:
    """A trainer around another that counts what other codings would have cost; `finish_round` writes a line.

    folder: the run's directory, where the lines are kept. The counting is done in threads, so that the trainer does
    not wait for it.
    """

    def __init__(self, trainer: Trainer, folder: Path) -> None:
        self.trainer = trainer
        self.path = folder / RECODED
        self._threads = ThreadPoolExecutor(os.cpu_count(), "fedcode-recoding")
        self._begin()

    @property
    def abreast(self) -> int:
        """As many as the trainer inside."""
        return self.trainer.abreast

    def train(self, jobs: Iterable[Job]) -> Iterator[Result]:
        """Do every job, and count what went out and what came back."""
        given: dict[str, Job] = {}

        def noted() -> Iterator[Job]:
            for job in jobs:
                given[job.client] = job
                yield job

        for result in self.trainer.train(noted()):
            self._counting.append(self._threads.submit(self._count, given.pop(result.client), result))
            yield result

    def evaluate(self, model: State, pieces: Sequence[tuple[int, int]]) -> list[Score]:
        """As the trainer inside does."""
        return self.trainer.evaluate(model, pieces)

    def close(self) -> None:
        """Close the trainer inside."""
        self._threads.shutdown(cancel_futures=True)
        self.trainer.close()

    def rewind(self, rounds: int) -> None:
        """Keep the lines of the first rounds alone: the run goes on behind them."""
        lines = self.path.read_text().splitlines(keepends=True)[:rounds] if self.path.exists() else []
        self.path.write_text("".join(lines))

    def finish_round(self) -> None:
        """Write the round's line."""
        bytes_ = {coding: {DOWN: 0, UP: 0} for coding in LABELS}
        messages = {DOWN: 0, UP: 0}
        for counting in self._counting:
            for direction, found in counting.result():
                messages[direction] += 1
                for coding, size in found.items():
                    bytes_[coding][direction] += size
        with self.path.open("a") as file:
            file.write(json.dumps({"bytes": bytes_, "messages": messages}) + "\n")
        self._begin()

    def _begin(self) -> None:
        self._counting: list[Future[list[tuple[str, Sizes]]]] = []
        self._seen: dict[tuple[bytes, bytes], Sizes] = {}

    def _count(self, job: Job, result: Result) -> list[tuple[str, Sizes]]:
        """The sizes of a client's message and of its reply, with their directions."""
        try:
            task = receive(job.message, job.memory or None)
        except FedcodeError:  # a message that its client cannot use costs what it costs
            return [(way, dict.fromkeys(LABELS, len(data))) for way, data in ((DOWN, job.message), (UP, result.reply))]
        weights, held = task.start.layout.weights, task.incoming.held
        key = (job.message, b"" if held is None else held.digest)
        if key not in self._seen:  # one broadcast goes to many
            self._seen[key] = sizes(job.message, weights, held)
        down = [(DOWN, self._seen[key])]
        return [*down, (UP, sizes(result.reply, weights, task.received.base or held))] if result.reply else down


def recoded(folder: Path, summary: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the lines in a run's directory come to; None where they are not there for every round.

    fedavg: what FedAvg's own messages would have come to.
    """
    path = folder / RECODED
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if not lines or len(lines) != summary["rounds"]:
        return None
    return {
        "bytes": {
            coding: {way: sum(line["bytes"][coding][way] for line in lines) for way in (DOWN, UP)} for coding in LABELS
        },
        "messages": {way: sum(line["messages"][way] for line in lines) for way in (DOWN, UP)},
        "fedavg": {way: round(summary["dtr"][way] * summary["bytes"][way]) for way in (DOWN, UP)},
    }
