"""The server's end at scale: replies folded in a second, memory over ten thousand of them, encodings of a broadcast.

    python benchmarks/server.py [--json results/server.json] [--weights 270000 3200000 86000000]

A fold is `server.accept`: the reply's bytes read, checked, decoded and added to the sums in float64. Its floor is
numpy adding a raw float32 vector to sums in float64 (`total += vector`), in the same run; adding it to sums in float32
is shown beside. All runs on one thread and is measured by the processor's time of that thread, the best of several
tries, so that a busy machine disturbs it less.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["FEDCODE_THREADS"] = "1"

import numpy as np
from machine import machine

import fedcode
from fedcode.client import receive, reply
from fedcode.rehearsal import moved
from fedcode.server import Server
from fedcode.state import State, flatten

WEIGHTS = (270_000, 3_200_000, 86_000_000)
MANY = 10_000
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedavg": ("fedavg", {}),
    "fedcode, full": ("fedcode", {"downlink": 1.0, "uplink": 1.0}),
    "fedcode, codebook": ("fedcode", {"downlink": 0.0, "uplink": 0.0, "start": 1}),
    "delta": ("delta", {}),
    "delta, 2 bits": ("delta", {"bits": 2.0}),
}


def model(weights: int) -> State:
    """A model of about so many weights: four matrices as heavy-tailed as trained ones, and normalisation."""
    rng = np.random.default_rng(0)
    width = max(8, round((weights / 4) ** 0.5))
    state: dict[str, Any] = {}
    for index in range(4):
        state[f"{index}.weight"] = (0.05 * rng.laplace(size=(width, width))).astype(np.float32)
        state[f"{index}.norm.weight"] = np.ones(width, np.float32)
        state[f"{index}.norm.running_var"] = np.ones(width, np.float32)
    return flatten(state)


def answered(server: Server, memories: dict[str, bytes], clients: str) -> bytes:
    """This round's reply of each client; the last one's."""
    data = b""
    for client in clients:
        task = receive(server.message_for(client), memories.get(client))
        trained = moved(task, client, size=0.005)
        data, memories[client] = reply(task, trained, examples=9, client=client)
        server.accept(client, data)
    return data


def begun(kind: str, start: State) -> tuple[Server, bytes]:
    """A server in its second round, and a reply of that round that it has not seen from anybody else."""
    name, settings = KINDS[kind]
    server: Server = fedcode.method(name, **settings).server(start, federation=b"measured")
    memories: dict[str, bytes] = {}
    answered(server, memories, "a")
    server.finish_round()
    return server, answered(server, memories, "a")


def best(work: Callable[[], object], seconds: float) -> float:
    """The least seconds of one call, out of at least three and as many as `seconds` allow."""
    work()
    found, began, tries = float("inf"), time.thread_time(), 0
    while tries < 3 or time.thread_time() - began < seconds:
        start = time.thread_time()
        work()
        found = min(found, time.thread_time() - start)
        tries += 1
    return found


def folds(weights: int, seconds: float) -> list[dict[str, Any]]:
    """Replies folded in a second, of every kind, against adding a raw vector."""
    start = model(weights)
    vector = start.vector
    wide, narrow = np.zeros(vector.size), np.zeros(vector.size, np.float32)

    def floors() -> tuple[float, float]:
        def add(total: Any) -> None:
            total += vector

        return best(lambda: add(wide), seconds / 4), best(lambda: add(narrow), seconds / 4)

    rows = []
    for kind in KINDS:
        server, data = begun(kind, start)
        names = iter(range(10**9))

        def fold(server: Server = server, data: bytes = data, names: Any = names) -> None:
            client = f"client-{next(names)}"
            server._asked.add(client)  # its message would be the one that all others got
            assert server.accept(client, data)

        took = best(fold, seconds)
        raw, raw_narrow = floors()
        rows.append(
            {
                "weights": start.layout.weights,
                "reply": kind,
                "bytes": len(data),
                "bits_per_weight": round(8 * len(data) / start.layout.weights, 3),
                "milliseconds": round(1000 * took, 3),
                "replies_per_second": round(1 / took, 1),
                "raw_milliseconds": round(1000 * raw, 3),
                "times_raw": round(took / raw, 2),
                "raw_float32_milliseconds": round(1000 * raw_narrow, 3),
                "times_raw_float32": round(took / raw_narrow, 2),
            }
        )
        print(
            f"{start.layout.weights:>11,}  {kind:<18} {len(data):>12,} bytes {1000 * took:>9.2f} ms "
            f"{1 / took:>9.1f} /s {took / raw:>6.2f} x raw, {took / raw_narrow:>6.2f} x raw into float32",
            flush=True,
        )
    return rows


def memory(weights: int, many: int) -> list[dict[str, Any]]:
    """Memory that the process holds after ten replies of different clients, and after many."""
    rows = []
    for kind in KINDS:
        server, data = begun(kind, model(weights))
        held = {}
        for number in range(1, many + 1):
            server.message_for(f"client-{number}")
            server.accept(f"client-{number}", data)
            if number in (10, many):
                held[number] = _resident()
        grown = held[many] - held[10]
        rows.append({"reply": kind, "weights": weights, "replies": many, "megabytes": held[many], "grown": grown})
        print(f"memory: {kind:<18} {held[10]:.1f} MB after 10 replies, {held[many]:.1f} MB after {many:,}", flush=True)
    return rows


def encodings(weights: int, many: int) -> list[dict[str, Any]]:
    """How often a broadcast is encoded for many clients, and what the second client's message takes."""
    rows = []
    for kind in KINDS:
        name, settings = KINDS[kind]
        server: Server = fedcode.method(name, **settings).server(model(weights), federation=b"measured")
        calls: list[object] = []
        sections = type(server.method).sections

        def counted(*args: Any, sections: Any = sections, calls: list[object] = calls) -> Any:
            calls.append(args)
            return sections(*args)

        object.__setattr__(server.method, "sections", counted.__get__(server.method))
        began = time.thread_time()
        first = server.message_for("client-0")
        once = time.thread_time() - began
        began = time.thread_time()
        same = all(server.message_for(f"client-{number}") is first for number in range(1, many))
        others = (time.thread_time() - began) / (many - 1)
        rows.append(
            {
                "message": kind, "weights": weights, "clients": many, "encodings": len(calls), "same_bytes": same,
                "first_milliseconds": round(1000 * once, 3), "others_microseconds": round(1e6 * others, 2),
            }
        )  # fmt: skip
        print(
            f"encodings: {kind:<18} {len(calls)} for {many:,} clients; another takes {1e6 * others:.1f} us", flush=True
        )
    return rows


def _resident() -> float:
    """Megabytes of memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="where to write what was measured")
    parser.add_argument("--weights", type=int, nargs="+", default=list(WEIGHTS))
    parser.add_argument("--replies", type=int, default=MANY, help="for memory and encodings")
    parser.add_argument("--seconds", type=float, default=3.0, help="of tries for a figure")
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": machine(), "replies": options.replies}
    found["folds"] = [row for weights in options.weights for row in folds(weights, options.seconds)]
    found["memory"] = memory(20_000, options.replies)
    found["encodings"] = encodings(20_000, options.replies)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
