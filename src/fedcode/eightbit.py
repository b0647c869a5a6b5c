"""Small tensors at a few bits a value: each with a scale of its own, entropy-coded together.

A value stands on one of 2^bits evenly spaced levels from the tensor's least value to its greatest. A variance
does so on the scale of its float32 bit pattern, which grows as its logarithm: it stays positive, small errors stay
small, and both ends decode the same number on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedcode.coding import decode_labels, encode_labels
from fedcode.errors import MessageError
from fedcode.layout import Entry, Kind
from fedcode.reader import Buffer, Reader
from fedcode.state import Vector

Tensors = Sequence[tuple[Entry, slice]]

_LEAST = np.float32(1e-30)  # a variance below it is taken as it
_LARGEST = int(np.array(np.finfo(np.float32).max).view(np.int32))


def encode_tensors(vector: Vector, tensors: Tensors, bits: int = 8) -> bytes:
    """The values of these tensors, which stand one after the other in `vector`.

    >>> bias = Entry("bias", (3,), "float32", Kind.WEIGHT)
    >>> data = encode_tensors(np.array([0, 1, 255], np.float32), [(bias, slice(0, 3))])
    >>> decode_tensors(data, [(bias, slice(0, 3))])
    array([  0.,   1., 255.], dtype=float32)
    """
    top = (1 << bits) - 1
    scales = bytearray()
    levels = np.empty(sum(entry.size for entry, _ in tensors), np.uint8)
    at = 0
    for entry, place in tensors:
        values, level = vector[place], levels[at : at + entry.size]
        at += entry.size
        if entry.kind == Kind.VARIANCE:
            pattern = np.maximum(values, _LEAST).view(np.int32).astype(np.int64)
            low = int(pattern.min())
            step = -((low - int(pattern.max())) // top)
            level[:] = (pattern - low + step // 2) // max(step, 1)
            scales += np.array([low, step], "<i4").tobytes()
        else:
            least = values.min()
            width = (np.float64(values.max()) - np.float64(least)) / top
            level[:] = np.rint((values.astype(np.float64) - least) / width) if width else 0
            scales += np.array([least, width], "<f4").tobytes()
    return bytes(scales) + encode_labels(levels, 1 << bits)


def decode_tensors(data: Buffer, tensors: Tensors, bits: int = 8) -> npt.NDArray[np.float32]:
    """What `encode_tensors` wrote: the values of these tensors, one after the other."""
    reader = Reader(data, "the section of small tensors")
    scales = [reader.take(8) for _ in tensors]
    count = sum(entry.size for entry, _ in tensors)
    levels = decode_labels(reader.take(reader.left), count, 1 << bits)
    values = np.empty(count, np.float32)
    at = 0
    for (entry, _), scale in zip(tensors, scales, strict=True):
        part, level = slice(at, at + entry.size), levels[at : at + entry.size]
        at += entry.size
        if entry.kind == Kind.VARIANCE:
            low, step = (int(number) for number in np.frombuffer(scale, "<i4"))
            top = (1 << bits) - 1
            if low <= 0 or step < 0 or low > _LARGEST:
                raise MessageError(f"the variances of {entry.name!r} do not have a positive, finite scale.")
            pattern = np.minimum(low + level.astype(np.int64) * min(step, _LARGEST // top + 1), _LARGEST)
            values[part] = pattern.astype(np.int32).view(np.float32)
        else:
            least, width = np.frombuffer(scale, "<f4").astype(np.float32)
            with np.errstate(all="ignore"):
                values[part] = least + width * level.astype(np.float32)
    if not np.isfinite(values).all():
        raise MessageError("small tensors decode to values that are not finite.")
    return values
