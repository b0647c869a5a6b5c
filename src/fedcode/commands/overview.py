"""What `fedcode` says of itself: its help and its version."""

from __future__ import annotations

from typing import Annotated

import typer

import fedcode as package


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"fedcode {package.__version__}")
        raise typer.Exit


def fedcode(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Federated learning that sends codebooks instead of weights.

    \b
    Examples:
      fedcode run fedavg fedcode delta
      fedcode report runs/study
      fedcode pack model.safetensors model.fedcode -k 64
      fedcode inspect model.fedcode
      fedcode size --params 275572 --clusters 64 --downlink 0.2 --uplink 0.5 --start 2 --rounds 100
      fedcode doctor

    Every command explains itself: fedcode size --help. Results go to stdout and can be had as JSON (--json).

    Exit codes: 0 done, 2 wrong use, 3 a file that cannot be used, 4 something is not installed,
    5 it could not be carried through, 130 interrupted.
    """
