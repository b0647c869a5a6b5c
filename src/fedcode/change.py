"""The change of a model's matrices as one codebook and labels, each tensor on the scale of its own rms.

    change of tensor t  ~  scale[t] * centers[labels]

The codebook is fitted to all tensors at once for a budget of bits a weight, so that a tensor that moved little in
absolute terms is coded as finely as one that moved much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.accumulate import add_labels
from fedcode.base_message import write_new_labels
from fedcode.bfloat import above, decode_scales, encode, expand
from fedcode.clustering import cluster
from fedcode.coding import decode_labels, encode_floats
from fedcode.ends import Sections
from fedcode.errors import MessageError
from fedcode.layout import Layout
from fedcode.sections import decode_centers
from fedcode.state import Vector
from fedcode.wire import Message, Section

PIECE = 1 << 15  # values worked on at a time


@dataclass(frozen=True, eq=False)
class Change:
    """scales: float32, one a matrix. centers: float32, ascending, in units of a scale. labels: one a value."""

    layout: Layout
    scales: Vector
    centers: Vector
    labels: npt.NDArray[Any]

    @property
    def places(self) -> list[slice]:
        """Where each matrix stands in the vector."""
        return [place for entry, place in self.layout.tensors if entry.is_matrix]

    def decode(self) -> Vector:
        """The change that the other end will see."""
        out: Vector = self.centers[self.labels]
        for scale, place in zip(self.scales, self.places, strict=True):
            out[place] *= scale
        return out

    def add_to(self, total: npt.NDArray[np.float64], weight: float) -> None:
        """total += weight * change, in one pass and without making it."""
        for scale, place in zip(self.scales, self.places, strict=True):
            add_labels(total[place], self.centers, self.labels[place], weight * float(scale))

    def sections(self, labels: str = "entropy") -> Sections:
        """As sections of a message."""
        return {
            Section.SCALES: encode(above(self.scales)),
            Section.CENTERS: encode_floats(self.centers),
            Section.LABELS: write_new_labels(self.labels, len(self.centers), labels),
        }

    @classmethod
    def read(cls, message: Message, layout: Layout) -> Change:
        """What `sections` wrote, checked."""
        count = sum(entry.is_matrix for entry, _ in layout.tensors)
        scales = decode_scales(message.section(Section.SCALES), count)
        centers = decode_centers(message.section(Section.CENTERS))
        labels = decode_labels(message.section(Section.LABELS), layout.matrices, len(centers))
        if float(scales.max(initial=0)) * float(np.abs(centers).max(initial=0)) > float(np.finfo(np.float32).max):
            raise MessageError("the change is greater than any float32.")
        return cls(layout, scales, centers, labels)


def code_change(change: Vector, layout: Layout, bits: float, debias: bool = False) -> Change:
    """The change of the matrices (`layout.matrices` values) for `bits` bits a weight.

    debias: a coded change is shorter than the true one by the share D of energy that coding loses; dividing by
    1 - D makes it as long along its own direction.
    """
    scaled = np.empty_like(change)
    places = [place for entry, place in layout.tensors if entry.is_matrix]
    scales = np.empty(len(places), np.float32)
    for index, place in enumerate(places):
        part = change[place]
        rms = np.sqrt(_energy(part) / max(1, part.size))
        scales[index] = expand(above(rms))[0]
        np.divide(part, scales[index] or np.float32(1), out=scaled[place])
    codebook = cluster(scaled, bits=bits)
    centers = codebook.centers
    if debias:
        kept = float(np.square(centers, dtype=np.float64) @ _counts(codebook.labels, len(centers)))
        if kept > 0:  # centres are means: this is 1 - D of the energy
            centers = (centers * (_energy(scaled) / kept)).astype(np.float32)
    return Change(layout, scales, centers, codebook.labels)


def _energy(values: Vector) -> float:
    """The sum of squares in float64, piece by piece: what is made on the way stays in the cache."""
    parts = (values[start : start + PIECE] for start in range(0, len(values), PIECE))
    return float(sum(np.square(part, dtype=np.float64).sum() for part in parts))


def _counts(labels: npt.NDArray[Any], count: int) -> npt.NDArray[np.int64]:
    """How often each label occurs."""
    total = np.zeros(count, np.int64)
    for start in range(0, len(labels), PIECE):
        total += np.bincount(labels[start : start + PIECE], minlength=count)
    return total
