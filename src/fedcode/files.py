"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fedcode.errors import ArgumentError


@contextmanager
def new_file(path: Path, *, force: bool = False, sync: bool = True) -> Iterator[BinaryIO]:
    """Write a file beside its place and move it there when it is complete.

    Whatever fails in between leaves neither half a file nor a changed one. A file that is there already is
    only replaced with `force`. Without `sync` a power failure may lose it, a crash of the program may not.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with new_file(Path(folder) / "note") as file:
    ...         _ = file.write(b"all of it")
    ...     (Path(folder) / "note").read_bytes()
    b'all of it'
    """
    refuse_to_replace(path, force)
    place = path.resolve()  # what a link points to is replaced, not the link
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        with beside.open("x+b") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        refuse_to_replace(path, force)  # it may have come meanwhile
        beside.replace(place)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def refuse_to_replace(path: Path, force: bool) -> None:
    """ArgumentError where writing `path` would lose something or cannot work."""
    if path.is_dir():
        raise ArgumentError(f"{path} is a directory; a file's name is expected.")
    if path.exists() and not path.is_file():
        raise ArgumentError(f"{path} is no ordinary file and cannot be replaced by one.")
    if path.exists() and not force:
        raise ArgumentError(f"{path} is there already. Add --force to replace it.")
    if not path.resolve().parent.is_dir():
        raise ArgumentError(f"there is no directory {path.parent} to write {path.name} to.")
