"""Bytes that earlier releases wrote still decode to the same numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedcode
from fedcode import methods, wire
from fedcode.arrays import decode_arrays
from fedcode.client import Memory
from fedcode.coding import decode_floats, decode_integers, decode_labels, decode_positions
from fedcode.eightbit import decode_tensors
from fedcode.errors import ArgumentError
from fedcode.joined import split
from fedcode.label_blocks import decode_blocks
from fedcode.layout import Entry, Kind, Layout
from fedcode.sections import decode_centers, decode_counters
from fedcode.server import Server
from fedcode.state import State, flatten
from fedcode.wire import Message, Section
from tests.golden.make import HERE, expected_labels, header, memory_about, sha, shown_layout

FILES = sorted(HERE.glob("*.bin"))


def about(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text())
    return found


def data(name: str | None) -> bytes | None:
    return None if name is None else (HERE / f"{name}.bin").read_bytes()


def decoded(name: str, said: dict[str, Any]) -> dict[str, Any]:
    """What a golden file holds, under the keys by which its description says it."""
    raw = (HERE / f"{name}.bin").read_bytes()
    what = said["what"]
    if what == "labels":
        context = expected_labels(said["count"], said["k"]) if said["context"] else None
        return {
            "way": raw[0] if raw else None,
            "sha256": sha(decode_labels(raw, said["count"], said["k"], context=context)),
        }
    if what == "label blocks":
        return {"sha256": sha(*decode_blocks(raw, said["count"], said["k"]))}
    if what == "positions":
        return {"way": raw[0], "sha256": sha(decode_positions(raw, said["count"], said["size"]))}
    if what == "integers":
        return {"sha256": sha(decode_integers(raw, said["count"]))}
    if what == "floats":
        return {"sha256": sha(decode_floats(raw, said["count"], said["half"]))}
    if what == "counters":
        return {"sha256": sha(decode_counters(raw, said["count"]))}
    if what == "centers":
        return {"sha256": sha(decode_centers(raw))}
    if what == "joined":
        return {"parts": [bytes(part).decode() for part in split(raw)]}
    if what == "arrays":
        arrays = decode_arrays(raw)
        return {"arrays": {n: [a.dtype.name, list(a.shape), a.tolist()] for n, a in arrays.items()}}
    if what == "tensors":
        return {"sha256": sha(decode_tensors(raw, *_tensors(said)))}
    if what == "layout":
        return shown_layout(Layout.from_bytes(raw))
    return _message(what, raw, said)


def _tensors(said: dict[str, Any]) -> tuple[list[tuple[Entry, slice]], int, Any]:
    places, at = [], 0
    for size, variance in said["tensors"]:
        kind = Kind.VARIANCE if variance else Kind.WEIGHT
        places.append((Entry(str(at), (size,), "float32", kind), slice(at, at + size)))
        at += size
    held = None if said["held"] is None else np.array(said["held"], np.float32)
    return places, said["bits"], held


def _message(what: str, raw: bytes, said: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"header": header(raw)}
    if what == "model":
        state = flatten(fedcode.decode(raw))
        return found | {"sha256": sha(state.vector, state.counters)}
    if what == "memory":
        return found | memory_about(raw, Memory.from_bytes(raw))
    if what == "down":
        start = fedcode.receive(raw, data(said["memory"])).start
        return found | {"sha256": sha(start.vector, start.counters)}
    if what == "server":
        server = restored(raw, said)
        bases = sorted(base.hex() for base in server.bases)
        model = sha(server.model.vector, server.model.counters)
        return found | {"sha256": model, "bases": bases, "clients": sorted(server.clients)}
    assert what in ("up", "message"), what  # what a reply says: tests/other_end compares it with what is folded
    return found


def restored(raw: bytes, said: dict[str, Any]) -> Server:
    server: Server = fedcode.method(said["header"]["method"], **said["settings"]).restore(raw)
    return server


def first_state() -> State:
    """The model that all began with."""
    first = Memory.from_bytes((HERE / "memory-known.bin").read_bytes()).newest
    assert first is not None
    return first.state


def server_of(said: dict[str, Any]) -> Server:
    """The server that a golden reply is for."""
    if said["server"] is not None:
        return restored((HERE / f"{said['server']}.bin").read_bytes(), about(said["server"]))
    server: Server = fedcode.method(said["header"]["method"], **said["settings"]).server(first_state(), seed=5)
    return server


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_decodes_to_the_same(file: Path) -> None:
    said = about(file.stem)
    for key, found in decoded(file.stem, said).items():
        assert found == said[key], key


def test_each_file_is_described() -> None:
    assert len(FILES) > 100
    assert [file.stem for file in FILES] == [file.stem for file in sorted(HERE.glob("*.json"))]


def test_every_form_of_the_format_has_a_file() -> None:
    messages = [about(file.stem) for file in FILES if "header" in about(file.stem)]
    assert {said["header"]["kind"] for said in messages} == set(wire.MessageKind) - {wire.MessageKind.BASE}
    spoken = {said["header"]["method"] for said in messages}
    ours = {name for name in methods.names() if methods.class_of(name).__module__.startswith("fedcode.")}
    assert spoken == ours | {""}
    ways = {(said["what"], said["way"]) for said in map(about, (file.stem for file in FILES)) if "way" in said}
    split, ranked = 16, 32
    forms = [0, split, ranked, split | ranked]
    assert ways >= {
        ("labels", None),
        ("labels", 1),
        ("labels", 4),
        *(("labels", way | form) for way in (2, 3) for form in forms),
    }
    assert ways >= {("positions", way) for way in (1, 2, 3, 4)}


def test_a_setting_that_a_checkpoint_is_too_old_to_know_has_its_default() -> None:
    said = about("delta-server-2")
    message = Message.from_bytes((HERE / "delta-server-2.bin").read_bytes())
    standing = json.loads(bytes(message.section(Section.FLAGS)))
    del standing["settings"]["labels"]
    older = replace(message, sections={**message.sections, Section.FLAGS: json.dumps(standing).encode()}).to_bytes()
    assert sorted(base.hex() for base in restored(older, said).bases) == said["bases"]
    with pytest.raises(ArgumentError, match="Go on with the same settings"):
        fedcode.method("delta", **{**said["settings"], "labels": "packed"}).restore(older)
