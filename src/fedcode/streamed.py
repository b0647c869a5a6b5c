"""A row that is nowhere whole: its values come a block at a time, anew whenever they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.label_blocks import BLOCK
from fedcode.row import Floats, Row


@dataclass(frozen=True, eq=False, kw_only=True)
class Streamed(Row):
    """Float32 numbers from a source that gives all of them in blocks of 2^20, each overwritten by the next.

    >>> row = streamed(lambda: iter([np.arange(5, dtype=np.float32)]), 5)
    >>> row.size, row.extremes(), row.read(0, 5, 2)
    (5, (0.0, 4.0), array([0., 2., 4.], dtype=float32))
    """

    source: Callable[[], Iterator[Floats]]
    total: int

    @property
    def size(self) -> int:
        return self.total

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.total,)

    def part(self, start: int, stop: int, step: int = 1) -> npt.NDArray[Any]:
        """A slice of the row, gathered block by block."""
        out = np.empty(len(range(self.total)[start:stop:step]), np.float32)
        done = 0
        for place, block in self.blocks(0, self.total):
            first = start + step * max(0, -((start - place) // step))
            found = block[first - place : max(0, stop - place) : step]
            out[done : done + found.size] = found
            done += found.size
        return out

    def blocks(self, start: int, stop: int, size: int = BLOCK) -> Iterator[tuple[int, Floats]]:
        """The whole row, in the blocks that it comes in."""
        assert (start, stop) == (0, self.total), "a stream is read from its beginning to its end"
        del size
        place = 0
        for block in self.source():
            yield place, block
            place += block.size

    def each(self, work: Callable[[Floats], int], size: int = BLOCK) -> int:
        """The sum of `work(block)` over the blocks that the row comes in."""
        return sum(work(block) for _, block in self.blocks(0, self.total, size))

    def over(self, work: Callable[[int, int], Any], least: int = 0) -> list[Any]:
        """Call `work` once, for the whole row."""
        del least
        return [work(0, self.total)]


def streamed(source: Callable[[], Iterator[Floats]], total: int) -> Streamed:
    """The row of so many values that a source gives."""
    return Streamed(np.empty(0, np.float32), source=source, total=total)
