"""`fedcode pack` and `fedcode unpack`: a safetensors checkpoint to a small file and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcode.commands import console
from fedcode.errors import ArgumentError
from fedcode.files import new_file, refuse_to_replace


def pack(
    model: Annotated[Path, typer.Argument(help="A .safetensors file, the index of a sharded one, or its directory.")],
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    clusters: Annotated[int | None, typer.Option("--clusters", "-k", help=r"How many centres. \[default: 64]")] = None,
    bits: Annotated[float | None, typer.Option(help="Bits a weight, instead of a count of centres.")] = None,
    force: console.Force = False,
    quiet: console.Quiet = False,
    as_json: console.Json = False,
) -> None:
    """Pack a checkpoint: its weights as one codebook and labels, everything else exact.

    \b
    Examples:
      fedcode pack model.safetensors model.fedcode
      fedcode pack model.safetensors model.fedcode -k 16
      fedcode pack model.safetensors.index.json model.fedcode --bits 2.5

    The checkpoint is read piece by piece and is never whole in memory.
    """
    from fedcode import checkpoint, safetensors_file
    from fedcode.commands.inspect import show
    from fedcode.model_file import inspect

    if clusters is not None and bits is not None:
        raise ArgumentError(f"give either -k or --bits, not both: got -k {clusters} and --bits {bits}.")
    refuse_to_replace(out, force)  # before the work, not after it
    source = safetensors_file.read(model)
    if out.resolve() in {tensor.file.resolve() for tensor in source.tensors} | {model.resolve()}:
        raise ArgumentError(f"{out} is what is to be packed, and packing loses something; give another name.")
    with console.progress(quiet) as progress:
        message = checkpoint.pack(source, clusters, bits=bits, progress=progress)
    with new_file(out, force=force) as file:
        for part in message.parts():
            file.write(part)
    del message
    show(f"{model} as {out}", inspect(out.read_bytes()), source.size, as_json)


def unpack(
    packed: Annotated[Path, typer.Argument(help="A file that `fedcode pack` made.")],
    out: Annotated[Path, typer.Argument(help="The .safetensors file to write.")],
    force: console.Force = False,
    quiet: console.Quiet = False,
) -> None:
    """Unpack a file into a safetensors checkpoint that any program can load.

    \b
    Example:
      fedcode unpack model.fedcode model.safetensors

    Every tensor has the name, shape and dtype that it had; weights are the centres nearest to what they were.
    """
    from fedcode import checkpoint
    from fedcode.commands.inspect import opened

    refuse_to_replace(out, force)
    model = opened(packed)
    with console.progress(quiet) as progress, new_file(out, force=force) as file:
        checkpoint.unpack(model, file, progress)
    console.remark(f"{out}: {len(model.layout.entries)} tensors, {console.size(out.stat().st_size)}", quiet)
