"""What clients must keep, as files: one a client and federation, bounded in size, old federations removed.

    DIRECTORY/<federation>/<client>

A file is there whole or not at all. One that is damaged or missing costs its client a whole model in the next
message and nothing else, so nothing is flushed to the disk and anything may be deleted at any time.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedcode.errors import RunError
from fedcode.files import new_file

VARIABLE = "FEDCODE_MEMORY"
MAX_BYTES = 4 << 30
KEEP_DAYS = 30


def default_directory() -> Path:
    """The directory in the environment's FEDCODE_MEMORY, else one of this user's."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/fedcode/memory"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "fedcode/memory"


@dataclass(frozen=True)
class Memories:
    """The memories in a directory. max_bytes: of all files together; the oldest are removed first.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     memories = Memories(Path(folder))
    ...     memories.write(b"training", "client-3", b"what it keeps")
    ...     memories.read(b"training", "client-3"), memories.read(b"training", "client-4")
    (b'what it keeps', None)
    """

    directory: Path
    max_bytes: int = MAX_BYTES
    keep_days: float = KEEP_DAYS
    now: Callable[[], float] = time.time

    def path(self, federation: bytes, client: str) -> Path:
        """Where a client's memory of a federation lies."""
        return self.directory / federation.hex() / re.sub(r"[^\w.-]", "_", client)

    def read(self, federation: bytes, client: str) -> bytes | None:
        """The memory, or None where there is none."""
        try:
            return self.path(federation, client).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RunError(f"the client's memory cannot be read: {error}. {_REMEDY}") from error

    def write(self, federation: bytes, client: str, memory: bytes) -> None:
        """Keep a memory in place of the old one; an empty one is none."""
        path = self.path(federation, client)
        try:
            if not memory:
                path.unlink(missing_ok=True)
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            with new_file(path, force=True, sync=False) as file:
                file.write(memory)
        except OSError as error:
            # going on without would have this client train in every second round only
            raise RunError(f"the client's memory cannot be written: {error}. {_REMEDY}") from error
        self.clean(path)

    def clean(self, keep: Path) -> None:
        """Remove what is old, and the oldest beyond the bound; `keep` stays."""
        files: list[tuple[float, int, Path]] = []
        for folder in self._folders():
            with suppress(OSError):  # another client's process may be cleaning too
                found = [(item.stat(), Path(item.path)) for item in os.scandir(folder) if item.is_file()]
                files += [(about.st_mtime, about.st_size, path) for about, path in found]
        total = sum(size for _, size, _ in files)
        # other federations first: their memories may never be asked for again
        files.sort(key=lambda file: (file[2].parent == keep.parent, file[0]))
        oldest = self.now() - self.keep_days * 86400
        for modified, size, path in files:
            if path != keep and (total > self.max_bytes or modified < oldest):
                total -= size
                with suppress(OSError):
                    path.unlink()
        for folder in self._folders():
            if folder != keep.parent:
                with suppress(OSError):
                    folder.rmdir()  # only where it is empty

    def _folders(self) -> list[Path]:
        # nothing is touched that does not look like a federation's folder
        return [path for path in self.directory.iterdir() if re.fullmatch("[0-9a-f]{16}", path.name) and path.is_dir()]


_REMEDY = f"Give codebook_mod a directory= that can be written, or set {VARIABLE}."
