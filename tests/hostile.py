"""Hostile input: valid bytes damaged in every way that we could think of, and what reads bytes from outside.

A reader passes if it returns, or raises an error of fedcode's own tree; a warning counts as a failure, and so does
a server that a refused reply has changed. `benchmarks/fuzz.py` runs a million inputs, test_fuzz.py a few thousand.
"""

from __future__ import annotations

import functools
import json
import random
import resource
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import fedcode
from fedcode import coding, methods, sections
from fedcode.arrays import decode_arrays
from fedcode.client import Memory
from fedcode.eightbit import decode_tensors
from fedcode.errors import FedcodeError
from fedcode.joined import join, split
from fedcode.layout import Entry, Kind, Layout
from fedcode.model_file import inspect
from fedcode.reader import Reader, varint
from fedcode.server import Server
from fedcode.state import State
from fedcode.wire import ASKS, Message, Section
from tests.golden.make import HERE, SETTINGS, expected_labels, model, moved

ODD_NUMBERS = (0, 1, 2, 127, 128, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 32, (1 << 40) + 1, (1 << 63) - 1)
ODD_FLOATS = (0.0, -1.0, 0.5, 1e-40, 3e38, 1e300, -1e300)


# ---- damage


class Damage:
    """Makes hostile bytes out of good ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def of(self, data: bytes, others: list[bytes]) -> bytes:
        """One hostile relative of `data`; mostly with its checksum put right, so that it is read beyond it."""
        choice = self.random.random()
        if choice < 0.15 or data[:3] != b"\x93FC":
            return self.bytes(data, others)
        if choice < 0.35:
            return seal(self.bytes(data[:-4], others) + bytes(4))
        return self.message(data, others)

    def bytes(self, data: bytes, others: list[bytes]) -> bytes:
        """One to four changes somewhere."""
        out = bytearray(data)
        for _ in range(self.random.choice((1, 1, 1, 2, 4))):
            at = self.random.randrange(len(out) + 1)
            end = min(len(out), at + self.random.choice((1, 1, 2, 4, 8, 64)))
            what = self.random.randrange(9)
            if what == 0 and at < len(out):
                out[at] ^= 1 << self.random.randrange(8)
            elif what == 1:
                out[at:end] = self.random.randbytes(end - at)
            elif what == 2:
                del out[at:]
            elif what == 3:
                del out[at:end]
            elif what == 4:
                out[at:at] = out[at:end]
            elif what == 5:
                out[at : at + 1] = varint(self.random.choice(ODD_NUMBERS))
            elif what == 6:
                out[at:end] = self.random.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * (end - at)
            elif what == 7 and others:
                other = self.random.choice(others)
                start = self.random.randrange(len(other) + 1)
                out[at:end] = other[start : start + self.random.choice((4, 16, 256))]
            else:
                out += self.random.randbytes(self.random.choice((1, 4, 100)))
        return bytes(out)

    def message(self, data: bytes, others: list[bytes]) -> bytes:
        """A well-formed message whose header or sections lie."""
        try:
            said = Message.from_bytes(data)
        except FedcodeError:
            return self.bytes(data, others)
        bodies = {tag: bytes(body) for tag, body in said.sections.items()}
        what = self.random.randrange(8)
        if what < 5 and bodies:
            tag = self.random.choice(list(bodies))
            bodies[tag] = self.body(tag, bodies[tag], others)
            said = replace(said, sections=bodies)
            if tag == Section.LAYOUT and self.random.random() < 0.8:
                try:
                    said = replace(said, layout=Layout.from_bytes(bodies[tag]).fingerprint)
                except FedcodeError:
                    pass
        elif what == 5:
            said = replace(said, sections=self.exchanged(bodies, others))
        elif what == 6:
            said = replace(said, asks=self.asks(dict(said.asks)))
        else:
            number = self.random.choice(ODD_NUMBERS)
            change: dict[str, Any] = self.random.choice(
                (
                    {"kind": self.random.randrange(1, 10)},
                    {"method": self.random.choice(("", "fedavg", "fedcode", "delta", "nothing", "a\x1b[2J"))},
                    {"round": number}, {"accepted": number}, {"examples": number},
                    {"base": self.random.choice((bytes(8), said.gives, self.random.randbytes(8)))},
                    {"gives": self.random.choice((bytes(8), said.base, self.random.randbytes(8)))},
                    {"layout": self.random.randbytes(8)}, {"federation": self.random.choice((bytes(8), b"8 bytes!"))},
                )
            )  # fmt: skip
            said = replace(said, **change)
        return said.to_bytes()

    def body(self, tag: int, body: bytes, others: list[bytes]) -> bytes:
        """A section damaged where it hurts: inside of what it wraps."""
        if self.random.random() < 0.3:
            return self.bytes(body, others)
        if tag == Section.LAYOUT:
            reader = Reader(body, "a layout")
            reader.varint()
            plain = self.bytes(zlib.decompress(reader.take(reader.left)), [])
            return varint(len(plain)) + zlib.compress(plain)
        if tag == Section.BASES:
            parts = [bytes(part) for part in split(body)]
            if parts:
                at = self.random.randrange(len(parts))
                parts[at] = self.message(parts[at], others)
            return join(parts)
        if tag == Section.FLAGS and body[:1] == b"{":
            return self.json(json.loads(body))
        if len(body) % 4 == 0 and body and self.random.random() < 0.5:
            floats = np.frombuffer(body, "<f4").copy()
            with np.errstate(over="ignore"):
                floats[self.random.randrange(floats.size)] = self.random.choice(ODD_FLOATS)
            return floats.tobytes()
        return self.bytes(body, others)

    def exchanged(self, bodies: dict[int, bytes], others: list[bytes]) -> dict[int, bytes]:
        """A section too few, or one too many, or two of them swapped."""
        what, tags = self.random.randrange(3), list(bodies)
        if what == 0 and tags:
            del bodies[self.random.choice(tags)]
        elif what == 1 and len(tags) > 1:
            one, two = self.random.sample(tags, 2)
            bodies[one], bodies[two] = bodies[two], bodies[one]
        else:
            tag = self.random.choice([*map(int, Section), 77, 200])
            bodies[tag] = self.random.choice([b"", bytes(100), *(other[:200] for other in others[:3])])
        return bodies

    def asks(self, asks: dict[str, float]) -> dict[str, float]:
        """Something odd asked, or something left out."""
        if asks and self.random.random() < 0.3:
            del asks[self.random.choice(list(asks))]
            return asks
        name = self.random.choice([*asks, *asks, *ASKS[1:], "else"])
        asks[name] = self.random.choice((*ODD_NUMBERS[:-1], *ODD_FLOATS))
        return asks

    def json(self, about: Any) -> bytes:
        """A key left out, or a value of another type."""
        at = about
        while self.random.random() < 0.6:
            inner = [value for value in at.values() if isinstance(value, dict) and value]
            if not inner:
                break
            at = self.random.choice(inner)
        key = self.random.choice(list(at))
        if self.random.random() < 0.3:
            del at[key]
        else:
            odd: tuple[Any, ...] = (None, -1, 1 << 70, 0.5, True, "", "zz", "00" * 8, [], [1], {}, {"a": [1, "x"]})
            at[key] = self.random.choice(odd)
        data = json.dumps(about).encode()
        return self.bytes(data, []) if self.random.random() < 0.2 else data


def seal(data: bytes) -> bytes:
    """The bytes with the checksum that fits them."""
    return data[:-4] + zlib.crc32(data[:-4]).to_bytes(4, "little")


# ---- what reads bytes from outside


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
                assert not sums.replies and not sums.examples and not sums.codebooks, "a refused reply counts"
                assert not any(total.any() for total in sums.vectors.values()), "a refused reply is in the sums"
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
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
