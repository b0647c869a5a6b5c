"""Clients side by side on a processor: a process a core, one thread in each.

A process is started afresh (nothing is forked), builds its network once, and then does one job after the other. It
ends when its pipe closes, so none outlives a run that was killed. Which of them does a job changes nothing: every job
is done in one thread, from its message, its memory and the seed.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import islice, pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import multiprocessing

from fedcode.errors import ArgumentError, FedcodeError, WorkerError
from fedcode.kernels import threads
from fedcode.simulation.config import Config
from fedcode.simulation.evaluation import Score
from fedcode.simulation.given import Given
from fedcode.simulation.job import Bench, InThisProcess, Job, Result
from fedcode.state import State

TRIES = 2  # a job whose process dies is done once more
PAYS = 30.0  # seconds of training in a run, above which processes are worth the seconds that they take to start
GUARD = 'In a script, begin the run under `if __name__ == "__main__":`, or set workers=1.'


class Workers:
    """The trainer of `count` processes."""

    def __init__(self, config: Config, found: Given, count: int) -> None:
        self.abreast = count
        self.given = (config, found)
        self.threads = ThreadPoolExecutor(count, "fedcode-worker")  # one for each process: it waits for the pipe
        self.idle: queue.SimpleQueue[Worker | None] = queue.SimpleQueue()
        self.started: list[Worker] = []
        self.closed = False
        for _ in range(count):
            self.idle.put(None)

    def train(self, jobs: Iterable[Job]) -> Iterator[Result]:
        """Do every job. Twice as many are taken as there are processes, so that none waits for its next one."""
        waiting = iter(jobs)
        under_way: set[Future[Any]] = set()
        while True:
            for job in islice(waiting, 2 * self.abreast - len(under_way)):
                under_way.add(self.threads.submit(self._ask, ("work", job), f"{job.client} in round {job.round}"))
            if not under_way:
                return
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()

    def evaluate(self, model: State, pieces: Sequence[tuple[int, int]]) -> list[Score]:
        """The model on pieces of the test set, an equal share to each process."""
        edges = [len(pieces) * part // self.abreast for part in range(self.abreast + 1)]
        shares = [pieces[start:stop] for start, stop in pairwise(edges) if start < stop]
        parts = [self.threads.submit(self._ask, ("look", model, share), "evaluation") for share in shares]
        return [score for part in parts for score in part.result()]

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        self.closed = True
        for worker in list(self.started):
            worker.end()
        self.threads.shutdown(cancel_futures=True)

    def _started(self) -> Worker:
        worker = Worker(*self.given)
        self.started.append(worker)
        if self.closed:
            worker.end()
        return worker

    def _ask(self, call: tuple[Any, ...], what: str) -> Any:
        """What a process answers, in a thread of its own."""
        worker = self.idle.get()
        try:
            for attempt in range(TRIES):
                if self.closed:
                    raise WorkerError(f"the run ended before {what} was done.")
                worker = worker or self._started()
                try:
                    return worker.ask(call)
                except (EOFError, OSError):
                    how, worker = worker.end(), None
                    if attempt == TRIES - 1:
                        raise WorkerError(
                            f"the process that was to do {what} died {TRIES} times, the last time {how}. Killed by "
                            "signal 9 it was most likely out of memory: try fewer workers, or a smaller batch."
                        ) from None
            raise AssertionError("unreachable")
        finally:
            self.idle.put(worker)


class Worker:
    """One process, and this end of its pipe."""

    def __init__(self, config: Config, found: Given) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=_serve, args=(there, config, found), daemon=True)
        try:
            self.process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ArgumentError(
                f"the model, the loss or the data cannot be handed to a process: {error}. Define functions and classes "
                "at the top level of a module, or set workers=1."
            ) from error
        finally:
            there.close()
        try:
            self._answer()  # it is ready, or says what is wrong
        except (EOFError, OSError):
            raise WorkerError(f"a training process could not begin: it died {self.end()}. {GUARD}") from None

    def ask(self, call: tuple[Any, ...]) -> Any:
        """Have it done. EOFError or OSError where the process has died."""
        self.pipe.send(call)
        return self._answer()

    def end(self) -> str:
        """Kill it where it still runs; how it ended."""
        if self.process.is_alive():
            self.process.join(0.2)  # a process that closed its pipe is about to end
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        code = self.process.exitcode or 0
        return f"by signal {-code}" if code < 0 else f"with exit code {code}"

    def _answer(self) -> Any:
        fine, answer = self.pipe.recv()
        if fine:
            return answer
        if isinstance(answer, FedcodeError):
            raise answer
        raise WorkerError(f"local training failed in its process:\n{answer}")


def _serve(pipe: Connection, config: Config, found: Given) -> None:
    """What a process does: build the network, then job after job until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which then ends its processes
    torch.set_num_threads(1)
    os.environ["FEDCODE_THREADS"] = "1"
    with suppress(EOFError, OSError):  # the run has ended, or was killed
        try:
            bench = Bench(config, found)
        except Exception as error:
            pipe.send(_told(error))
            return
        pipe.send((True, None))
        while True:
            name, *arguments = pipe.recv()
            try:
                answer = (True, getattr(bench, name)(*arguments))
            except Exception as error:
                answer = _told(error)
            pipe.send(answer)


def _told(error: Exception) -> tuple[bool, Any]:
    """An error as it crosses: our own as they are, others as the text that Python would print."""
    return False, error if isinstance(error, FedcodeError) else "".join(traceback.format_exception(error)).rstrip()


class AsItPays:
    """The trainer that begins here and goes on in a process a core once the first clients show that it pays."""

    def __init__(self, config: Config, found: Given, count: int) -> None:
        self.config, self.found, self.count = config, found, count
        self.now: InThisProcess | Workers = InThisProcess(config, found)
        self.seconds: list[float] = []  # of the clients so far; the first pays for what is done once

    @property
    def abreast(self) -> int:
        """How many jobs are done at once."""
        return self.now.abreast

    def train(self, jobs: Iterable[Job]) -> Iterator[Result]:
        """Do every job."""
        waiting = iter(jobs)
        while isinstance(self.now, InThisProcess):
            some = list(islice(waiting, 1))
            if not some:
                return
            for result in self.now.train(some):
                self._judge(result)
                yield result
        yield from self.now.train(waiting)

    def _judge(self, result: Result) -> None:
        if result.loss is not None:
            self.seconds.append(result.seconds)
        if len(self.seconds) == 2 and min(self.seconds) * self.config.per_round * self.config.rounds > PAYS:
            self.now.close()
            self.now = Workers(self.config, self.found, self.count)

    def evaluate(self, model: State, pieces: Sequence[tuple[int, int]]) -> list[Score]:
        """The model on pieces of the test set."""
        return self.now.evaluate(model, pieces)

    def close(self) -> None:
        """Let go of whatever is held."""
        self.now.close()


def cores(config: Config) -> int:
    """How many processes a run may have unless it says so: the cores, where more than one client takes part.

    A script without a guard would be run again by every process, so such a script trains in its own process.

    >>> cores(Config(clients=1))
    1
    """
    return min(threads(), config.per_round) if _guarded() else 1


def _guarded() -> bool:
    """Whether a new process can import what Python was started with, and do nothing by it."""
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is None or getattr(main, "__spec__", None) is not None:
        return True  # a prompt or a notebook, which no process imports; or a module, run by -m
    try:
        return "__name__" in Path(path).read_text(errors="replace")
    except OSError:
        return False
