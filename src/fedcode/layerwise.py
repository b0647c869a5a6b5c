"""The weights as a codebook and labels for each trained tensor by itself: what layer-wise methods send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.accumulate import add_labels
from fedcode.base_message import Sections, write_new_labels
from fedcode.coding import decode_integers, decode_labels, encode_floats, encode_integers
from fedcode.errors import MessageError
from fedcode.layout import Layout
from fedcode.paper_count import label_bits
from fedcode.sections import MAX_CENTERS, decode_values
from fedcode.state import Vector
from fedcode.wire import Message, Section


@dataclass(frozen=True, eq=False)
class Layers:
    """One codebook a trained tensor, in the order of the vector, and a label for every weight.

    >>> from fedcode.state import flatten
    >>> layout = flatten({"w": np.zeros((1, 2), np.float32), "b": np.zeros(1, np.float32)}).layout
    >>> codebooks = [np.array([-1, 1], np.float32), np.array([5], np.float32)]
    >>> Layers(layout, codebooks, np.array([1, 0, 0], np.uint8)).decode()
    array([ 1., -1.,  5.], dtype=float32)
    """

    layout: Layout
    codebooks: Sequence[Vector]
    labels: npt.NDArray[Any]

    def decode(self) -> Vector:
        """The weights that the other end will see."""
        out = np.empty(self.layout.weights, np.float32)
        for centers, (_, place) in zip(self.codebooks, self.layout.tensors, strict=True):
            out[place] = centers[self.labels[place]]
        return out

    def add_to(self, total: npt.NDArray[np.float64], weight: float) -> None:
        """total += weight * weights, without making them."""
        for centers, (_, place) in zip(self.codebooks, self.layout.tensors, strict=True):
            add_labels(total[place], centers, self.labels[place], weight)

    @property
    def paper_bits(self) -> int:
        """32 bits a centre and ceil(log2 K) a label, K being how many centres the tensor has."""
        bits = 0
        for centers, (entry, _) in zip(self.codebooks, self.layout.tensors, strict=True):
            bits += 32 * centers.size + entry.size * (label_bits(centers.size) if centers.size > 1 else 0)
        return bits

    def sections(self, labels: str = "entropy") -> Sections:
        """As sections of a message: how many centres each tensor has, the centres, all labels in one stream."""
        sizes = [centers.size for centers in self.codebooks]
        return {
            Section.SIZES: encode_integers(np.array(sizes)),
            Section.CENTERS: encode_floats(np.concatenate(self.codebooks)),
            Section.LABELS: write_new_labels(self.labels, max(sizes), labels),
        }

    @classmethod
    def read(cls, message: Message, layout: Layout) -> Layers:
        """What `sections` wrote, checked."""
        sizes = decode_integers(message.section(Section.SIZES), len(layout.tensors))
        if sizes.min() < 1 or sizes.max() > MAX_CENTERS:
            raise MessageError(f"each tensor has 1 to {MAX_CENTERS} centres, not {sizes.min()} or {sizes.max()}.")
        ends = np.cumsum(sizes.astype(np.int64))
        centers = decode_values(message.section(Section.CENTERS), int(ends[-1]))
        labels = decode_labels(message.section(Section.LABELS), layout.weights, int(sizes.max()))
        return cls(layout, np.split(centers, ends[:-1]), labels).check()

    def check(self) -> Layers:
        """These, or MessageError where a label is beyond its tensor's centres."""
        for centers, (entry, place) in zip(self.codebooks, self.layout.tensors, strict=True):
            if self.labels[place].max() >= centers.size:
                raise MessageError(f"a label of {entry.name!r} is beyond its {centers.size} centres.")
        return self
