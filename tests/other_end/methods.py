"""What the methods' messages say to a client, and what its reply says, as docs/wire-format.md has it."""

from __future__ import annotations

import itertools
import struct
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.other_end import model, numbers
from tests.other_end.model import (
    CENTERS,
    CHANGES,
    COUNTERS,
    LABELS,
    LADDER,
    POSITIONS,
    SCALES,
    SIZES,
    STATISTIC,
    STATISTICS,
    VALUES,
    VARIANCE,
    VECTORS,
    WEIGHT,
    Base,
    Layout,
    Message,
    expected,
)
from tests.other_end.numbers import counters, f32, float_of, floats, joined, labels, small_tensors

NOTHING = bytes(8)
Known = tuple[Layout, dict[bytes, Base], dict[str, Any]]


def start(data: bytes, memory: bytes | None) -> Base:
    """The model that a message gives to train from or to evaluate, to a client with this memory."""
    said = model.message(data)
    known: Known | None = model.memory(memory) if memory is not None else None
    if model.LAYOUT in said.sections:
        layout = model.layout(said.sections[model.LAYOUT])
    else:
        assert known is not None
        layout = known[0]
    held = known[1][said.base] if said.base != NOTHING and known is not None else None
    if not said.sections and held is not None and (said.kind == 3 or said.gives == said.base):
        return held
    if said.kind == 3:
        return _plain(said, layout, held)
    if said.method == "fedcode" and LABELS not in said.sections and held is not None:
        return _snapped(said, held, known[2] if known is not None else {})
    given = _READERS.get(said.method, _plain)(said, layout, held)
    if said.gives != NOTHING:
        assert given.digest == said.gives
    return given


