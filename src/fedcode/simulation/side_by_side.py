"""Many clients side by side on one CUDA device: a training step is a captured graph, a client has a stream.

A step of a small network is hundreds of kernels that take longer to launch than to run. Captured once, it is
launched as one graph; and with a stream each, the steps of several clients fill the device together. Nothing waits
for the device inside a round but the copying of each epoch's order.

A graph keeps raw pointers. Whatever a captured step touches stands in a `Slot`, is allocated once and only written
to in place; a slot trains one client at a time and serves any client afterwards.

The order of the examples and their augmentation are those of `training.train`. Kernels add up in an order of their
own, so weights agree with the CPU's within rounding and not bit for bit.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn

from fedcode.client import Task
from fedcode.data import Dataset
from fedcode.errors import ArgumentError
from fedcode.simulation import draws
from fedcode.simulation.config import Config
from fedcode.simulation.evaluation import Score, score
from fedcode.simulation.given import Given
from fedcode.simulation.job import Job, Result, answered, received
from fedcode.simulation.training import batches, make_optimizer, usual_loss
from fedcode.state import State

SLOTS = 10  # clients at a time, unless `workers` says otherwise: on an H200 more of them were no faster
WARM_UP = 3  # steps before a capture, in which kernels are chosen and the optimiser makes its state
ROUNDED = 1024  # a slot's room for examples, so that clients of much the same size need no new one


class SideBySide:
    """The trainer for a CUDA device."""

    abreast = 1  # each result has its share of the time that all took together

    def __init__(self, config: Config, found: Given) -> None:
        device = torch.device(config.device)
        if device.type != "cuda" or not torch.cuda.is_available():
            raise ArgumentError(f"clients are trained side by side on a CUDA device; {config.device!r} is none here.")
        self.config = config
        self.found = found
        self.dataset = found.dataset.to(device)
        self.width = min(config.workers or SLOTS, config.per_round)
        self.slots: list[Slot] = []

    def train(self, jobs: Iterable[Job]) -> Iterator[Result]:
        """Do every job, as many at a time as there are slots."""
        waiting = iter(jobs)
        while some := list(islice(waiting, self.width)):
            yield from self._together(some)

    def _together(self, jobs: Sequence[Job]) -> Iterator[Result]:
        with ThreadPoolExecutor(len(jobs)) as pool:  # the ends work on the CPU and mostly without Python's lock
            began = time.perf_counter()
            opened = list(pool.map(received, jobs))
            opening = (time.perf_counter() - began) / len(jobs)
            tasks = [(job, found) for job, found in zip(jobs, opened, strict=True) if isinstance(found, Task)]
            slots = self._ready([len(job.indices) for job, _ in tasks])
            began = time.perf_counter()
            for slot, (job, task) in zip(slots, tasks, strict=True):
                slot.load(task, len(job.indices))
            works = [slot.steps(job) for slot, (job, _) in zip(slots, tasks, strict=True)]
            while works:  # one step of each in turn
                works = [work for work in works if next(work, False)]
            torch.cuda.synchronize()
            trained = time.perf_counter()

            def answer(slot: Slot, of: tuple[Job, Task]) -> Result:
                return answered(*of, slot.network, slot.mean_loss(), 0.0, 0.0)

            replies = list(pool.map(answer, slots, tasks))
            closing = (time.perf_counter() - trained) / len(jobs)
        training = (trained - began) / max(1, len(tasks))
        results = replies + [found for found in opened if isinstance(found, Result)]
        yield from (
            dataclasses.replace(result, seconds=training if result.loss is not None else 0.0, ends=opening + closing)
            for result in results
        )

    def _ready(self, sizes: Sequence[int]) -> list[Slot]:
        """A slot for each job, with room for its examples."""
        for index, size in enumerate(sizes):
            if index == len(self.slots):
                self.slots.append(Slot(self.config, self.found, self.dataset, size))
            elif self.slots[index].room < size:
                self.slots[index] = Slot(self.config, self.found, self.dataset, size)
        return self.slots[: len(sizes)]

    def evaluate(self, model: State, pieces: Sequence[tuple[int, int]]) -> list[Score]:
        """The model on pieces of the test set."""
        network = self._ready([1])[0].network
        model.load_into(network)
        precision, loss = self.config.precision, self.found.loss
        return [score(network, self.dataset, *piece, loss=loss, precision=precision) for piece in pieces]

    def close(self) -> None:
        """Let go of the device's memory."""
        self.slots.clear()


