"""Small tensors at a few bits a value: each with a scale of its own, entropy-coded together.

A value stands on one of 2^bits evenly spaced levels that span its tensor. A variance does so on the scale of its
float32 bit pattern, which grows as its logarithm: it stays positive, small errors stay small, and both ends decode
the same number on any machine. A scale takes four bytes: where the levels begin and how far apart they are, each in
sixteen bits and rounded outwards. A tensor of one value that these can say (all ones, all zeros) stays exact.

Levels are coded given those that `held`, values which both ends hold, would have: it costs nothing to be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedcode.bfloat import above, below, expand
from fedcode.coding import decode_labels, encode_labels
from fedcode.errors import MessageError
from fedcode.layout import Entry, Kind
from fedcode.reader import Buffer, Reader
from fedcode.state import Vector

Tensors = Sequence[tuple[Entry, slice]]

_LARGEST = np.finfo(np.float32).max
_PATTERN = int(np.array(_LARGEST).view(np.int32))
_FLOOR = np.float32(2**-20)  # of a tensor's greatest variance: one below is taken as it, lest it coarsen the others
_STEP = 8  # a variance's step counts bit patterns by 2^8: fine enough, and 16 bits of it span any tensor


def encode_tensors(vector: Vector, tensors: Tensors, bits: int = 8, held: Vector | None = None) -> bytes:
    """The values of these tensors, which stand one after the other in `vector`; so do those of `held`.

    Either may be the whole vector of a model or just the part that these tensors take.

    >>> bias = Entry("bias", (3,), "float32", Kind.WEIGHT)
    >>> data = encode_tensors(np.array([0, 1, 255], np.float32), [(bias, slice(0, 3))])
    >>> decode_tensors(data, [(bias, slice(0, 3))])
    array([  0.,   1., 255.], dtype=float32)
    """
    if not tensors:
        return b""
    scales = _Scales.spanning(_row(vector, tensors), tensors, bits)
    levels = scales.levels(_row(vector, tensors), bits)
    expected = None if held is None else scales.levels(_row(held, tensors), bits)
    return scales.words.astype("<u2", copy=False).tobytes() + encode_labels(levels, 1 << bits, context=expected)


def decode_tensors(
    data: Buffer, tensors: Tensors, bits: int = 8, held: Vector | None = None
) -> npt.NDArray[np.float32]:
    """What `encode_tensors` wrote: the values of these tensors, one after the other."""
    reader = Reader(data, "the section of small tensors")
    if not tensors:
        reader.end()
        return np.empty(0, np.float32)
    words = np.frombuffer(reader.take(4 * len(tensors)), "<u2").astype(np.uint16).reshape(2, -1)
    scales = _Scales(words, *_kinds(tensors)).check()
    expected = None if held is None else scales.levels(_row(held, tensors), bits)
    levels = decode_labels(reader.take(reader.left), scales.sizes.sum(), 1 << bits, context=expected)
    return scales.values(levels)


def _row(vector: Vector, tensors: Tensors) -> Vector:
    first, last = tensors[0][1].start, tensors[-1][1].stop
    return vector if vector.size == last - first else vector[first:last]


def _kinds(tensors: Tensors) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    sizes = np.array([entry.size for entry, _ in tensors])
    return sizes, np.array([entry.kind == Kind.VARIANCE for entry, _ in tensors])


def _patterns(values: Vector) -> npt.NDArray[np.int64]:
    return np.ascontiguousarray(values).view(np.int32).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Scales:
    """Where the levels of each tensor begin (first row) and how far apart they are (second), as sixteen bits."""

    words: npt.NDArray[np.uint16]
    sizes: npt.NDArray[np.int64]
    variance: npt.NDArray[np.bool_]

    @classmethod
    def spanning(cls, row: Vector, tensors: Tensors, bits: int) -> _Scales:
        sizes, variance = _kinds(tensors)
        starts = np.cumsum(sizes) - sizes
        least, greatest = np.minimum.reduceat(row, starts), np.maximum.reduceat(row, starts)
        top = (1 << bits) - 1
        low = below(least)
        width = above((greatest.astype(np.float64) - expand(low)).clip(0) / top)
        least = np.maximum(least, greatest * _FLOOR)
        floor = _patterns(np.maximum(least, 0)) >> 16
        span = _patterns(np.maximum(greatest, 0)) - (floor << 16)
        step = -(-span // (top << _STEP))
        exact = least == greatest  # one value throughout: sixteen bits may say it
        exact &= _patterns(least) == floor << 16
        step = np.where(exact, 0, step)
        words = np.where(variance, [floor, step], [low, width]).astype(np.uint16)
        return cls(words, sizes, variance)

    def check(self) -> _Scales:
        low, width = self.words
        finite = (low & 0x7FFF < 0x7F80) & (width < 0x7F80)
        if not np.where(self.variance, low < 0x7F80, finite).all():
            raise MessageError("small tensors have a scale that is negative, NaN or infinite.")
        return self

    def _spread(self, of_tensors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.repeat(of_tensors, self.sizes)

    @property
    def _low(self) -> npt.NDArray[np.float64]:
        return np.where(self.variance, self.words[0].astype(np.float64) * (1 << 16), expand(self.words[0]))

    @property
    def _width(self) -> npt.NDArray[np.float64]:
        return np.where(self.variance, self.words[1].astype(np.float64) * (1 << _STEP), expand(self.words[1]))

    def levels(self, row: Vector, bits: int) -> npt.NDArray[np.uint8]:
        """The level next to each value; the last where a value is beyond."""
        place = row.astype(np.float64)
        mask = np.repeat(self.variance, self.sizes)
        place[mask] = _patterns(np.maximum(row[mask], 0))
        width = self._width
        place -= self._spread(self._low)
        place /= self._spread(np.where(width, width, np.inf))
        return np.rint(place).clip(0, (1 << bits) - 1).astype(np.uint8)

    def values(self, levels: npt.NDArray[np.uint8] | npt.NDArray[np.uint16]) -> Vector:
        """The values that levels stand for; finite, and variances positive or zero."""
        place = self._spread(self._width) * levels + self._spread(self._low)
        mask = np.repeat(self.variance, self.sizes)
        out = place.clip(-_LARGEST, _LARGEST).astype(np.float32)
        out[mask] = place[mask].clip(0, _PATTERN).astype(np.int32).view(np.float32)
        return out
