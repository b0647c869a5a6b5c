"""Named arrays to bytes and back: what an end keeps between rounds, in its memory or its checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.errors import MessageError
from fedcode.reader import Buffer, Reader, text, varint

# the place in this list is the dtype's code: append only
_DTYPES = ("float32", "float64", "int64", "int32", "uint8", "uint16", "uint32", "bool", "float16", "int8", "int16")

_MOST = 1 << 40  # values


def encode_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Name, dtype, shape and values of each array.

    >>> decode_arrays(encode_arrays({"residual": np.ones(2, np.float32)}))
    {'residual': array([1., 1.], dtype=float32)}
    """
    out = bytearray(varint(len(arrays)))
    for name, array in arrays.items():
        out += text(name) + bytes((_DTYPES.index(array.dtype.name),)) + varint(array.ndim)
        for length in array.shape:
            out += varint(length)
        out += np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return bytes(out)


def expect(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, dtype: npt.DTypeLike, size: int, missing: bool = False
) -> None:
    """MessageError unless there is a row of this name, of so many finite values; `missing`: it may not be there.

    >>> expect({"rest": np.zeros(3, np.float32)}, "rest", np.float32, 3)
    """
    found = arrays.get(name)
    if found is None and missing:
        return
    if found is None or found.dtype != dtype or found.shape != (size,) or not np.isfinite(found).all():
        what = "nothing" if found is None else f"{found.dtype} of shape {found.shape}"
        raise MessageError(f"what was kept as {name!r} should be {size} finite {np.dtype(dtype)}, got {what}.")


def decode_arrays(data: Buffer) -> dict[str, npt.NDArray[Any]]:
    """What `encode_arrays` wrote; anything else is a MessageError."""
    reader = Reader(data, "the kept arrays")
    found: dict[str, npt.NDArray[Any]] = {}
    for _ in range(reader.varint(1 << 16)):
        name, code = reader.text(1 << 10), reader.u8()
        if code >= len(_DTYPES) or name in found:
            raise MessageError(f"the kept array {name!r} has a dtype that does not exist, or comes twice.")
        dtype = np.dtype(_DTYPES[code])
        shape = tuple(reader.varint(1 << 40) for _ in range(reader.varint(8)))
        if math.prod(length or 1 for length in shape) > _MOST:  # a length of zero must not hide the others
            raise MessageError(f"the kept array {name!r} has the shape {shape}, which no array can have.")
        body = reader.take(math.prod(shape) * dtype.itemsize)
        found[name] = np.frombuffer(body, dtype.newbyteorder("<")).astype(dtype).reshape(shape)
    reader.end()
    return found
