"""A file is there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedcode.errors import ArgumentError
from fedcode.files import new_file, refuse_to_replace


def fail_halfway(out: Path, error: BaseException, force: bool = False) -> None:
    with new_file(out, force=force) as file:
        file.write(b"half")
        raise error


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fail_halfway(tmp_path / "out", KeyboardInterrupt())
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"before")
    with pytest.raises(OSError, match="disk"):
        fail_halfway(out, OSError("disk full"), force=True)
    assert out.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [out]


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"before")
    with pytest.raises(ArgumentError, match="--force"), new_file(out):
        pytest.fail("the body must not run")
    with new_file(out, force=True) as file:
        file.write(b"after")
    assert out.read_bytes() == b"after"


def test_what_came_meanwhile_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    writing = new_file(out)
    writing.__enter__().write(b"ours")
    out.write_bytes(b"theirs")
    with pytest.raises(ArgumentError, match="already"):
        writing.__exit__(None, None, None)
    assert out.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [out]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.write_bytes(b"before")
    link = tmp_path / "link"
    link.symlink_to(place)
    with new_file(link, force=True) as file:
        file.write(b"after")
    assert link.is_symlink()
    assert place.read_bytes() == b"after"


def test_what_cannot_be_a_file(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="is a directory"):
        refuse_to_replace(tmp_path, force=True)
    with pytest.raises(ArgumentError, match="no directory"):
        refuse_to_replace(tmp_path / "none" / "out", force=True)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ArgumentError, match="no ordinary file"):
        refuse_to_replace(tmp_path / "pipe", force=True)