class Slot:
    """A network with its optimiser and its stream, and a captured step for each size of batch that occurred."""

    def __init__(self, config: Config, found: Given, dataset: Dataset, rows: int) -> None:
        device = dataset.train_labels.device
        self.config = config
        self.dataset = dataset
        self.loss = found.loss or usual_loss(dataset)
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.network = found.make().to(device)
        self.step: nn.Module = self.network
        if len(dataset.shape) == 3:
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if config.compile:
            self.step = torch.compile(self.network)  # type: ignore[assignment]
        self.trained = [(name, value) for name, value in self.network.named_parameters() if value.requires_grad]
        self.optimizer = make_optimizer(config.optimizer, self.values, config.lr)
        for group in self.optimizer.param_groups:
            group["capturable"] = True  # its count of steps stays on the device
        asks = config.made().asks_of_training
        self.starts = [value.detach().clone() for value in self.values] if "proximal" in asks else []
        self.mu = torch.zeros((), device=device)
        self.allowed = [torch.ones_like(value) for value in self.values] if "mask" in asks else []
        self.room = -(-rows // ROUNDED) * ROUNDED
        inputs, labels = dataset.train([0])
        half = config.precision == "bf16" and inputs.is_floating_point()
        shape = _channels_last(inputs).shape[1:]
        self.inputs = torch.zeros(self.room, *shape, dtype=torch.bfloat16 if half else inputs.dtype, device=device)
        self.labels = torch.zeros(self.room, *labels.shape[1:], dtype=labels.dtype, device=device)
        self.positions = torch.arange(config.batch + 1, device=device)
        self.place = torch.zeros((), dtype=torch.long, device=device)
        self.total = torch.zeros((), device=device)
        self.seen = 0
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.pool = torch.cuda.graph_pool_handle()

    @property
    def values(self) -> list[nn.Parameter]:
        """The trained parameters."""
        return [value for _, value in self.trained]

    def load(self, task: Task, rows: int) -> None:
        """Begin a client's round: its start, a fresh optimiser, what is asked of training."""
        self.network.train()
        for size in {len(part) for part in batches(rows, self.config.batch, torch.Generator())}:
            self._capture(size)
        task.start.load_into(self.network)
        with torch.no_grad():
            for state in self.optimizer.state.values():
                for value in state.values():
                    if isinstance(value, Tensor):
                        value.zero_()
            for start, value in zip(self.starts, self.values, strict=bool(self.starts)):
                start.copy_(value)
            self.mu.fill_(task.asks.get("proximal", 0.0))
            places = task.start.layout.places
            for allowed, (name, value) in zip(self.allowed, self.trained, strict=bool(self.allowed)):
                part = np.ones(value.numel(), bool) if task.mask is None else task.mask[places[name]].copy()
                allowed.copy_(torch.from_numpy(part).view(value.shape))
        torch.cuda.synchronize()

    def steps(self, job: Job) -> Iterator[bool]:
        """Train; yields after each launch of a step, so that those of several slots come in turn."""
        seed, indices = self.config.seed, torch.as_tensor(job.indices)
        order = draws.generator("order", seed, job.round, job.client)
        augmentation = None
        if self.dataset.augment:
            augmentation = draws.generator("augmentation", seed, job.round, job.client)
        for _ in range(self.config.epochs):
            parts = list(batches(len(indices), self.config.batch, order))
            with torch.cuda.stream(self.stream):
                inputs, labels = self.dataset.train(indices[torch.cat(parts)], augmentation)
                self.inputs[: len(labels)].copy_(_channels_last(inputs))
                self.labels[: len(labels)].copy_(labels)
                self.place.zero_()
                self.total.zero_()
            self.seen = len(labels)
            for part in parts:
                with torch.cuda.stream(self.stream):
                    self.graphs[len(part)].replay()
                yield True

    def mean_loss(self) -> float:
        """Of the last epoch."""
        return float(self.total) / self.seen

    def _capture(self, size: int) -> None:
        if size in self.graphs:
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_UP):
                self.optimizer.zero_grad(set_to_none=True)
                self.place.zero_()
                self._step(size)
            self.optimizer.zero_grad(set_to_none=True)  # the graph makes gradients of its own, in its pool
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            self._step(size)
        self.graphs[size] = graph

    def _step(self, size: int) -> None:
        rows = self.positions[:size] + self.place
        inputs = self.inputs.index_select(0, rows)
        half = self.config.precision == "bf16"
        with torch.autocast("cuda", torch.bfloat16, enabled=half, cache_enabled=False):  # a cache outlives a graph
            loss = self.loss(self.step(_channels_first(inputs)), self.labels.index_select(0, rows))
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for value, start in zip(self.values, self.starts, strict=bool(self.starts)):
                if value.grad is not None:
                    value.grad += (value - start) * self.mu
            self.optimizer.step()
            for value, allowed in zip(self.values, self.allowed, strict=bool(self.allowed)):
                value.mul_(allowed)
        self.place += size
        self.total += loss.detach().float() * size


def _channels_last(inputs: Tensor) -> Tensor:
    """Images as (n, height, width, channels), so that picking some of them keeps the order that the device likes."""
    return inputs.movedim(1, -1) if inputs.dim() == 4 else inputs


def _channels_first(inputs: Tensor) -> Tensor:
    return inputs.movedim(-1, 1) if inputs.dim() == 4 else inputs
