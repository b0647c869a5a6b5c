"""`fedcode data`: which data sets there are, which of them are here, and how the others come."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedcode.commands import console

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where data sets are; otherwise FEDCODE_DATA, then the user's cache."),
]

data = typer.Typer(
    help="""List the data sets, or download one.

    \b
    Examples:
      fedcode data list
      fedcode data get cifar10
      fedcode data get speechcommands --data-dir /data
    """
)


@data.command("list", no_args_is_help=False)
def show(data_dir: DataDir = None, as_json: console.Json = False) -> None:
    """Say which data sets there are, where each was found, and how large a download is.

    \b
    Example:
      fedcode data list --json
    """
    found = shelf(data_dir)
    if as_json:
        console.document(found)
        return
    console.table(
        "Data sets",
        ("name", "what", "download", "where"),
        [
            (
                name,
                one["what"],
                console.size(one["download"]) if one["download"] else "none needed",
                ", ".join(one["here"]) if one["complete"] else f"not here: fedcode data get {name}",
            )
            for name, one in found.items()
        ],
        numbers=False,
    )


@data.command("get")
def get(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="cifar10, cifar100 or speechcommands.")],
    data_dir: DataDir = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Check the archive that is here, and unpack it anew.")
    ] = False,
    quiet: console.Quiet = False,
) -> None:
    """Download data sets from their publishers: checked, unpacked, and continued where a download broke off.

    \b
    Examples:
      fedcode data get cifar10
      fedcode data get cifar100 speechcommands --data-dir /data
    """
    from fedcode.data import download

    for name in names:
        with console.progress(quiet) as progress:
            folders = download.get(name, data_dir, force=force, progress=progress)
        for folder in folders:
            print(folder)


def shelf(data_dir: Path | None = None) -> dict[str, dict[str, Any]]:
    """Every data set by name: what it is, the bytes of its download, and what of it is where.

    >>> shelf()["digits"]["complete"]
    True
    """
    from fedcode.data.archives import ARCHIVES
    from fedcode.data.cifar import CIFAR10, CIFAR100
    from fedcode.data.places import find
    from fedcode.data.speechcommands import TEST, TRAIN

    wanted = {
        "cifar10": ("60,000 photographs, 10 classes", [(CIFAR10.folder, CIFAR10.archive)]),
        "cifar100": ("60,000 photographs, 100 classes", [(CIFAR100.folder, CIFAR100.archive)]),
        "speechcommands": ("one-second words, 12 classes", [TRAIN, TEST]),
    }
    found: dict[str, dict[str, Any]] = {
        "digits": {
            "what": "1,797 digits of 8 x 8 pixels",
            "download": 0,
            "here": ["comes with scikit-learn"],
            "complete": True,
        }
    }
    for name, (what, parts) in wanted.items():
        here = [find(part, data_dir) for part in parts]
        found[name] = {
            "what": what,
            "download": sum(archive.size for archive in ARCHIVES[name]),
            "here": [str(place) for place in here if place is not None],
            "complete": None not in here,
        }
    return found
