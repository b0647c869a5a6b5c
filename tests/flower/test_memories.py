"""Clients' memories as files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedcode.errors import RunError
from fedcode.flower.memories import Memories, default_directory

ONE, TWO = b"training", b"\0another"


def test_each_client_of_each_federation_has_its_own(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    memories.write(ONE, "client-1", b"a")
    memories.write(ONE, "client-2", b"b")
    memories.write(TWO, "client-1", b"c")
    found = [memories.read(federation, f"client-{n}") for federation in (ONE, TWO) for n in (1, 2)]
    assert found == [b"a", b"b", b"c", None]


def test_a_new_memory_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    memories.write(ONE, "client-1", b"old and longer")
    memories.write(ONE, "client-1", b"new")
    assert memories.read(ONE, "client-1") == b"new"
    assert [path.name for path in memories.path(ONE, "client-1").parent.iterdir()] == ["client-1"]


def test_an_empty_one_is_none(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    memories.write(ONE, "client-1", b"something")
    memories.write(ONE, "client-1", b"")
    assert memories.read(ONE, "client-1") is None


@pytest.mark.parametrize("name", ["../../other", "a/b", "\0", "client 7", ""])
def test_no_name_leads_out_of_the_directory(name: str, tmp_path: Path) -> None:
    path = Memories(tmp_path).path(ONE, name)
    assert path.parent == tmp_path / ONE.hex() or name == ""
    assert tmp_path in path.resolve().parents


def test_the_old_and_other_federations_go_first_where_room_is_short(tmp_path: Path) -> None:
    memories = Memories(tmp_path, max_bytes=25, now=lambda: 2000.0)
    for age, (federation, name) in enumerate([(ONE, "client-1"), (ONE, "client-2"), (TWO, "client-1")]):
        memories.write(federation, name, bytes(8))
        os.utime(memories.path(federation, name), (1000 + age, 1000 + age))
    memories.write(ONE, "client-3", bytes(8))
    assert [memories.read(ONE, f"client-{n}") for n in (1, 2, 3)] == [bytes(8)] * 3
    assert memories.read(TWO, "client-1") is None
    assert not (tmp_path / TWO.hex()).exists()
    memories.write(ONE, "client-4", bytes(8))
    assert [memories.read(ONE, f"client-{n}") is None for n in (1, 2, 3, 4)] == [True, False, False, False]


def test_the_one_just_written_stays_whatever_its_size(tmp_path: Path) -> None:
    memories = Memories(tmp_path, max_bytes=3)
    memories.write(ONE, "client-1", bytes(10))
    assert memories.read(ONE, "client-1") == bytes(10)


def test_what_nobody_has_used_for_a_month_goes(tmp_path: Path) -> None:
    day = 86400.0
    Memories(tmp_path).write(TWO, "client-1", b"old")
    os.utime(tmp_path / TWO.hex() / "client-1", (0, 0))
    Memories(tmp_path, keep_days=30, now=lambda: 29 * day).write(ONE, "client-1", b"new")
    assert Memories(tmp_path).read(TWO, "client-1") == b"old"
    Memories(tmp_path, keep_days=30, now=lambda: 31 * day).write(ONE, "client-1", b"new")
    assert Memories(tmp_path).read(TWO, "client-1") is None


def test_what_is_no_federation_s_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "photographs").mkdir()
    (tmp_path / "photographs/one").write_bytes(bytes(100))
    (tmp_path / "letter").write_bytes(bytes(100))
    os.utime(tmp_path / "photographs/one", (0, 0))
    Memories(tmp_path, max_bytes=1).write(ONE, "client-1", bytes(10))
    assert (tmp_path / "photographs/one").exists()
    assert (tmp_path / "letter").exists()


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"a file")
    with pytest.raises(RunError, match="FEDCODE_MEMORY"):
        Memories(tmp_path / "taken").write(ONE, "client-1", b"x")
    with pytest.raises(RunError, match="FEDCODE_MEMORY"):
        Memories(tmp_path / "taken").read(ONE, "client-1")


def test_where_they_lie_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDCODE_MEMORY", str(tmp_path))
    assert default_directory() == tmp_path
    monkeypatch.delenv("FEDCODE_MEMORY")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    monkeypatch.setattr("sys.platform", "linux")
    assert default_directory() == Path("/state/fedcode/memory")
    monkeypatch.setattr("sys.platform", "darwin")
    assert default_directory().parts[-3:] == ("Application Support", "fedcode", "memory")
