"""A ladder: centres in even steps, and weights that stay on their rung until they have clearly left it.

    centre i = (lowest + i) * step

For a model that is sent again and again this beats centres fitted to it: where these wander, labels change though
the weights did not. A step has eight significant bits, so every centre is exact in float32; a ladder that still fits
is kept, so that a weight which has not moved has the label that both ends expect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from fedcode.base import Base
from fedcode.bfloat import above, decode_scales, encode, expand
from fedcode.errors import MessageError
from fedcode.kernels import in_chunks, kernel
from fedcode.packing import MAX_LABELS, Labels, label_type
from fedcode.reader import Buffer, Reader, varint
from fedcode.state import Vector

# A weight keeps the label that it had while it is within so many steps of it. At one half it would have the nearest;
# the tenth more costs 0.4 dB and saves a tenth of the bits.
STAY = 0.6

_SPAN = 16  # a ladder of k rungs reaches eight times the weights' rms either way, and further where weights do
_SLACK = 1.5  # a ladder is kept while its step is within this factor of the right one
_LEAST = 1 << 16
_LARGEST = float(np.finfo(np.float32).max)
_FARTHEST = 1 << 16  # the product of such a number and of a step is exact in float32


@dataclass(frozen=True)
class Ladder:
    """step: float32 of eight significant bits, above 0. lowest: the number of the first centre. count: how many.

    >>> Ladder(0.5, -1, 4).centers
    array([-0.5,  0. ,  0.5,  1. ], dtype=float32)
    >>> Ladder.from_bytes(Ladder(0.5, -1, 4).to_bytes()) == Ladder(0.5, -1, 4)
    True
    """

    step: float
    lowest: int
    count: int

    @property
    def centers(self) -> Vector:
        """The centres, ascending."""
        numbers = np.arange(self.lowest, self.lowest + self.count)
        return (numbers * self.step).clip(-_LARGEST, _LARGEST).astype(np.float32)

    @classmethod
    def of(cls, centers: Vector) -> Ladder | None:
        """The ladder that these centres are; None where they are none."""
        step = float(centers[1]) - float(centers[0]) if centers.size > 1 else 0.0
        if not step > 0:
            return None
        ladder = cls(step, round(float(centers[0]) / step), centers.size)
        return ladder if np.array_equal(ladder.centers, centers) else None

    @classmethod
    def over(cls, weights: Vector, rungs: int, last: Base | None = None) -> Ladder:
        """The ladder for these weights, `rungs` of it over sixteen times their rms; the last base's while it fits."""
        least, greatest = float(weights.min()), float(weights.max())
        bound = max((greatest - least) / (MAX_LABELS - 2), max(-least, greatest) / _FARTHEST)
        right = max(_SPAN * float(np.sqrt(np.square(weights, dtype=np.float64).mean())) / rungs, bound)
        before = None if last is None else cls.of(last.centers)
        if before is not None and bound <= before.step and before.step / _SLACK <= right <= before.step * _SLACK:
            step = before.step
        else:
            step = float(expand(above(right))[0]) or 1.0
        most = math.floor(_LARGEST / step)
        lowest, highest = max(round(least / step), -most), min(round(greatest / step), most)
        return cls(step, lowest, max(highest - lowest, 1) + 1)

    def labels(self, weights: Vector, expected: Labels | None = None) -> Labels:
        """The label of each weight: the expected one where the weight is near enough to it, else one nearby.

        >>> Ladder(1.0, 0, 4).labels(np.array([0.55, 0.65, 3], np.float32), np.array([0, 0, 1], np.uint8))
        array([0, 1, 3], dtype=uint8)
        """
        place = (self.step, self.lowest, self.count - 1)
        out: Any = np.empty(weights.size, label_type(self.count))

        def work(start: int, stop: int) -> None:
            part, into = weights[start:stop], out[start:stop]
            if expected is None:
                _nearest(part, *place, into)
            else:
                _near(part, expected[start:stop], *place, into)

        in_chunks(work, weights.size, _LEAST)
        return cast(Labels, out)

    def to_bytes(self) -> bytes:
        """As a section: the upper half of the step's float32, the lowest number as a zigzag, the count."""
        zigzag = 2 * self.lowest if self.lowest >= 0 else -2 * self.lowest - 1
        return encode(above(self.step)) + varint(zigzag) + varint(self.count)

    @classmethod
    def from_bytes(cls, data: Buffer) -> Ladder:
        """What `to_bytes` wrote; anything else is a MessageError."""
        reader = Reader(data, "the ladder of centres")
        step = float(decode_scales(reader.take(2), 1)[0])
        zigzag, count = reader.varint(2 * _FARTHEST), reader.varint(MAX_LABELS)
        reader.end()
        lowest = -(zigzag + 1 >> 1) if zigzag & 1 else zigzag >> 1
        farthest = max(abs(lowest), abs(lowest + count - 1)) * step
        if not (step > 0 and farthest <= _LARGEST and count > 1):
            raise MessageError(f"a ladder of {count} centres from {lowest} in steps of {step} cannot be.")
        return cls(step, lowest, count)


def _nearest_plainly(weights: Any, step: float, lowest: int, last: int, out: Any) -> None:
    out[:] = np.rint(weights.astype(np.float64) / step - lowest).clip(0, last)


@kernel(plain=_nearest_plainly)
def _nearest(weights: Any, step: float, lowest: int, last: int, out: Any) -> None:
    for i in range(weights.size):
        out[i] = min(max(np.rint(np.float64(weights[i]) / step - lowest), 0), last)


def _near_plainly(weights: Any, expected: Any, step: float, lowest: int, last: int, out: Any) -> None:
    off = weights.astype(np.float64) / step - lowest - expected
    steps = np.ceil(np.maximum(np.abs(off) - STAY, 0))
    out[:] = (expected + np.where(off < 0, -steps, steps)).clip(0, last)


@kernel(plain=_near_plainly)
def _near(weights: Any, expected: Any, step: float, lowest: int, last: int, out: Any) -> None:
    for i in range(weights.size):
        off = np.float64(weights[i]) / step - lowest - expected[i]
        steps = np.ceil(max(abs(off) - STAY, 0.0))
        out[i] = min(max(expected[i] + (-steps if off < 0 else steps), 0), last)
