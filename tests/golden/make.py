"""Make the golden files: bytes of format version 1 that every later release must decode to the same numbers.

    .venv/bin/python tests/golden/make.py

Each `NAME.bin` has a `NAME.json` beside it that says what it is and what comes out of it, large things as a SHA-256 of
their little-endian bytes. A file that is there is never overwritten: this only adds. What a release wrote stays;
what no release has written yet may be deleted and made anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import fedcode
from fedcode import methods, sparse, symbols
from fedcode.arrays import encode_arrays
from fedcode.client import Memory
from fedcode.coding import encode_floats, encode_integers, encode_labels, encode_positions
from fedcode.eightbit import encode_tensors
from fedcode.errors import CannotUse
from fedcode.joined import join
from fedcode.label_blocks import encode_block, places
from fedcode.layout import Entry, Kind, Layout
from fedcode.sections import encode_centers, encode_counters
from fedcode.server import Server
from fedcode.state import State, flatten
from fedcode.wire import Message

HERE = Path(__file__).parent

# What differs from a method's defaults, so that three rounds of a small model show all its messages.
SETTINGS: dict[str, dict[str, Any]] = {
    "fedavg_ws": {"clusters": 16},
    "fedcode": {"clusters": 16, "downlink": 1 / 3, "uplink": 1 / 3, "start": 1, "statistics": "8bit"},
    "delta": {"clusters": 16},
    "fedsparsify": {"until": 4},
    "gtopk": {"density": 0.1},
    "stc": {"keep": 0.1},
}


@dataclass(frozen=True)
class Case:
    """Bytes and what is to be known about them."""

    name: str
    data: bytes
    about: dict[str, Any]


def sha(*arrays: Any) -> str:
    """SHA-256 over the values of arrays one after the other, little-endian in their own dtypes."""
    hasher = hashlib.sha256()
    for array in arrays:
        hasher.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    return hasher.hexdigest()


def expected_labels(count: int, k: int) -> Any:
    """The context of the golden labels: a rule that any language can follow."""
    return np.array([i * i // 7 % k for i in range(count)], np.int64)


def labels() -> Iterator[Case]:
    rng = np.random.default_rng(1)

    def case(name: str, row: Any, k: int, **options: Any) -> Case:
        data = encode_labels(row, k, **options)
        kind = np.uint8 if k <= 256 else np.uint16
        about = {"what": "labels", "count": len(row), "k": k, "context": "context" in options}
        return Case(
            f"labels-{name}", data, {**about, "way": data[0] if data else None, "sha256": sha(row.astype(kind))}
        )

    for k in (2, 3, 5, 64, 65, 256, 257, 4096, 65536):
        row = rng.integers(0, k, 301)
        yield case(f"packed-{k}", row, k, coding="packed")
    yield case("none", np.empty(0, np.int64), 7)
    yield case("one-centre", np.zeros(9, np.int64), 1)
    for k in (16, 300):
        row = np.clip(np.rint(rng.normal(k / 2, k / 7, 3000)), 0, k - 1).astype(np.int64)
        near = expected_labels(3000, k)
        moved = (near + np.rint(rng.normal(0, 0.7, 3000)).astype(np.int64)) % k
        for split in (False, True):
            for ranked in (False, True):
                form = "-split" * split + "-ranked" * ranked
                with (
                    mock.patch.object(symbols, "_single_bin_costs", lambda *_, split=split: split),
                    mock.patch.object(symbols, "_ranking_pays", lambda *_, ranked=ranked: ranked),
                ):
                    yield case(f"entropy-{k}{form}", row, k, coding="entropy")
                    yield case(f"context-{k}{form}", moved, k, coding="context", context=near)
    for k, count in ((6, 4000), (256, 20_000)):  # what was expected says how much a label moves
        near = expected_labels(count, k)
        moved = (near + np.rint(rng.normal(0, 0.2 + 3 * (near < k // 2))).astype(np.int64)) % k
        yield case(f"context-{k}-groups", moved, k, coding="context", context=near)
    with mock.patch.object(symbols, "_single_bin_costs", return_value=True):
        yield case("entropy-40000-split", rng.integers(0, 40000, 500), 40000, coding="entropy")
    yield case("entropy-two-pages", (rng.random(300_000) < 0.02) * rng.integers(1, 5, 300_000), 5)

    count = (1 << 20) + 500
    rare = (rng.random(count) < 1e-3).astype(np.uint8)
    blocks = b"".join(encode_block(rare[place], 2) for place in places(count))
    yield Case("label-blocks", blocks, {"what": "label blocks", "count": count, "k": 2, "sha256": sha(rare)})


def numbers() -> Iterator[Case]:
    rng = np.random.default_rng(2)
    for count, size in ((200, 3000), (4, 1 << 33)):
        row = np.sort(rng.choice(size, count, replace=False)) if size < 1 << 32 else np.array([0, 7, 1 << 32, size - 1])
        gaps = np.diff(row, prepend=-1) - 1
        forms = [form() for _, form in sparse._forms(row, gaps, size)]
        for data in [*forms, encode_positions(row, size)]:
            about = {"what": "positions", "count": count, "size": size, "way": data[0], "sha256": sha(row)}
            yield Case(f"positions-{data[0]}-of-{size}", data, about)
    integers = {
        "bytes": np.array([0, -1, 5, 127, -128]),
        "shorts": np.array([300, -32768, 32767]),
        "words": np.array([-(1 << 31), (1 << 31) - 1]),
        "bounded": np.rint(rng.normal(0, 2, 1000)).astype(np.int64),
        "stream": np.rint(rng.normal(0, 1e5, 1000)).astype(np.int64),
    }
    for name, row in integers.items():
        about = {"what": "integers", "count": len(row), "sha256": sha(row.astype(np.int32))}
        yield Case(f"integers-{name}", encode_integers(row), about)
    floats = np.array([0, -0.0, 1, -1.5, 1e-45, 65504, 0.1], np.float32)
    yield Case("floats-32", encode_floats(floats), {"what": "floats", "half": False, "count": 7, "sha256": sha(floats)})
    halves = floats.astype(np.float16).astype(np.float32)
    yield Case("floats-16", encode_floats(floats, half=True), {
        "what": "floats", "half": True, "count": 7, "sha256": sha(halves)
    })  # fmt: skip
    counters = np.array([300, 300, 299, 0, -1, (1 << 63) - 1, -(1 << 63), 5], np.int64)
    yield Case("counters", encode_counters(counters), {"what": "counters", "count": 8, "sha256": sha(counters)})
    centers = np.array([-1, -0.5, 0, 0, 2e30], np.float32)
    yield Case("centers", encode_centers(centers), {"what": "centers", "sha256": sha(centers)})
    parts = [b"ab", b"", b"c" * 200]
    yield Case("joined", join(parts), {"what": "joined", "parts": [part.decode() for part in parts]})
    arrays: dict[str, Any] = {
        "residual": np.array([[1, -2], [0.5, 0]], np.float32),
        "scalar": np.array(3, np.int64),
        "empty": np.zeros((0, 4), np.uint8),
        "mask": np.array([True, False]),
    }
    shown = {name: [array.dtype.name, list(array.shape), array.tolist()] for name, array in arrays.items()}
    yield Case("arrays", encode_arrays(arrays), {"what": "arrays", "arrays": shown})


def tensors() -> Iterator[Case]:
    rng = np.random.default_rng(3)
    kinds = [("a", 40, Kind.WEIGHT), ("b", 1, Kind.STATISTIC), ("c", 60, Kind.VARIANCE), ("d", 5, Kind.VARIANCE)]
    at, places_of = 0, []
    for name, size, kind in kinds:
        places_of.append((Entry(name, (size,), "float32", kind), slice(at, at + size)))
        at += size
    vector = np.concatenate([rng.normal(size=40), [3.0], rng.gamma(2, size=60), np.ones(5)]).astype(np.float32)
    held = (vector * (1 + 0.01 * rng.normal(size=at))).astype(np.float32)
    from fedcode.eightbit import decode_tensors

    for bits in (8, 4):
        for known in (False, True):
            data = encode_tensors(vector, places_of, bits, held if known else None)
            about = {
                "what": "tensors",
                "bits": bits,
                "tensors": [[size, kind == Kind.VARIANCE] for _, size, kind in kinds],
                "held": held.tolist() if known else None,
                "sha256": sha(decode_tensors(data, places_of, bits, held if known else None)),
            }
            yield Case(f"tensors-{bits}{'-held' * known}", data, about)


def model(seed: int) -> dict[str, Any]:
    """A small model with everything in it but float64: the same names and shapes for every seed."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    embedding = draw(20, 12)
    return {
        "embed.weight": embedding,
        "conv.weight": draw(6, 4, 3, 3),
        "conv.bias": draw(6),
        "half.weight": draw(5, 7).astype(np.float16),
        "norm.weight": np.ones(6, np.float32),
        "norm.running_mean": draw(6),
        "norm.running_var": rng.gamma(2, size=6).astype(np.float32) + np.float32(0.1),
        "norm.num_batches_tracked": np.array(100 + seed),
        "temperature": np.array(0.5, np.float32),
        "nothing": np.zeros((0, 3), np.float32),
        "head.weight": embedding,
    }


