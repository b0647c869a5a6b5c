"""What comes in as values: a numpy array or a torch tensor, read as one row of float32, block by block.

Nothing is copied whole: float16, bfloat16 and float64 are converted a block at a time, and an array that
is contiguous float32 is read where it lies. torch is found through `sys.modules`, never imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.errors import ArgumentError, NonFiniteError
from fedcode.kernels import in_chunks

Floats = npt.NDArray[np.float32]

BLOCK = 1 << 18  # values: a converted block of 1 MB stays in the processor's own cache


@dataclass(frozen=True, eq=False)
class Row:
    """Floating-point numbers as one row; `brain` says that the array holds the bits of bfloat16.

    >>> row = row_of(np.ones((2, 3), np.float16))
    >>> row.size, row.shape, row.read(0, 2)
    (6, (2, 3), array([1., 1.], dtype=float32))
    """

    array: npt.NDArray[Any]
    brain: bool = False

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def part(self, start: int, stop: int, step: int = 1) -> npt.NDArray[Any]:
        """A slice of the row as it is stored."""
        array = self.array
        flat: Any = array.reshape(-1) if array.flags.c_contiguous else array.flat
        return flat[start:stop:step]  # type: ignore[no-any-return]

    def read(self, start: int, stop: int, step: int = 1) -> Floats:
        """A slice of the row as contiguous float32 in the machine's byte order: a view where that is possible."""
        part = self.part(start, stop, step)
        if self.brain:
            return (part.astype(np.uint32) << 16).view(np.float32)
        with np.errstate(over="ignore"):  # beyond float32's range is infinite, and found to be so
            return np.require(part, np.float32, ["C", "A", "W"])

    def blocks(self, start: int, stop: int, size: int = BLOCK) -> Iterator[tuple[int, Floats]]:
        """The row from `start` to `stop` as blocks of `size`, each with the place where it begins."""
        for place in range(start, stop, size):
            yield place, self.read(place, min(place + size, stop))

    def over(self, work: Callable[[int, int], Any], least: int = 1 << 17) -> list[Any]:
        """Call `work(start, stop)` for slices of the row, one a thread, none shorter than `least` values."""
        return in_chunks(work, self.size, max(least, 1 << 17))

    def each(self, work: Callable[[Floats], int], size: int) -> int:
        """The sum of `work(block)` over blocks of `size`, which threads share out among them."""
        count = -(-self.size // size)

        def some(first: int, stop: int) -> int:
            blocks = self.blocks(first * size, min(stop * size, self.size), size)
            return sum(work(block) for _, block in blocks)

        return sum(in_chunks(some, count, 1))

    def extremes(self) -> tuple[float, float]:
        """The least and the greatest value; a NonFiniteError if any is NaN or infinite."""

        def work(start: int, stop: int) -> tuple[float, float]:
            found = [(block.min(), block.max()) for _, block in self.blocks(start, stop)]
            lows, highs = zip(*found, strict=True)
            return float(np.min(lows)), float(np.max(highs))  # unlike min(), these pass a NaN on

        if self.size <= BLOCK:
            block = self.read(0, self.size)
            low, high = float(block.min()), float(block.max())
        else:
            lows, highs = zip(*self.over(work), strict=True)
            low, high = float(np.min(lows)), float(np.max(highs))
        if not (np.isfinite(low) and np.isfinite(high)):
            self._refuse()
        return low, high

    def _refuse(self) -> None:
        count, first = 0, -1
        for place, block in self.blocks(0, self.size):
            bad = np.flatnonzero(~np.isfinite(block))
            if bad.size and first < 0:
                first = place + int(bad[0])
            count += bad.size
        raise NonFiniteError(
            f"{count} of {self.size} values are NaN or infinite as float32, the first at index {first}. "
            "Only finite numbers can be clustered or snapped."
        )


def row_of(values: Any) -> Row:
    """The values of an array or a tensor (one on a GPU is brought to the CPU) as a row."""
    brain = False
    if is_tensor(values):
        torch = sys.modules["torch"]
        values = values.detach().cpu()
        brain = values.dtype == torch.bfloat16
        if brain:
            values = values.view(torch.uint16)
        elif not values.dtype.is_floating_point:
            raise ArgumentError(f"the values must be floating-point numbers: got {values.dtype}.")
        values = values.numpy()
    array = np.asarray(values)
    if array.dtype.name == "bfloat16":  # of the package ml_dtypes
        array, brain = array.view(np.uint16), True
    if not brain and array.dtype.kind != "f":
        raise ArgumentError(f"the values must be floating-point numbers: got {array.dtype}.")
    if not array.size:
        raise ArgumentError("there are no values: expected at least one.")
    if not array.flags.c_contiguous and array.itemsize > 2:
        array = np.ascontiguousarray(array)  # 1.0 times the bytes, and the labels at most 0.5
    return Row(array, brain)


def is_tensor(values: Any) -> bool:
    """Whether this is a tensor of torch.

    >>> is_tensor(np.ones(3))
    False
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)
