"""The run itself: round after round, messages out, replies in, and what happened as events."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any

from fedcode.client import memory_of
from fedcode.errors import MessageError, RefusedError, RunError
from fedcode.events import ClientDone, Event, RoundDone, RoundStarted, RunDone, RunStarted
from fedcode.joined import join, split
from fedcode.ledger import Ledger, fedavg_sizes
from fedcode.rundir import RunDirectory, read
from fedcode.server import Server
from fedcode.simulation import draws, evaluation
from fedcode.simulation.config import HOW, Config, check_unchanged
from fedcode.simulation.draw import Draw
from fedcode.simulation.given import Given
from fedcode.simulation.job import Job, Result, Trainer
from fedcode.simulation.memories import Memories
from fedcode.simulation.summary import summarise, surroundings

CODEBOOK = 256  # centres at most in a line of the history
PARTS = ("training", "method", "evaluation", "other")
CHECKPOINT_SHARE = 50  # a checkpoint is written when so many times the time that it takes have passed


class Rounds:
    """One run under way. The directory is open already; None keeps nothing."""

    def __init__(
        self,
        config: Config,
        found: Given,
        draw: Draw,
        trainer: Trainer,
        directory: RunDirectory | None = None,
    ) -> None:
        self.config, self.found, self.draw = config, found, draw
        self.trainer, self.directory = trainer, directory
        self.method = config.made()
        self.history: list[dict[str, Any]] = []
        self._saved_at, self._saving = time.perf_counter(), 0.0
        kept = directory.restore() if directory is not None else None
        folder = None if directory is None else directory.memories
        self.known = memory_of(draw.first) if config.known else b""  # what whoever remembers nothing else holds
        if kept is None:
            self.server: Server = self.method.server(
                draw.first, seed=config.seed, known=config.known, federation=_federation(config)
            )
            self.memories = Memories(folder)
            if directory is not None:
                directory.rewind(0)
        else:
            assert directory is not None
            about, server = split(kept)
            said = json.loads(bytes(about))
            self.server = self.method.restore(bytes(server))
            self.memories = Memories(folder, said["memories"])
            self.history = directory.rewind(said["round"])
        self.ledger = Ledger(self.server.layout, self.method, fedavg_sizes(draw.first))
        self.ledger.restore(self.history)

    def events(self) -> Iterator[Event]:
        """Run to the end."""
        config = self.config
        yield RunStarted(
            config.document(), config.clients, config.rounds, self.server.layout.weights, tuple(self.history)
        )
        while self.server.round <= config.rounds:
            yield from self._round(self.server.round)
        summary = summarise(config, self.history, self.ledger.totals, self.draw, self.found.dataset)
        if self.directory is not None:
            self._save()
            self.directory.finish(summary, self.server.model)
        yield RunDone(summary, self.server.state)

    def _round(self, number: int) -> Iterator[Event]:
        began = time.perf_counter()
        seconds = dict.fromkeys(PARTS, 0.0)
        names = self.draw.participants(number)
        yield RoundStarted(number, names)
        waiting, losses, failed = names, {}, {}
        for _ in range(2):  # the second time for those who could not use their message
            unusable: list[str] = []
            for result in self._in_order(waiting, number, seconds):
                if result.loss is not None:
                    losses[result.client] = result.loss
                    examples = len(self.draw.parts[draws.index_of(result.client)])
                    yield ClientDone(number, result.client, examples, result.loss, result.seconds)
                if result.failed:
                    failed[result.client] = result.failed
                elif not self._accept(result, number, seconds):
                    unusable.append(result.client)
            waiting = unusable
        centers = self._codebook()
        with _Spent(seconds, "method"):
            report = self.server.finish_round()
        record: dict[str, Any] = {
            "round": number,
            "clients": list(names),
            "replies": report.replies,
            "examples": report.examples,
            "refused": dict(report.refused) | ({"NonFiniteError": len(failed)} if failed else {}),
        }
        record |= self._evaluated(number, names, seconds)
        record["training_loss"] = self._mean_loss(losses)
        record |= self.ledger.finish_round().record()
        record["centers"] = centers
        elapsed = time.perf_counter() - began
        seconds["other"] = max(0.0, elapsed - sum(seconds.values()))
        record["seconds"] = {part: round(spent, 6) for part, spent in seconds.items()}
        self.history.append(record)
        if self.directory is not None:
            self.directory.append(record)
            if self._due:
                self._save()  # before the round is told of: whoever stops the run then finds it kept
        yield RoundDone(record, self.totals())

    def totals(self) -> dict[str, Any]:
        """The figures of the run so far."""
        return self.ledger.totals.figures()

    # ---- one round's parts

    def _in_order(self, names: list[str], number: int, seconds: dict[str, float]) -> Iterator[Result]:
        """Results by the clients' order, whatever the order they come in: so the sums are the same bit for bit."""
        early: dict[str, Result] = {}
        results = self.trainer.train(self._jobs(names, number, seconds))
        for name in names:
            while name not in early:
                result = next(results)
                early[result.client] = result
                seconds["training"] += result.seconds / self.trainer.abreast
                seconds["method"] += result.ends / self.trainer.abreast
            yield early.pop(name)

    def _jobs(self, names: list[str], number: int, seconds: dict[str, float]) -> Iterator[Job]:
        for name in names:
            with _Spent(seconds, "method"):
                message = self.server.message_for(name)
            self.ledger.sent(name, message)
            part = self.draw.parts[draws.index_of(name)]
            yield Job(number, name, message, self.memories.get(name) or self.known, part)

    def _accept(self, result: Result, number: int, seconds: dict[str, float]) -> bool:
        """Fold in a reply; False where the client could not use its message and needs another."""
        self.ledger.came(result.client, result.reply)
        with _Spent(seconds, "method"):
            try:
                counted = self.server.accept(result.client, result.reply)
            except (RefusedError, MessageError):
                return True  # counted by the server; the round goes on without it
        if result.memory is not None:
            self.memories.put(result.client, result.memory, number)
        return counted or result.memory is not None

    def _evaluated(self, number: int, names: list[str], seconds: dict[str, float]) -> dict[str, Any]:
        config, accuracy, loss = self.config, None, None
        if number % config.evaluate_every == 0 or number == config.rounds:
            with _Spent(seconds, "evaluation"):
                pieces = evaluation.pieces(self.found.dataset)
                scores = self.trainer.evaluate(self.server.model, pieces)
                accuracy, loss = evaluation.mean(scores, self.found.dataset.classes)
            if config.evaluate_clients:
                for name in names:
                    self.ledger.evaluated(name, self.server.message_for(name, evaluate=True))
        return {"accuracy": accuracy, "loss": loss}

    def _codebook(self) -> list[float] | None:
        """The centres of this round's broadcast, where it has some."""
        centers = self.server.centers
        return None if centers is None or len(centers) > CODEBOOK else centers.tolist()

    def _mean_loss(self, losses: Mapping[str, float]) -> float | None:
        sizes = {name: len(self.draw.parts[draws.index_of(name)]) for name in losses}
        return sum(losses[name] * size for name, size in sizes.items()) / sum(sizes.values()) if losses else None

    # ---- checkpoint

    @property
    def _due(self) -> bool:
        return time.perf_counter() - self._saved_at >= CHECKPOINT_SHARE * self._saving

    def _save(self) -> None:
        assert self.directory is not None
        began = time.perf_counter()
        about = {"round": self.server.round - 1, "memories": self.memories.manifest()}
        self.directory.save(join([json.dumps(about).encode(), self.server.to_bytes()]))
        self.memories.commit()
        self._saved_at = time.perf_counter()
        self._saving = self._saved_at - began


