"""`fedcode inspect`: what is in a packed file, and how far it is from the original."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcode.commands import console
from fedcode.errors import DataError, MessageError

if TYPE_CHECKING:
    from fedcode.model_file import ModelFile, Report


def inspect(
    packed: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `fedcode pack` made.")],
    against: Annotated[
        Path | None, typer.Option(help="Measure the error against this checkpoint, not as it was when packed.")
    ] = None,
    quiet: console.Quiet = False,
    as_json: console.Json = False,
) -> None:
    """Say what a packed file holds: its sections and sizes, bits a weight, the error.

    \b
    Examples:
      fedcode inspect model.fedcode
      fedcode inspect model.fedcode --json
      fedcode inspect model.fedcode --against model.safetensors

    The error in dB is the weights' energy over that of their error, so that more is better. It was measured when
    the file was packed and is stored there.
    """
    from fedcode import checkpoint, safetensors_file
    from fedcode.model_file import decibels, report

    file = opened(packed)
    found, original = report(file), None
    if against is not None:
        source = safetensors_file.read(against)
        with console.progress(quiet) as progress:
            error = checkpoint.error_against(file, source, progress)
        found, original = dataclasses.replace(found, error_db=decibels(error)), source.size
    show(str(packed), found, original, as_json)


def opened(path: Path) -> ModelFile:
    """The packed file at a place."""
    from fedcode.model_file import ModelFile

    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    try:
        return ModelFile.from_bytes(path.read_bytes())
    except MessageError as error:
        raise MessageError(f"{path} cannot be read: {error}") from error


def show(title: str, report: Report, original: int | None, as_json: bool) -> None:
    """Print a report, with the size of the original where it is known."""
    if as_json:
        found: dict[str, Any] = dataclasses.asdict(report)
        console.document(found if original is None else found | {"original": original})
        return
    rows = [("weights", f"{report.weights:,}"), ("centres", f"{report.centers:,}")]
    rows += [("statistics", f"{report.statistics:,}"), ("counters", f"{report.counters:,}")]
    rows += [("tensors", f"{report.entries:,}"), ("size", console.size(report.size))]
    if original is not None:
        rows.append(("original", f"{console.size(original)}, {original / report.size:.1f} times as much"))
    if report.bits_per_weight is not None and report.label_bits is not None:
        rows.append(("bits a weight", f"{report.bits_per_weight:.3f}, the labels {report.label_bits:.3f}"))
        rows.append(("error", "none" if report.error_db is None else f"{report.error_db:.2f} dB below the weights"))
    console.table(title, ("", ""), rows, numbers=False)
    parts = [*report.sections.items(), ("header and checksum", report.header)]
    console.table(
        "Sections", ("", "bytes", "share"), [(name, f"{size:,}", f"{size / report.size:.1%}") for name, size in parts]
    )
