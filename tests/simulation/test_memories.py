"""Memories as files: what a checkpoint names stays until the next one is written."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from fedcode.errors import RunError
from fedcode.simulation.memories import Memories


def test_a_client_without_a_memory_has_an_empty_one(tmp_path: Path) -> None:
    assert Memories(tmp_path).get("client-0") == b""


def test_a_memory_of_the_last_checkpoint_stays_until_the_next(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    memories.put("client-0", b"one", 1)
    manifest = memories.commit()
    memories.put("client-0", b"two", 2)
    memories.put("client-0", b"three", 3)
    assert memories.get("client-0") == b"three"
    assert {path.name for path in tmp_path.iterdir()} == {"client-0.1", "client-0.3"}  # no checkpoint named the second
    killed = Memories(tmp_path, manifest)  # what a process finds that goes on from the checkpoint
    assert killed.get("client-0") == b"one"
    assert [path.name for path in tmp_path.iterdir()] == ["client-0.1"]


def test_a_new_checkpoint_lets_go_of_the_old_memory(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    for round in (1, 2):
        memories.put("client-0", b"%d" % round, round)
        memories.commit()
    assert [path.name for path in tmp_path.iterdir()] == ["client-0.2"]
    assert memories.manifest() == {"client-0": 2}


def test_a_client_may_forget(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    memories.put("client-0", b"one", 1)
    memories.commit()
    memories.put("client-0", b"", 2)
    assert memories.get("client-0") == b""
    assert memories.commit() == {}
    assert list(tmp_path.iterdir()) == []


def test_a_memory_written_twice_in_a_round(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    memories.put("client-0", b"one", 1)
    memories.put("client-0", b"two", 1)
    assert memories.get("client-0") == b"two"


def test_a_folder_of_its_own_goes_with_it() -> None:
    memories = Memories()
    memories.put("client-0", b"one", 1)
    folder = memories.folder
    assert folder.exists()
    del memories
    gc.collect()
    assert not folder.exists()


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "client-0.1").mkdir()
    with pytest.raises(RunError, match="The last checkpoint is whole"):
        Memories(tmp_path / ".." / tmp_path.name, {"client-0": 1}).put("client-0", b"one", 1)
