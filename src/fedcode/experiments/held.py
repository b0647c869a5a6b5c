"""A folder that one process at a time writes to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Wait until no other process holds the folder, and hold it; the lock ends with the process at the latest.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, held(Path(folder) / "results"):
    ...     (Path(folder) / "results").is_dir()
    True
    """
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)
