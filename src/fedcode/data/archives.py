"""The official archives, and how one is unpacked without trusting it."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fedcode.errors import DataError

LARGEST = 8 << 30  # bytes unpacked: twice the largest archive


@dataclass(frozen=True)
class Archive:
    """An archive at its publisher's: `folder` is what it is unpacked to, `size` its bytes."""

    url: str
    sha256: str
    size: int
    folder: str

    @property
    def file(self) -> str:
        """The name it is kept under."""
        return PurePosixPath(self.url).name


_SPEECH = "https://storage.googleapis.com/download.tensorflow.org/data"

# Checksums as TensorFlow Datasets publishes them.
ARCHIVES = {
    "cifar10": (
        Archive(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            170_052_171,
            "cifar-10-batches-bin",
        ),
    ),
    "cifar100": (
        Archive(
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            168_513_733,
            "cifar-100-binary",
        ),
    ),
    "speechcommands": (
        Archive(
            f"{_SPEECH}/speech_commands_v0.02.tar.gz",
            "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
            2_428_923_189,
            "speech_commands_v0.02",
        ),
        Archive(
            f"{_SPEECH}/speech_commands_test_set_v0.02.tar.gz",
            "cc2a00c1147c2254e9be3fa0f779d8c17421dc349b86366567a8edfa9acd51df",
            112_563_277,
            "speech_commands_test_set_v0.02",
        ),
    ),
}


@contextmanager
def members(archive: Path) -> Iterator[tuple[tarfile.TarFile, Iterator[tuple[PurePosixPath, tarfile.TarInfo]]]]:
    """A .tar.gz and its ordinary files with their names; read to its end, where gzip's checksum is.

    What cannot be read becomes a DataError.
    """
    try:
        with gzip.open(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
            yield tar, ((PurePosixPath(member.name), member) for member in tar if member.isfile())
            while stream.read(1 << 20):
                pass
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{archive} cannot be read or unpacked: {error}.") from error


def unpack(archive: Path, folder: Path) -> None:
    """Unpack into `folder`, which is replaced at the end, whole or not at all.

    Only ordinary files are written, links and devices are passed over; a name that leads out of the folder, or
    more than 8 GiB, is refused. What the archive keeps under the folder's own name lands in the folder itself.
    """
    beside, old = (folder.with_name(f".{folder.name}.{os.getpid()}.{state}") for state in ("new", "old"))
    beside.mkdir()
    try:
        _write(archive, folder.name, beside)
        if folder.exists():
            folder.replace(old)
        beside.replace(folder)
    finally:
        for rest in (beside, old):
            shutil.rmtree(rest, ignore_errors=True)


def _write(archive: Path, top: str, folder: Path) -> None:
    left = LARGEST
    with members(archive) as (tar, files):
        for name, member in files:
            left -= member.size
            parts = name.parts[1:] if name.parts[:1] == (top,) else name.parts
            if not parts or name.is_absolute() or ".." in parts or {"\\", "\0"} & set(member.name) or left < 0:
                raise DataError(f"{archive} is refused: {member.name!r} does not belong into a data set.")
            path = folder.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(member)
            assert content is not None  # an ordinary file has content
            with path.open("xb") as file:
                shutil.copyfileobj(content, file)
