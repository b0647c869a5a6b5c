"""Messages, layouts, bases and files, as docs/wire-format.md says that they are written."""

from __future__ import annotations

import itertools
import struct
import zlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from tests.other_end.numbers import Cursor, arrays, counters, floats, joined, label_blocks, labels, varint

DTYPES = (
    "float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32",
    "uint64", "bool",
)  # fmt: skip
ASKS = (
    "full", "clusters", "labels", "statistics", "bits", "residual", "proximal", "density", "levels", "bucket",
    "keep", "vector_bits", "debias", "mask", "silent", "warm",
)  # fmt: skip
LADDER = 20
LAYOUT, VALUES, CENTERS, LABELS, STATISTICS, COUNTERS, POSITIONS, SCALES, VECTORS, SIZES = range(1, 11)
BASES, EXTRA, CHANGES = 14, 17, 19
WEIGHT, STATISTIC, VARIANCE, COUNTER = range(4)


@dataclass
class Message:
    """A header and sections."""

    kind: int
    federation: bytes
    layout: bytes
    base: bytes
    gives: bytes
    seed: int
    method: str = ""
    round: int = 0
    accepted: int = 0
    examples: int = 0
    asks: dict[str, float] = field(default_factory=dict)
    sections: dict[int, bytes] = field(default_factory=dict)


def message(data: bytes) -> Message:
    """A message."""
    assert struct.unpack("<I", data[-4:]) == (zlib.crc32(data[:-4]),), "checksum"
    cursor = Cursor(data[:-4])
    assert cursor.take(4) == b"\x93FC\x01"
    kind = cursor.unpack("B")
    federation, layout, base, gives = (cursor.take(8) for _ in range(4))
    found = Message(kind, federation, layout, base, gives, cursor.unpack("I"))
    found.method = cursor.text()
    found.round, found.accepted, found.examples = cursor.varint(), cursor.varint(), cursor.varint()
    for _ in range(cursor.varint()):
        number = cursor.varint()
        name = ASKS[number - 1] if number else cursor.text()
        value = cursor.varint()
        found.asks[name] = cursor.unpack("d") if value == 1 else value // 2
    lengths = [(cursor.unpack("B"), cursor.varint()) for _ in range(cursor.varint())]
    found.sections = {tag: cursor.take(length) for tag, length in lengths}
    assert cursor.done
    return found


@dataclass
class Entry:
    """One tensor."""

    name: str
    kind: int
    dtype: str
    tied: int
    shape: list[int]

    @property
    def size(self) -> int:
        size = 1
        for length in self.shape:
            size *= length
        return size

    @property
    def is_matrix(self) -> bool:
        return self.kind == WEIGHT and len(self.shape) >= 2


@dataclass
class Layout:
    """Entries in their order."""

    entries: list[Entry]
    fingerprint: bytes

    def stored(self, *kinds: int) -> list[Entry]:
        """The entries of these kinds in the order of the vector."""
        found = [entry for entry in self.entries if not entry.tied and entry.kind in kinds]
        return sorted(found, key=lambda entry: (entry.kind, not entry.is_matrix))

    def count(self, *kinds: int) -> int:
        return sum(entry.size for entry in self.stored(*kinds))

    @property
    def weights(self) -> int:
        return self.count(WEIGHT)

    @property
    def statistics(self) -> int:
        return self.count(STATISTIC, VARIANCE)

    @property
    def matrices(self) -> int:
        return sum(entry.size for entry in self.stored(WEIGHT) if entry.is_matrix)

    @property
    def counters(self) -> int:
        return self.count(COUNTER)


def layout(data: bytes) -> Layout:
    """A layout."""
    outer = Cursor(data)
    size = outer.varint()
    plain = zlib.decompress(outer.rest())
    assert len(plain) == size
    cursor, entries = Cursor(plain), []
    for _ in range(cursor.varint()):
        name, kind, dtype, tied = cursor.text(), cursor.unpack("B"), DTYPES[cursor.unpack("B")], cursor.varint()
        entries.append(Entry(name, kind, dtype, tied, [cursor.varint() for _ in range(cursor.varint())]))
    assert cursor.done
    return Layout(entries, blake2b(plain, digest_size=8).digest())


@dataclass
class Base:
    """A model that both ends hold."""

    layout: Layout
    centers: list[float]
    labels: list[int]
    rest: list[float]
    counters: list[int]

    @property
    def vector(self) -> list[float]:
        return [self.centers[label] for label in self.labels] + self.rest

    @property
    def digest(self) -> bytes:
        hasher = blake2b(self.layout.fingerprint, digest_size=8)
        parts: list[tuple[Sequence[float], str]] = [
            (self.centers, "f"), (self.labels, "B" if len(self.centers) <= 256 else "H"), (self.rest, "f"),
            (self.counters, "q"),
        ]  # fmt: skip
        for part, form in parts:
            hasher.update(varint(len(part)) + struct.pack(f"<{len(part)}{form}", *part))
        return hasher.digest()


def expected(held: Base | None, centers: Sequence[float], count: int) -> list[int] | None:
    """The labels that both ends expect."""
    if held is None:
        return None
    thresholds = [(a + b) / 2 for a, b in itertools.pairwise(centers)]
    return [bisect_left(thresholds, value) for value in held.vector[:count]]


def base(data: bytes, model: Layout) -> Base:
    """A message of kind 8."""
    said = message(data)
    rest, centers = floats(said.sections[VALUES]), floats(said.sections.get(CENTERS, b""))
    count = model.weights + model.statistics - len(rest)
    found = labels(said.sections[LABELS], count, len(centers)) if centers else []
    read = Base(model, centers, found, rest, counters(said.sections[COUNTERS], model.counters))
    assert read.digest == said.gives
    return read


def memory(data: bytes) -> tuple[Layout, dict[bytes, Base], dict[str, Any]]:
    """The layout, the bases by digest, and what the method keeps."""
    said = message(data)
    model = layout(said.sections[LAYOUT])
    assert model.fingerprint == said.layout
    bases = [base(part, model) for part in joined(said.sections[BASES])]
    return model, {one.digest: one for one in bases}, arrays(said.sections[EXTRA])


def model_file(data: bytes) -> tuple[Layout, list[float], list[int]]:
    """Layout, vector and counters of a file."""
    said = message(data)
    model = layout(said.sections[LAYOUT])
    weights: list[float] = []
    if model.weights:
        centers = floats(said.sections[CENTERS])
        weights = [centers[label] for label in label_blocks(said.sections[LABELS], model.weights, len(centers))]
    vector = weights + floats(said.sections[STATISTICS])
    return model, vector, counters(said.sections[COUNTERS], model.counters)


def rounded(model: Layout, vector: list[float]) -> list[float]:
    """The vector with every value as its entry's dtype has it; bfloat16 is left as it is."""
    halves = [
        entry.dtype == "float16" for entry in model.stored(WEIGHT, STATISTIC, VARIANCE) for _ in range(entry.size)
    ]
    return [struct.unpack("<e", struct.pack("<e", x))[0] if half else x for x, half in zip(vector, halves, strict=True)]
