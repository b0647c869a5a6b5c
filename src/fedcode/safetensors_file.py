"""Checkpoints in the safetensors format, read and written piece by piece: no checkpoint is ever whole in memory.

A file is the length of its header (8 bytes, little-endian), the header (JSON: dtype, shape and place of every
tensor) and the tensors' bytes. A sharded checkpoint is several such files and an index, a JSON file whose
`weight_map` says which tensor is in which. numpy knows no bfloat16, so these are read as float32, exactly.

Reference: https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from fedcode.bfloat import expand
from fedcode.errors import DataError
from fedcode.layout import Entry

Array = npt.NDArray[Any]

# The format's names of the dtypes that a model's state may hold.
DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
_CODES = {name: code for code, name in DTYPES.items()}
_INDEX = ".safetensors.index.json"
_MAX_HEADER = 100_000_000  # the format's own limit
_PICKLED = (b"PK\x03\x04", b"\x80\x02")  # how a file of torch.save begins, of today and of before
_PIECE = 1 << 20  # values that are in memory at once


@dataclass(frozen=True)
class Tensor:
    """Where one tensor of a checkpoint stands: its file, and its first byte there."""

    name: str
    dtype: str  # numpy's name of it, or bfloat16
    shape: tuple[int, ...]
    file: Path
    offset: int

    def pieces(self) -> Iterator[Array]:
        """Its values in order, some at a time; bfloat16 as float32."""
        stored = _stored(self.dtype)
        left = math.prod(self.shape)
        buffer = np.empty(min(left, _PIECE), stored)
        with self.file.open("rb", buffering=0) as file:
            file.seek(self.offset)
            while left:
                piece = buffer[: min(left, _PIECE)]
                _fill(file, piece, self.file)
                left -= piece.size
                yield expand(piece) if self.dtype == "bfloat16" else piece.astype(stored.newbyteorder("="))


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a checkpoint in the order of its files."""

    tensors: tuple[Tensor, ...]

    @cached_property
    def by_name(self) -> dict[str, Tensor]:
        return {tensor.name: tensor for tensor in self.tensors}

    @property
    def size(self) -> int:
        """The bytes of all its tensors."""
        return sum(math.prod(tensor.shape) * _stored(tensor.dtype).itemsize for tensor in self.tensors)


