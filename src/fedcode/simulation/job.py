"""What a trainer is given and gives back: a client's message and memory in, its reply and new memory out.

A trainer may do jobs one after the other or many at once: `received` and `answered` are the method's two ends,
which a trainer that trains clients side by side calls before and after its own training.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fedcode.client import Task, receive, reply
from fedcode.errors import ArgumentError, CannotUse, NonFiniteError
from fedcode.simulation.config import Config
from fedcode.simulation.evaluation import Score, score
from fedcode.simulation.given import Given
from fedcode.simulation.network import Network
from fedcode.simulation.training import train
from fedcode.state import State

HONOURED = frozenset({"proximal", "mask"})


@dataclass(frozen=True)
class Job:
    """One client's part in one round. memory: empty where the client has none."""

    round: int
    client: str
    message: bytes = field(repr=False)
    memory: bytes = field(repr=False)
    indices: npt.NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True)
class Result:
    """What came of a job. memory: None where it stays as it was. loss: None where nothing was trained.

    seconds: of local training; ends: of the method's two ends. failed: why there is no reply.
    """

    client: str
    reply: bytes = field(repr=False)
    memory: bytes | None = field(repr=False)
    loss: float | None
    seconds: float
    ends: float
    failed: str = ""


class Trainer(Protocol):
    """Does jobs. The results may come in any order; they do not depend on how many are done at once."""

    @property
    def abreast(self) -> int:
        """How many jobs are done at once: seconds of training are divided by it."""

    def train(self, jobs: Iterable[Job]) -> Iterator[Result]:
        """Do every job; jobs are taken only as they can be worked on."""

    def evaluate(self, model: State, pieces: Sequence[tuple[int, int]]) -> list[Score]:
        """The model on pieces of the test set, in their order."""

    def close(self) -> None:
        """Let go of whatever is held."""


def received(job: Job) -> Task | Result:
    """What the job's message asks, or the answer of a client that cannot use it."""
    began = time.perf_counter()
    try:
        return receive(job.message, job.memory or None)
    except CannotUse as error:
        return Result(job.client, error.reply, None, None, 0.0, time.perf_counter() - began)


def answered(job: Job, task: Task, trained: Any, loss: float, seconds: float, ends: float) -> Result:
    """The reply of a client that has trained. ends: seconds that the method's ends took so far."""
    began = time.perf_counter()
    try:
        data, memory = reply(task, trained, examples=len(job.indices), client=job.client)
    except NonFiniteError as error:
        return Result(job.client, b"", None, loss, seconds, ends, str(error))
    return Result(job.client, data, memory, loss, seconds, ends + time.perf_counter() - began)


def check_asks(config: Config) -> None:
    """Refuse, before anything starts, a method that asks of training what no trainer here honours."""
    asks = config.made().asks_of_training - HONOURED
    if asks:
        raise ArgumentError(f"{config.method} asks of local training what the simulator cannot do: {sorted(asks)}.")


class Bench:
    """One model on one device, on which jobs are done one after the other."""

    def __init__(self, config: Config, found: Given) -> None:
        self.config = config
        self.loss = found.loss
        device = torch.device(config.device)
        self.dataset = found.dataset.to(device)
        self.model = found.make().to(device)
        if len(self.dataset.shape) == 3 and self.dataset.shape[0] > 1:
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network = Network(self.model)
        self.step: nn.Module | None = None
        if config.compile:
            self.step = torch.compile(self.model)  # type: ignore[assignment]

    def work(self, job: Job) -> Result:
        """Do one job."""
        began = time.perf_counter()
        task = received(job)
        if isinstance(task, Result):
            return task
        self.network.load(task.start)
        loaded = time.perf_counter()
        config = self.config
        loss = train(
            self.model,
            self.dataset,
            job.indices,
            epochs=config.epochs,
            batch=config.batch,
            optimizer=config.optimizer,
            lr=config.lr,
            seed=config.seed,
            round=job.round,
            client=job.client,
            proximal=task.asks.get("proximal", 0.0),
            mask=task.mask,
            loss=self.loss,
            precision=config.precision,
            step=self.step,
        )
        trained = time.perf_counter()
        state = self.network.state(task.start.layout)
        ends = loaded - began + time.perf_counter() - trained
        return answered(job, task, state, loss, trained - loaded, ends)

    def look(self, model: State, pieces: Sequence[tuple[int, int]]) -> list[Score]:
        """Evaluate a model on pieces of the test set."""
        self.network.load(model)
        config = self.config
        return [
            score(self.model, self.dataset, *piece, loss=self.loss, precision=config.precision, step=self.step)
            for piece in pieces
        ]


class InThisProcess:
    """The trainer that does one job after the other, here, in one thread."""

    abreast = 1

    def __init__(self, config: Config, found: Given) -> None:
        self.bench = Bench(config, found)

    def train(self, jobs: Iterable[Job]) -> Iterator[Result]:
        for job in jobs:
            with one_thread():
                result = self.bench.work(job)
            yield result

    def evaluate(self, model: State, pieces: Sequence[tuple[int, int]]) -> list[Score]:
        with one_thread():
            return self.bench.look(model, pieces)

    def close(self) -> None:
        pass


class one_thread:  # noqa: N801 - used like a function: with one_thread():
    """Torch computes in one thread inside, so that sums come out the same in any process."""

    def __enter__(self) -> None:
        self.before = torch.get_num_threads()
        torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self.before)
