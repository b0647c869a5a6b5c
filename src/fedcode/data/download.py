"""Official archives fetched to where the loaders look: checked, and continued where a download broke off."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from fedcode.data.archives import ARCHIVES, Archive, unpack
from fedcode.data.places import places
from fedcode.errors import ArgumentError, DataError, require
from fedcode.progress import Progress, silent

_PIECE = 1 << 20
_PATIENCE = (20, 60)  # seconds to connect, and without a byte


def get(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    force: bool = False,
    progress: Progress = silent,
) -> list[Path]:
    """Download and unpack the archives of `cifar10`, `cifar100` or `speechcommands`; where they are now.

    They go to `data_dir`, else to FEDCODE_DATA, else to the cache. A folder that is there already is left alone
    unless `force`: then the archive is checked (and fetched again where it does not match) and unpacked anew.
    """
    if name not in ARCHIVES:
        raise ArgumentError(f"there is no data set {name!r} to download; there are {', '.join(ARCHIVES)}.")
    place = places(data_dir)[0].directory
    return [fetch(archive, place, force=force, progress=progress) for archive in ARCHIVES[name]]


def fetch(archive: Archive, place: Path, *, force: bool = False, progress: Progress = silent) -> Path:
    """One archive, downloaded to `place`, checked and unpacked there; the folder that it became."""
    folder = place / archive.folder
    if folder.is_dir() and not force:
        return folder
    pooch = require("pooch", "train")
    pooch.get_logger().setLevel("WARNING")  # nothing prints from inside
    try:
        place.mkdir(parents=True, exist_ok=True)
        file = pooch.retrieve(
            archive.url,
            f"sha256:{archive.sha256}",
            fname=archive.file,
            path=place,
            downloader=_Continued(place / f".{archive.file}.part", archive, progress),
        )
    except ValueError as error:  # pooch's word for a checksum that does not match
        raise DataError(
            f"{archive.url} did not send what it should: {error}. Nothing of it was kept. Try again, "
            "and if that does not help, report it: the publisher may have changed the archive."
        ) from error
    except OSError as error:
        raise DataError(f"{archive.file} could not be kept in {place}: {error}.") from error
    progress(f"unpacking {archive.file}", 0, 1)
    unpack(Path(file), folder)
    progress(f"unpacking {archive.file}", 1, 1)
    return folder


class _Continued:
    """A downloader for pooch that goes on from the part of the file that an earlier attempt left."""

    def __init__(self, part: Path, archive: Archive, progress: Progress) -> None:
        self.part = part
        self.archive = archive
        self.progress = progress

    def __call__(self, url: str, output_file: str, _: Any) -> None:
        requests = require("requests", "train")
        held = self.part.stat().st_size if self.part.exists() else 0
        # a part may be too long for this archive: the checksum could only fail
        if held > self.archive.size:
            self.part.unlink()
            held = 0
        try:
            if held < self.archive.size:
                self._receive(requests, url, held)
        except requests.RequestException as error:
            kept = self.part.stat().st_size if self.part.exists() else 0
            raise DataError(
                f"{url} could not be downloaded: {error}. {kept:,} of {self.archive.size:,} bytes are kept; the same "
                f"command goes on from there. Or put {self.archive.file} into {self.part.parent} by other means."
            ) from error
        self.part.replace(output_file)

    def _receive(self, requests: Any, url: str, held: int) -> None:
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={held}-"} if held else {})}
        with requests.get(url, headers=headers, stream=True, timeout=_PATIENCE) as answer:
            answer.raise_for_status()
            start = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
            continued = answer.status_code == 206 and start is not None and int(start[1]) == held
            done = held if continued else 0
            stage = f"downloading {self.archive.file}"
            with self.part.open("ab" if continued else "wb") as file:
                self.progress(stage, done, self.archive.size)
                for piece in answer.iter_content(_PIECE):
                    file.write(piece)
                    done += len(piece)
                    self.progress(stage, done, self.archive.size)
