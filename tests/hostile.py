"""What reads bytes from outside, tried with hostile input.

A reader passes if it returns, or raises an error of fedcode's own tree; a warning counts as a failure, and so does
a server that a refused reply has changed. fuzz.py runs as many inputs as it is told, test_fuzz.py a few thousand.
"""

from __future__ import annotations

import functools
import json
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import fedcode
from fedcode import coding, methods, sections
from fedcode.arrays import decode_arrays
from fedcode.client import Memory
from fedcode.eightbit import decode_tensors
from fedcode.errors import FedcodeError
from fedcode.layout import Entry, Kind, Layout
from fedcode.model_file import inspect
from fedcode.server import Server
from fedcode.state import State
from fedcode.wire import Message
from tests.damage import Damage
from tests.golden.make import HERE, SETTINGS, expected_labels, model, moved


@dataclass
class Target:
    """A reader of bytes and good input for it."""

    name: str
    read: Callable[[bytes], object]
    good: list[bytes] = field(default_factory=list)


def targets() -> list[Target]:
    """Every reader, in order."""
    found = [Target("Message.from_bytes", Message.from_bytes, [bytes(file.read_bytes()) for file in _golden("*")])]
    found.append(Target("decode", _decode, [file.read_bytes() for file in _golden("model-*")]))
    found += _sections()
    for name in methods.names():
        if methods.class_of(name).__module__.startswith("fedcode."):
            found += _method(name)
    return found


def _golden(pattern: str) -> list[Path]:
    return sorted(HERE.glob(f"{pattern}.bin"))


def _decode(data: bytes) -> None:
    fedcode.decode(data)
    inspect(data)


def _sections() -> Iterator[Target]:
    def label_reader(count: int, k: int, context: bool) -> Callable[[bytes], object]:
        given = expected_labels(count, k) if context else None
        return lambda data: coding.decode_labels(data, count, k, context=given)

    readers: dict[str, Target] = {}
    for file in _golden("*"):
        about = json.loads(file.with_suffix(".json").read_text())
        what, count = about["what"], about.get("count", 0)
        if what == "labels":
            key, read = f"labels {count} of {about['k']}", label_reader(count, about["k"], True)
        elif what == "positions":
            key = f"positions of {about['size']}"
            read = functools.partial(coding.decode_positions, count=count, size=about["size"])
        elif what == "integers":
            key, read = f"{count} integers", functools.partial(coding.decode_integers, count=count)
        elif what == "counters":
            key, read = what, functools.partial(sections.decode_counters, count=count)
        elif what == "centers":
            key, read = what, sections.decode_centers
        elif what == "arrays":
            key, read = what, decode_arrays
        elif what == "layout":
            key, read = what, Layout.from_bytes
        elif what == "tensors":
            key, read = f"tensors of {about['bits']} bits", _tensors(about)
        else:
            continue
        readers.setdefault(key, Target(key, read)).good.append(file.read_bytes())
    yield from (target for key, target in readers.items() if "300000" not in key)  # as the others, only slower


def _tensors(about: dict[str, Any]) -> Callable[[bytes], object]:
    places, at = [], 0
    for size, variance in about["tensors"]:
        kind = Kind.VARIANCE if variance else Kind.WEIGHT
        places.append((Entry(str(at), (size,), "float32", kind), slice(at, at + size)))
        at += size
    held = np.linspace(-1, 1, at, dtype=np.float32)
    return lambda data: decode_tensors(data, places, about["bits"], held)


