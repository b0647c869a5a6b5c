"""What clients remember, one file each: ten thousand of them never stand in memory at once.

A memory is written under a new name and the old one stays until a checkpoint names the new one, so that a killed
run finds the very memories that belong to its checkpoint.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

from fedcode.errors import RunError


class Memories:
    """Clients' memories as files in a directory; one of its own, gone with this object, unless given.

    >>> memories = Memories()
    >>> memories.put("client-3", b"what it keeps", 1)
    >>> memories.get("client-3"), memories.get("client-4"), memories.commit()
    (b'what it keeps', b'', {'client-3': 1})
    """

    def __init__(self, folder: Path | None = None, manifest: dict[str, int] | None = None) -> None:
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="fedcode-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.folder = folder
        self._current: dict[str, int] = dict(manifest or {})
        self._stale: set[Path] = set()
        self._committed = dict(self._current)
        self._clear()

    def get(self, client: str) -> bytes:
        """What this client remembers; empty where it has nothing."""
        round = self._current.get(client)
        if round is None:
            return b""
        try:
            return self._path(client, round).read_bytes()
        except OSError as error:
            raise RunError(
                f"{self._path(client, round)} cannot be read ({error.strerror}), and the run cannot go on as it was "
                "without it. It has to be made anew."
            ) from error

    def put(self, client: str, memory: bytes, round: int) -> None:
        """What it remembers from this round on."""
        before = self._current.get(client)
        if memory:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(self._path(client, round), memory)
            self._current[client] = round
        else:
            self._current.pop(client, None)
        if before is not None and before != self._current.get(client):
            path = self._path(client, before)
            if self._committed.get(client) == before:
                self._stale.add(path)  # the last checkpoint still names it
            else:
                path.unlink(missing_ok=True)

    def manifest(self) -> dict[str, int]:
        """Of which round each client's memory is, for a checkpoint."""
        return dict(self._current)

    def commit(self) -> dict[str, int]:
        """Forget what only the checkpoint before named; call it when the new one is written."""
        for path in self._stale:
            path.unlink(missing_ok=True)
        self._stale.clear()
        self._committed = dict(self._current)
        return self.manifest()

    def _write(self, path: Path, memory: bytes) -> None:
        try:
            path.write_bytes(memory)
        except OSError as error:
            raise RunError(
                f"{path} cannot be written ({error.strerror}). The last checkpoint is whole: the run can go on from "
                "it once there is room and permission."
            ) from error

    def _path(self, client: str, round: int) -> Path:
        return self.folder / f"{client}.{round}"

    def _clear(self) -> None:
        """Remove what a killed process wrote beyond its checkpoint."""
        if self.folder.is_dir():
            named = {f"{client}.{round}" for client, round in self._current.items()}
            for path in self.folder.iterdir():
                if path.name not in named:
                    path.unlink(missing_ok=True)