def told(data: bytes, layout: Layout, base: Base | None, down: bytes) -> list[float]:
    """What a reply to a message says: the model, a codebook alone, or the change of the weights and the statistics."""
    said, asked = model.message(data), model.message(down)
    asks, weights, statistics = asked.asks, layout.weights, floats(said.sections.get(VALUES, b""))
    if said.method in ("fedavg", "fedprox"):
        return statistics
    if said.method == "fedcode" and not asks["full"]:
        return floats(said.sections[CENTERS])
    if said.method in ("fedavg_ws", "fedcode"):
        return _clustered(said, layout, base).vector
    if said.method == "fedsparsify":
        places = list(range(weights))
        if POSITIONS in asked.sections:
            places = numbers.counted_positions(asked.sections[POSITIONS], weights)
        if POSITIONS in said.sections:
            places = [places[i] for i in numbers.counted_positions(said.sections[POSITIONS], len(places))]
        vector = [0.0] * weights + statistics[len(places) :]
        for place, value in zip(places, statistics[: len(places)], strict=True):
            vector[place] = value
        return vector
    if said.method == "fedpaq":
        s, bucket = int(asks["levels"]), int(asks["bucket"])
        norms = floats(said.sections[SCALES])
        found = labels(said.sections[LABELS], weights, 2 * s + 1)
        return [norms[i // bucket] * (label - s) / s for i, label in enumerate(found)] + statistics
    if said.method == "mucsc":
        return _layers(said, layout) + statistics
    if said.method == "fedzip":
        return _zipped(said, layout, int(asks["clusters"])) + statistics
    if said.method in ("gtopk", "stc"):
        (change,) = joined(said.sections[CHANGES])
        moved = [0.0] * weights
        for position, value in _moves(said.method, change, layout):
            moved[position] = value
        return moved + _rest(said, layout, base)
    assert (said.method, said.kind) == ("delta", 2)
    assert base is not None
    held = [0.0] * (weights - layout.matrices) + base.vector[weights:]
    rest = small_tensors(said.sections[VECTORS], _small(layout), int(asks.get("vector_bits", 8)), held)
    centers = floats(said.sections[CENTERS])
    found = labels(said.sections[LABELS], layout.matrices, len(centers))
    sizes = [entry.size for entry in layout.stored(WEIGHT) if entry.is_matrix and entry.size]
    words = struct.unpack(f"<{len(sizes)}H", said.sections[SCALES])
    scales = [float_of(word << 16) for word, size in zip(words, sizes, strict=True) for _ in range(size)]
    return [scale * centers[label] for scale, label in zip(scales, found, strict=True)] + rest


def _plain(said: Message, layout: Layout, held: Base | None) -> Base:
    centers, values = floats(said.sections.get(CENTERS, b"")), floats(said.sections[VALUES])
    found: list[int] = []
    if centers:
        wanted = expected(held, centers, layout.weights)
        found = labels(said.sections[LABELS], layout.weights, len(centers), wanted)
    return Base(layout, centers, found, values, counters(said.sections[COUNTERS], layout.counters))


def _clustered(said: Message, layout: Layout, held: Base | None) -> Base:
    if CENTERS not in said.sections or STATISTICS not in said.sections:
        return _plain(replace(said, sections={VALUES: b"", **said.sections}), layout, held)
    centers = floats(said.sections[CENTERS])
    found = labels(said.sections[LABELS], layout.weights, len(centers), expected(held, centers, layout.weights))
    rest = _rest(said, layout, held)
    return Base(layout, centers, found, rest, counters(said.sections[COUNTERS], layout.counters))


def _snapped(said: Message, held: Base, kept: dict[str, Any]) -> Base:
    own = held
    if "own" in kept:
        own = model.base(bytes(kept["own"][2]), held.layout)
    centers, vector = floats(said.sections[CENTERS]), own.vector
    thresholds = [(a + b) / 2 for a, b in itertools.pairwise(centers)]
    weights = held.layout.weights
    snapped = [centers[bisect_left(thresholds, value)] for value in vector[:weights]]
    return Base(held.layout, [], [], snapped + vector[weights:], own.counters)


def _delta(said: Message, layout: Layout, held: Base | None) -> Base:
    if VECTORS not in said.sections:
        return _plain(said, layout, held)
    known = None if held is None else held.vector[layout.matrices :]
    rest = small_tensors(said.sections[VECTORS], _small(layout), int(said.asks.get("vector_bits", 8)), known)
    centers = numbers.ladder(said.sections[LADDER])
    found = labels(said.sections[LABELS], layout.matrices, len(centers), expected(held, centers, layout.matrices))
    return Base(layout, centers, found, rest, counters(said.sections[COUNTERS], layout.counters))


def _mucsc(said: Message, layout: Layout, held: Base | None) -> Base:
    if LABELS not in said.sections:
        return _plain(said, layout, held)
    assert held is not None
    moved = [f32(was + by) for was, by in zip(held.vector[: layout.weights], _layers(said, layout), strict=True)]
    vector = moved + floats(said.sections[VALUES])
    return Base(layout, [], [], vector, counters(said.sections[COUNTERS], layout.counters))


def _fedsparsify(said: Message, layout: Layout, held: Base | None) -> Base:
    if POSITIONS not in said.sections:
        return _plain(said, layout, held)
    places = numbers.counted_positions(said.sections[POSITIONS], layout.weights)
    values = floats(said.sections[VALUES])
    vector = [0.0] * layout.weights + values[len(places) :]
    for place, value in zip(places, values[: len(places)], strict=True):
        vector[place] = value
    return Base(layout, [], [], vector, counters(said.sections[COUNTERS], layout.counters))


def _changed(said: Message, layout: Layout, held: Base | None) -> Base:
    if CHANGES not in said.sections:
        return _plain(said, layout, held)
    assert held is not None
    vector, largest = held.vector, float_of(0x7F7FFFFF)
    for change in joined(said.sections[CHANGES]):
        for position, value in _moves(said.method, change, layout):
            vector[position] = f32(min(max(vector[position] + value, -largest), largest))
    vector[layout.weights :] = _rest(said, layout, held)
    return Base(layout, [], [], vector, counters(said.sections[COUNTERS], layout.counters))


_READERS = {
    "fedavg_ws": _clustered, "fedcode": _clustered, "delta": _delta, "mucsc": _mucsc, "fedsparsify": _fedsparsify,
    "gtopk": _changed, "stc": _changed,
}  # fmt: skip


def _layers(said: Message, layout: Layout) -> list[float]:
    tensors = [entry.size for entry in layout.stored(WEIGHT) if entry.size]
    sizes = numbers.integers(said.sections[SIZES], len(tensors))
    found = labels(said.sections[LABELS], layout.weights, max(sizes))
    return _looked_up(floats(said.sections[CENTERS]), sizes, tensors, found)


def _zipped(said: Message, layout: Layout, clusters: int) -> list[float]:
    tensors = [entry.size for entry in layout.stored(WEIGHT) if entry.size]
    sizes = numbers.integers(said.sections[SIZES], len(tensors))
    if POSITIONS in said.sections:
        places = numbers.counted_positions(said.sections[POSITIONS], layout.weights)
        symbols = [0] * layout.weights
        for place, label in zip(places, labels(said.sections[LABELS], len(places), clusters), strict=True):
            symbols[place] = label + 1
    else:
        symbols = labels(said.sections[LABELS], layout.weights, clusters + 1)
    centers: list[float] = []
    at = 0
    for size in sizes:  # each tensor's own centres behind a zero
        centers += [0.0, *floats(said.sections[CENTERS])[at : at + size]]
        at += size
    return _looked_up(centers, [size + 1 for size in sizes], tensors, symbols)


def _looked_up(
    centers: Sequence[float], sizes: Sequence[int], tensors: Sequence[int], found: Sequence[int]
) -> list[float]:
    """Labels of tensors one after the other, each with so many centres of its own."""
    out: list[float] = []
    first = 0
    for size, count in zip(sizes, tensors, strict=True):
        out += [centers[first + label] for label in found[len(out) : len(out) + count]]
        first += size
    return out


def _moves(method: str, change: bytes, layout: Layout) -> list[tuple[int, float]]:
    parts = joined(change)
    places = numbers.counted_positions(parts[0], layout.weights)
    if method == "gtopk":
        return list(zip(places, floats(parts[1]), strict=True))
    signs = labels(parts[1], len(places), 2)
    ends = list(itertools.accumulate(entry.size for entry in layout.stored(WEIGHT) if entry.size))
    scales = floats(parts[2])
    magnitudes = [scales[next(i for i, end in enumerate(ends) if place < end)] for place in places]
    return [(place, size if sign else -size) for place, size, sign in zip(places, magnitudes, signs, strict=True)]


def _rest(said: Message, layout: Layout, held: Base | None) -> list[float]:
    """The statistics."""
    if STATISTICS not in said.sections:
        return floats(said.sections[VALUES])
    tensors = [(entry.size, entry.kind == VARIANCE) for entry in layout.stored(STATISTIC, VARIANCE) if entry.size]
    known = None if held is None else held.vector[layout.weights :]
    return small_tensors(said.sections[STATISTICS], tensors, 8, known)


def _small(layout: Layout) -> list[tuple[int, bool]]:
    entries = [entry for entry in layout.stored(WEIGHT, STATISTIC, VARIANCE) if not entry.is_matrix]
    return [(entry.size, entry.kind == VARIANCE) for entry in entries if entry.size]
