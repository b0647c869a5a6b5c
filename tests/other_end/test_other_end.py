"""The other end, which knows docs/wire-format.md alone, reads every golden file as fedcode does."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedcode
from fedcode.ends import Reply, Sums
from fedcode.errors import FedcodeError
from tests import test_golden
from tests.golden.make import HERE, expected_labels
from tests.other_end import methods, model, numbers

PAGE = Path(__file__).parents[2] / "docs" / "wire-format.md"
SOURCES = ("numbers.py", "model.py", "methods.py")


def files(*what: str) -> list[Any]:
    found = []
    for file in sorted(HERE.glob("*.json")):
        said = json.loads(file.read_text())
        if said["what"] in what:
            found.append(pytest.param(file.with_suffix(".bin").read_bytes(), said, id=file.stem))
    assert found, what
    return found


def golden(name: str | None) -> bytes | None:
    return None if name is None else (HERE / f"{name}.bin").read_bytes()


def sha(*rows: tuple[str, list[Any]]) -> str:
    """SHA-256 of numbers in these forms, one row after the other."""
    return hashlib.sha256(b"".join(struct.pack(f"<{len(row)}{form}", *row) for form, row in rows)).hexdigest()


def test_it_uses_nothing_of_fedcode() -> None:
    for source in SOURCES:
        imported = re.findall(r"^ *(?:from|import) (\w+)", (Path(__file__).parent / source).read_text(), re.M)
        assert "fedcode" not in imported
        assert "numpy" not in imported


@pytest.mark.parametrize(("data", "said"), files("labels", "label blocks"))
def test_labels(data: bytes, said: dict[str, Any]) -> None:
    count, k = said["count"], said["k"]
    if said["what"] == "label blocks":
        found = numbers.label_blocks(data, count, k)
    else:
        found = numbers.labels(data, count, k, expected_labels(count, k).tolist() if said["context"] else None)
    assert sha(("B" if k <= 256 else "H", found)) == said["sha256"]


@pytest.mark.parametrize(("data", "said"), files("positions"))
def test_positions(data: bytes, said: dict[str, Any]) -> None:
    assert sha(("q", numbers.positions(data, said["count"], said["size"]))) == said["sha256"]


@pytest.mark.parametrize(("data", "said"), files("integers"))
def test_integers(data: bytes, said: dict[str, Any]) -> None:
    assert sha(("i", numbers.integers(data, said["count"]))) == said["sha256"]


@pytest.mark.parametrize(("data", "said"), files("counters", "centers", "joined", "arrays"))
def test_the_other_numbers(data: bytes, said: dict[str, Any]) -> None:
    if said["what"] == "counters":
        assert sha(("q", numbers.counters(data, said["count"]))) == said["sha256"]
    elif said["what"] == "centers":
        assert sha(("f", numbers.floats(data))) == said["sha256"]
    elif said["what"] == "joined":
        assert [part.decode() for part in numbers.joined(data)] == said["parts"]
    else:
        found = {name: (shape, values) for name, (_, shape, values) in numbers.arrays(data).items()}
        wanted = {name: (shape, np.ravel(values).tolist()) for name, (_, shape, values) in said["arrays"].items()}
        assert found == wanted


@pytest.mark.parametrize(("data", "said"), files("tensors"))
def test_small_tensors(data: bytes, said: dict[str, Any]) -> None:
    tensors = [(size, variance) for size, variance in said["tensors"]]
    assert sha(("f", numbers.small_tensors(data, tensors, said["bits"], said["held"]))) == said["sha256"]


@pytest.mark.parametrize(("data", "said"), files("layout"))
def test_layouts(data: bytes, said: dict[str, Any]) -> None:
    found = model.layout(data)
    assert found.fingerprint.hex() == said["fingerprint"]
    kinds = ["weight", "statistic", "variance", "counter"]
    for entry, (name, shape, dtype, kind, tied) in zip(found.entries, said["entries"], strict=True):
        twin = found.entries[entry.tied - 1].name if entry.tied else None
        assert [entry.name, entry.shape, entry.dtype, kinds[entry.kind], twin] == [name, shape, dtype, kind, tied]
    places, at = {}, 0
    for entry in found.stored(0, 1, 2):
        places[entry.name], at = [at, at + entry.size], at + entry.size
    assert places.items() <= said["places"].items()


@pytest.mark.parametrize(("data", "said"), files("model", "memory", "message", "down", "up", "server"))
def test_headers(data: bytes, said: dict[str, Any]) -> None:
    found = model.message(data)
    ids = {name: getattr(found, name).hex() for name in ("federation", "layout", "base", "gives")}
    numbers = {name: getattr(found, name) for name in ("kind", "method", "round", "accepted", "seed", "examples")}
    sections = {str(tag): len(body) for tag, body in found.sections.items()}
    assert {**ids, **numbers, "asks": found.asks, "sections": sections} == said["header"]


@pytest.mark.parametrize(("data", "said"), files("model"))
def test_files(data: bytes, said: dict[str, Any]) -> None:
    layout, vector, counters = model.model_file(data)
    assert sha(("f", model.rounded(layout, vector)), ("q", counters)) == said["sha256"]


@pytest.mark.parametrize(("data", "said"), files("memory"))
def test_memories(data: bytes, said: dict[str, Any]) -> None:
    _, bases, kept = model.memory(data)
    assert {d.hex(): sha(("f", base.vector), ("q", base.counters)) for d, base in bases.items()} == said["bases"]
    assert {name: sha((form, values)) for name, (form, _, values) in kept.items()} == said["kept"]


@pytest.mark.parametrize(("data", "said"), files("down"))
def test_what_a_client_is_sent(data: bytes, said: dict[str, Any]) -> None:
    start = methods.start(data, golden(said["memory"]))
    assert sha(("f", start.vector), ("q", start.counters)) == said["sha256"]


@pytest.mark.parametrize(("data", "said"), files("up"))
def test_what_a_client_replies(data: bytes, said: dict[str, Any]) -> None:
    """The sum that fedcode folds the reply into is what the other end reads from it."""
    down = golden(said["down"]) or b""
    task = fedcode.receive(down, golden(said["memory"]))
    server = test_golden.server_of(said)
    reply = fedcode.wire.Message.from_bytes(data)
    given = task.received.base
    base = given if given is not None and given.digest == reply.base else server.bases.get(reply.base)
    broadcast = server.method.broadcast(server._turn)
    broadcast = replace(broadcast, base=base or broadcast.base, asks=task.incoming.asks)
    sums = Sums(task.start.layout)
    server.method.fold(sums, Reply(reply, base, broadcast, server._turn, "client-0"))
    ours = sums.codebooks[0] if sums.codebooks else sums.vector() / reply.examples
    layout, theirs = model.layout(task.start.layout.to_bytes()), None
    if base is not None:
        rows = (base.centers, base.labels, base.rest, base.counters)
        theirs = model.Base(layout, *(row.tolist() for row in rows))
        assert theirs.digest == base.digest
    np.testing.assert_allclose(methods.told(data, layout, theirs, down), ours, rtol=1e-6, atol=1e-12)


def test_the_example_of_the_page() -> None:
    (block,) = re.findall(r"^```\n((?:[0-9a-f]{2}[ \n])+)```$", PAGE.read_text(), re.M)
    found = model.message(bytes.fromhex(block))
    assert (found.kind, found.method, found.round, found.federation) == (1, "fedcode", 3, b"training")
    assert found.asks == {"full": 1, "own": 0.5}
    assert fedcode.wire.Message.from_bytes(bytes.fromhex(block)).asks == found.asks


def test_the_page_names_every_number_of_the_format() -> None:
    page = PAGE.read_text()
    for number, name in enumerate(fedcode.wire.ASKS[1:], 1):
        assert f"| {number} | {name} |" in page
    for section in fedcode.wire.Section:
        assert f"| {int(section)} | {section.name.lower()} |" in page
    for kind in fedcode.wire.MessageKind:
        assert re.search(rf"^\| {int(kind)} {kind.name.lower().replace('_', ' ')} \|", page, re.M)
    assert list(fedcode.wire.ASKS[1:]) == list(model.ASKS)


def test_it_sees_damage() -> None:
    data = bytearray(golden("fedcode-down-1") or b"")
    data[200] ^= 1
    with pytest.raises(AssertionError, match="checksum"):
        model.message(bytes(data))
    with pytest.raises(FedcodeError):
        fedcode.receive(bytes(data))
