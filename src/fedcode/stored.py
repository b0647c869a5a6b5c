"""A model that lies in a checkpoint, as `flatten` would lay it out, read a block at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.errors import ArgumentError, DataError, NonFiniteError
from fedcode.label_blocks import BLOCK
from fedcode.layout import Entry, Kind, Layout
from fedcode.pieces import blocks, joined
from fedcode.safetensors_file import Checkpoint
from fedcode.state import Counters, Vector, kind_of

# Integers are kept as 64 bits each and coded one by one. A checkpoint with more of them than any model has
# counters is quantised already.
MAX_COUNTERS = 1 << 22


@dataclass(frozen=True)
class Stored:
    """A checkpoint as a model: its layout, and its values from the file whenever they are asked for."""

    checkpoint: Checkpoint

    @cached_property
    def layout(self) -> Layout:
        """Names, shapes, dtypes and kinds, in the order of the checkpoint."""
        entries = (
            Entry(tensor.name, tensor.shape, tensor.dtype, kind_of(tensor.name, tensor.dtype))
            for tensor in self.checkpoint.tensors
        )
        return Layout(tuple(entries))

    def weights(self, order: Iterable[Entry] | None = None) -> Iterator[Vector]:
        """The weights in the order of the flat vector (or of these entries), each block overwritten by the next."""
        order = (entry for entry, _ in self.layout.tensors) if order is None else order
        return blocks(self._values(order), self.layout.weights, BLOCK)

    @cached_property
    def statistics(self) -> Vector:
        """What is floating-point and not trained."""
        count = self.layout.values - self.layout.weights
        return joined(self._values(entry for entry, _ in self.layout.statistics), count, np.float32)

    @cached_property
    def counters(self) -> Counters:
        """What is no floating-point number."""
        count = self.layout.counters
        if count > MAX_COUNTERS:
            raise DataError(
                f"the checkpoint holds {count:,} integers; at most {MAX_COUNTERS:,} can be kept. It looks quantised "
                "already: pack the checkpoint that it was made from."
            )
        return joined(self._integers(), count, np.int64)

    def _values(self, entries: Iterable[Entry]) -> Iterator[Vector]:
        for entry in entries:
            at = 0
            for piece in self.checkpoint.by_name[entry.name].pieces():
                with np.errstate(over="ignore"):  # a float64 beyond float32 is reported as infinite
                    values = piece.astype(np.float32, copy=False)
                finite = np.isfinite(values)
                if not finite.all():
                    raise NonFiniteError(
                        f"{entry.name!r} holds NaN or infinity, first at index {at + int(finite.argmin())}. "
                        "Only finite numbers can be packed."
                    )
                at += len(values)
                yield values

    def _integers(self) -> Iterator[npt.NDArray[Any]]:
        for entry in self.layout.of_kind(Kind.COUNTER):
            for piece in self.checkpoint.by_name[entry.name].pieces():
                if entry.dtype == "uint64" and piece.max() > np.iinfo(np.int64).max:
                    raise ArgumentError(f"{entry.name!r} holds a counter above 2^63 - 1, which does not fit.")
                yield piece