class Ends:
    """Both ends of a method in its second round."""

    def __init__(self, name: str) -> None:
        self.method = fedcode.method(name, **SETTINGS.get(name, {}))
        server: Server = self.method.server(model(0), seed=5)
        self.downs: list[bytes] = [server.message_for("a")]
        task = fedcode.receive(self.downs[0])
        self.ups: list[bytes] = []
        up, self.memory = fedcode.reply(task, moved(task.start, 1), examples=8, client="a")
        self.ups.append(up)
        server.accept("a", up)
        server.finish_round()
        self.checkpoint = server.to_bytes()
        self.open()
        self.downs += [self.server.message_for("a"), self.server.message_for("a", evaluate=True)]
        task = fedcode.receive(self.downs[1], self.memory)
        self.start: State = moved(task.start, 2)
        up, after = fedcode.reply(task, self.start, examples=9, client="a")
        self.ups.append(up)
        self.memories = [memory for memory in (self.memory, after) if memory]
        self.seen = 0

    def open(self) -> None:
        """The server as it was when the round began."""
        self.server: Server = self.method.restore(self.checkpoint)
        self.server.message_for("a")

    def accept(self, data: bytes) -> None:
        """A reply; one that is refused must leave nothing behind."""
        try:
            folded = self.server.accept("a", data)
        except FedcodeError:
            self.seen += 1
            if self.seen % 16 == 0:
                sums = self.server._sums
                left = [sums.replies, sums.examples, len(sums.codebooks), *map(np.any, sums.vectors.values())]
                assert not any(left), "a refused reply left something behind"
            raise
        if folded:
            report = self.server.finish_round()
            assert report.replies == 1
            self.open()
        self.server.clients.clear()

    def receive(self, data: bytes) -> None:
        """A message to a client, and the reply to it if it can be used."""
        task = fedcode.receive(data, self.memory)
        if not task.evaluate:
            fedcode.reply(task, self.start, examples=5, client="a")

    def remember(self, data: bytes) -> None:
        """A damaged memory; the good message must then be answered one way or another."""
        task = fedcode.receive(self.downs[1], data)
        fedcode.reply(task, self.start, examples=5, client="a")

    def restore(self, data: bytes) -> None:
        """A damaged checkpoint, and if it is taken the next message."""
        server = self.method.restore(data)
        server.message_for("a")
        server.message_for("b")


def _method(name: str) -> Iterator[Target]:
    ends = Ends(name)
    yield Target(f"{name}: receive", ends.receive, ends.downs)
    yield Target(f"{name}: accept", ends.accept, ends.ups)
    yield Target(f"{name}: checkpoint", ends.restore, [ends.checkpoint])
    if ends.memories:
        yield Target(f"{name}: memory", ends.remember, ends.memories)
        yield Target(f"{name}: Memory.from_bytes", Memory.from_bytes, ends.memories)


# ---- the run


@dataclass
class Outcome:
    """What came of many inputs."""

    inputs: int = 0
    by_target: Counter[str] = field(default_factory=Counter)
    by_result: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)  # where and what: target and an input in hex
    failed: int = 0
    slowest_ms: float = 0.0
    slowest: str = ""
    memory_growth_mb: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Outcome) -> Outcome:
        """Two runs at the same time as one."""
        slowest = max(self, other, key=lambda outcome: outcome.slowest_ms)
        return Outcome(
            self.inputs + other.inputs,
            self.by_target + other.by_target,
            self.by_result + other.by_result,
            self.failures | other.failures,
            self.failed + other.failed,
            slowest.slowest_ms,
            slowest.slowest,
            max(self.memory_growth_mb, other.memory_growth_mb),
            max(self.seconds, other.seconds),
        )


def run(count: int, seed: int = 0, only: str = "") -> Outcome:
    """Try `count` hostile inputs, an equal share for each target whose name contains `only`."""
    outcome, damage = Outcome(), Damage(seed)
    chosen = [target for target in targets() if only in target.name]
    others = [good for target in chosen for good in target.good if len(good) < 5000]
    for target in chosen:  # all that is compiled and cached is there before memory and time are measured
        for good in target.good:
            _try(target, good, Outcome())
    before, began = _peak_mb(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for index in range(count):
            target = chosen[index % len(chosen)]
            _try(target, damage.of(damage.random.choice(target.good), others), outcome)
    outcome.seconds = time.perf_counter() - began
    outcome.memory_growth_mb = _peak_mb() - before
    return outcome


def _try(target: Target, data: bytes, outcome: Outcome) -> None:
    began = time.perf_counter()
    try:
        target.read(data)
        result = "read"
    except FedcodeError as error:
        result = type(error).__name__
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of a compiled library is no Exception
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{target.name}: {type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"
        outcome.failures.setdefault(where, f"{error}: {data.hex()}")
        outcome.failed += 1
        result = "failure"
    took = 1000 * (time.perf_counter() - began)
    if took > outcome.slowest_ms:
        outcome.slowest_ms, outcome.slowest = took, target.name
    outcome.inputs += 1
    outcome.by_target[target.name] += 1
    outcome.by_result[result] += 1


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
