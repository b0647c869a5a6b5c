"""Where data sets are looked for, and what is said when one is not there.

A directory that the caller names (`--data-dir`) is the only place then: silently taking another copy would be
worse than an error. Otherwise the directory in the environment's FEDCODE_DATA, then the cache of this user.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedcode.errors import DataError

VARIABLE = "FEDCODE_DATA"


@dataclass(frozen=True)
class Place:
    """A directory, and who said that data may be there."""

    directory: Path
    said_by: str

    def __str__(self) -> str:
        return f"{self.directory} ({self.said_by})"


def cache() -> Path:
    """The directory of this user in which downloads are kept."""
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/fedcode"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedcode"


def places(data_dir: str | os.PathLike[str] | None = None) -> list[Place]:
    """Where to look, in order; the first is where a download goes.

    >>> [str(place) for place in places("data")]
    ['data (--data-dir)']
    """
    if data_dir is not None:
        return [Place(Path(data_dir).expanduser(), "--data-dir")]
    named = os.environ.get(VARIABLE)
    return [
        *([Place(Path(named).expanduser(), f"environment {VARIABLE}")] if named else []),
        Place(cache(), "the cache"),
    ]


def find(names: Sequence[str], data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """The first of `names` that is in one of the places, or that such a place itself is.

    >>> find(["nothing-of-this-name"], "data") is None
    True
    """
    for place in places(data_dir):
        for name in names:
            if (place.directory / name).exists():
                return place.directory / name
            if place.directory.name == name and place.directory.exists():
                return place.directory
    return None


def missing(what: str, names: Sequence[str], name: str, data_dir: str | os.PathLike[str] | None = None) -> DataError:
    """The error for a data set that is in none of the places; `name` is what `fedcode data get` calls it."""
    looked = " and ".join(str(place) for place in places(data_dir))
    return DataError(
        f"{what} is not here: looked for {' or '.join(names)} in {looked}. Run: fedcode data get {name}. "
        f"Or name the directory that holds it with --data-dir or {VARIABLE}."
    )


def remedy(name: str) -> str:
    """How to make a damaged data set whole.

    >>> remedy("cifar10")
    'Run: fedcode data get cifar10 --force'
    """
    return f"Run: fedcode data get {name} --force"