def moved(state: State, seed: int) -> State:
    """The model after some training, without any: a little noise, positive variances, a step more."""
    noise = np.random.default_rng(seed).normal(scale=0.05, size=state.vector.size)
    vector = np.where(state.vector == 0, 0, state.vector * (1 + noise)).astype(np.float32)
    return State(state.layout, vector, state.counters + 1)


def layouts() -> Iterator[Case]:
    from fedcode.layout import DTYPES, FLOATS

    every = tuple(
        Entry(f"x.{dtype}", (2,) * (i % 4), dtype, Kind.WEIGHT if dtype in FLOATS else Kind.COUNTER)
        for i, dtype in enumerate(DTYPES)
    )
    tied = (*every, Entry("again", every[0].shape, "float32", Kind.WEIGHT, "x.float32"))
    for name, layout in (("every-dtype", Layout(tied)), ("model", flatten(model(0)).layout), ("empty", Layout(()))):
        yield Case(f"layout-{name}", layout.to_bytes(), {"what": "layout", **shown_layout(layout)})


def shown_layout(layout: Layout) -> dict[str, Any]:
    """What a layout says, for people and other languages."""
    entries = [[e.name, list(e.shape), e.dtype, e.kind.name.lower(), e.tied] for e in layout.entries]
    places = {name: [place.start, place.stop] for name, place in layout.places.items()}
    return {"fingerprint": layout.fingerprint.hex(), "entries": entries, "places": places}