class _Spent:
    """Adds the time inside to a part of the round."""

    def __init__(self, seconds: dict[str, float], part: str) -> None:
        self.seconds, self.part = seconds, part

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds[self.part] += time.perf_counter() - self.began


def _federation(config: Config) -> bytes:
    """The training's id: drawn from what decides it, so that a run made again sends the same bytes."""
    decides = {name: value for name, value in config.document().items() if name not in HOW}
    return hashlib.blake2b(json.dumps(decides, sort_keys=True).encode(), digest_size=8).digest()


def run_rounds(
    config: Config,
    found: Given,
    draw: Draw,
    trainer: Trainer,
    directory: RunDirectory | None = None,
    resume: bool = False,
) -> Iterator[Event]:
    """The events of one run, kept in a directory where one is given."""
    with ExitStack() as stack:
        stack.enter_context(closing(trainer))
        if directory is not None:
            stack.enter_context(directory.opened())
            draw = _prepared(config, directory, draw, resume)
        yield from Rounds(config, found, draw, trainer, directory).events()


def _prepared(config: Config, directory: RunDirectory, draw: Draw, resume: bool) -> Draw:
    """The draw of the run: a run that is there goes on on its own. The settings are written last: they say it began."""
    if not directory.begun:
        with directory.writing():
            draw.keep(directory.path)
        directory.begin(config.document() | surroundings())
        return draw
    if not resume:
        raise RunError(f"{directory.path} holds a run already. Go on with it (resume), or choose another directory.")
    check_unchanged(read(directory.path).config, config, directory.path)
    return draw.read(directory.path)