def read(path: Path) -> Checkpoint:
    """A checkpoint from its file, from the index of its shards, or from the directory that holds either."""
    if path.is_dir():
        path = _in_directory(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    if path.name.endswith(".json"):
        return _sharded(path)
    return Checkpoint(_header(path))


def write(file: BinaryIO, entries: Iterable[Entry], values: Callable[[Entry], Iterable[Array]]) -> None:
    """Write entries as one safetensors file; `values(entry)` gives the pieces of each, float32 for bfloat16.

    They are asked for in the order of `entries`. A tied entry is not asked for: it becomes a copy, as the format
    cannot say that two names are one tensor. The file must be open for reading too.
    """
    entries = list(entries)
    # the order of the reference implementation, which keeps every tensor aligned to its dtype
    ordered = sorted(entries, key=lambda entry: (-_stored(entry.dtype).itemsize, entry.name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for entry in ordered:
        end = at + entry.size * _stored(entry.dtype).itemsize
        header[entry.name] = {
            "dtype": _CODES[entry.dtype],
            "shape": list(entry.shape),
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    places = {entry.name: 8 + len(text) + header[entry.name]["data_offsets"][0] for entry in entries}
    for entry in entries:
        if entry.tied is None:
            file.seek(places[entry.name])
            for piece in values(entry):
                stored = _narrowed(piece) if entry.dtype == "bfloat16" else piece.astype(_stored(entry.dtype))
                file.write(stored.data)
    for entry in entries:
        if entry.tied is not None:
            _copy(file, places[entry.tied], places[entry.name], entry.size * _stored(entry.dtype).itemsize)
    file.seek(8 + len(text) + at)


def _copy(file: BinaryIO, source: int, target: int, left: int) -> None:
    while left:
        file.seek(source)
        piece = file.read(min(left, _PIECE))
        file.seek(target)
        file.write(piece)
        source, target, left = source + len(piece), target + len(piece), left - len(piece)


def _in_directory(path: Path) -> Path:
    indices = sorted(path.glob(f"*{_INDEX}"))
    files = indices or sorted(path.glob("*.safetensors"))
    if len(files) != 1:
        found = ", ".join(file.name for file in files) or "none"
        raise DataError(
            f"{path} should hold one .safetensors file or one {_INDEX} file; found: {found}. Name the file."
        )
    return files[0]


def _sharded(index: Path) -> Checkpoint:
    try:
        places = json.loads(index.read_bytes())["weight_map"]
        names = {str(shard) for shard in places.values()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{index} is no index of a sharded checkpoint: it has no weight_map.") from error
    tensors: list[Tensor] = []
    for name in sorted(names):
        if Path(name).name != name:
            raise DataError(f"{index} names the shard {name!r}; a plain file name is expected.")
        shard = index.with_name(name)
        if not shard.is_file():
            raise DataError(f"{shard} is missing: {index.name} names it as a shard.")
        tensors += [tensor for tensor in _header(shard) if places.get(tensor.name) == name]
    lacking = sorted(set(places) - {tensor.name for tensor in tensors})
    if lacking:
        raise DataError(f"{places[lacking[0]]} does not hold {lacking[0]!r}, which {index.name} places there.")
    return Checkpoint(tuple(tensors))


def _header(path: Path) -> tuple[Tensor, ...]:
    """The tensors of one file, each with its place checked against the file's length."""
    size = path.stat().st_size
    with path.open("rb") as file:
        begins = file.read(8)
        length = int.from_bytes(begins, "little")
        if length > _MAX_HEADER and begins.startswith(_PICKLED):
            raise DataError(
                f"{path} is a file of torch.save, which is not read here as it may hold code. If it is a state dict, "
                "make a safetensors file of it: safetensors.torch.save_file("
                f"torch.load({str(path)!r}, weights_only=True), {str(path.with_suffix('.safetensors'))!r})."
            )
        if size < 8 or length > min(_MAX_HEADER, size - 8):
            raise DataError(f"{path} is no safetensors file, or is cut short: its header does not fit into it.")
        try:
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            found = tuple(_tensor(path, 8 + length, *item) for item in header.items())
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"{path} is no safetensors file: its header cannot be read ({error}).") from error
    for tensor in found:
        end = tensor.offset + math.prod(tensor.shape) * _stored(tensor.dtype).itemsize
        if end > size:
            raise DataError(f"{path} is cut short: {tensor.name!r} ends at byte {end}, the file at {size}.")
    return found


def _tensor(path: Path, origin: int, name: str, said: dict[str, Any]) -> Tensor:
    code, shape, (begin, end) = said["dtype"], tuple(said["shape"]), said["data_offsets"]
    if code not in DTYPES:
        raise DataError(
            f"{name!r} in {path} is of dtype {code}, which cannot be packed; possible: {', '.join(DTYPES)}."
        )
    if not all(type(number) is int and number >= 0 for number in (*shape, begin, end)):
        raise ValueError(f"{name!r} has a shape or place that is none")
    if end - begin != math.prod(shape) * _stored(DTYPES[code]).itemsize:
        raise ValueError(f"the bytes of {name!r} are not as many as its shape needs")
    return Tensor(name, DTYPES[code], shape, path, origin + begin)


def _stored(dtype: str) -> np.dtype[Any]:
    return np.dtype("uint16" if dtype == "bfloat16" else dtype).newbyteorder("<")


def _fill(file: Any, piece: Array, path: Path) -> None:
    view = piece.data.cast("B")
    at = 0
    while at < len(view):
        got = file.readinto(view[at:])
        if not got:
            raise DataError(f"{path} became shorter while it was read.")
        at += got


def _narrowed(values: Array) -> Array:
    """Finite float32 to the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