def header(data: bytes) -> dict[str, Any]:
    """What stands in a message's header."""
    said = Message.from_bytes(data)
    return {
        "kind": int(said.kind),
        "method": said.method,
        "round": said.round,
        "federation": said.federation.hex(),
        "layout": said.layout.hex(),
        "base": said.base.hex(),
        "gives": said.gives.hex(),
        "accepted": said.accepted,
        "seed": said.seed,
        "examples": said.examples,
        "asks": dict(said.asks),
        "sections": {str(int(tag)): len(body) for tag, body in said.sections.items()},
    }


def files() -> Iterator[Case]:
    for name, options in (("model-k", {"k": 16}), ("model-bits", {"bits": 2.0})):
        data = fedcode.encode(model(0), **options)
        state = flatten(fedcode.decode(data))
        about = {"what": "model", "header": header(data), "sha256": sha(state.vector, state.counters)}
        yield Case(name, data, about)
    data = fedcode.memory_of(model(0))
    held = Memory.from_bytes(data)
    yield Case("memory-known", data, {"what": "memory", **memory_about(data, held)})


def memory_about(data: bytes, memory: Memory) -> dict[str, Any]:
    """What a memory holds."""
    return {
        "header": header(data),
        "bases": {digest.hex(): sha(base.state.vector, base.state.counters) for digest, base in memory.bases.items()},
        "kept": {name: sha(array) for name, array in memory.kept.items()},
    }


def federation(name: str) -> Iterator[Case]:
    """Three rounds of a method as one client saw them, and the server between them."""
    settings = SETTINGS.get(name, {})
    server: Server = fedcode.method(name, **settings).server(model(0), seed=5, federation=b"golden-1")
    hello = server.hello()
    yield Case(f"{name}-hello", hello, {"what": "message", "header": header(hello)})
    memory: bytes | None = None
    held = None
    for number in (1, 2, 3):
        down = server.message_for("client-0")
        task = fedcode.receive(down, memory)
        about = {"what": "down", "memory": held, "header": header(down)}
        state = task.start
        yield Case(f"{name}-down-{number}", down, {**about, "sha256": sha(state.vector, state.counters)})
        trained = moved(state, number)
        if number > 1:
            checkpoint = server.to_bytes()
            yield Case(f"{name}-server-{number}", checkpoint, {
                "what": "server", "header": header(checkpoint), "settings": server.method.settings(),
                "sha256": sha(server.model.vector, server.model.counters),
                "bases": sorted(base.hex() for base in server.bases), "clients": sorted(server.clients),
            })  # fmt: skip
        up, memory = fedcode.reply(task, trained, examples=100 + number, client="client-0")
        yield Case(f"{name}-up-{number}", up, {
            "what": "up", "header": header(up), "down": f"{name}-down-{number}", "memory": held,
            "server": f"{name}-server-{number}" if number > 1 else None, "settings": server.method.settings(),
        })  # fmt: skip
        if memory:
            held = f"{name}-memory-{number}"
            yield Case(held, memory, {"what": "memory", **memory_about(memory, Memory.from_bytes(memory))})
        server.accept("client-0", up)
        other = fedcode.receive(server.message_for(f"client-{number}"))
        again, _ = fedcode.reply(other, moved(other.start, 9), examples=50, client=f"client-{number}")
        server.accept(f"client-{number}", again)
        if number == 2:
            data = server.message_for("client-0", evaluate=True)
            state = fedcode.receive(data, memory).start
            about = {"what": "down", "memory": held or None, "header": header(data)}
            yield Case(f"{name}-evaluate", data, {**about, "sha256": sha(state.vector, state.counters)})
        server.finish_round()
    if memory:
        try:
            fedcode.receive(server.message_for("client-0"))
        except CannotUse as error:
            yield Case(f"{name}-cannot-use", error.reply, {"what": "message", "header": header(error.reply)})


def cases() -> Iterator[Case]:
    """All of them."""
    for family in (labels, numbers, tensors, layouts, files):
        yield from family()
    for name in methods.names():
        if methods.class_of(name).__module__.startswith("fedcode."):
            yield from federation(name)


def main() -> None:
    """Write what is not there yet."""
    added = 0
    for case in cases():
        file = HERE / f"{case.name}.bin"
        if not file.exists():
            file.write_bytes(case.data)
            file.with_suffix(".json").write_text(json.dumps(case.about, indent=1) + "\n")
            added += 1
    print(f"{added} golden files added, {len(list(HERE.glob('*.bin')))} in all")


if __name__ == "__main__":
    main()
