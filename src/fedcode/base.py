"""A base: a model that two ends hold exactly, named by its digest, against which what follows is coded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedcode.clustering import nearest
from fedcode.coding import decode_labels, encode_floats, encode_labels
from fedcode.errors import MessageError
from fedcode.layout import Layout
from fedcode.lookup import look_up
from fedcode.model_file import check_size, padding
from fedcode.reader import Buffer, varint
from fedcode.sections import decode_centers, decode_counters, decode_values, encode_centers, encode_counters
from fedcode.state import Counters, State, Vector
from fedcode.wire import Message, MessageKind, Section

Labels = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Base:
    """A model both ends hold: the first values of its vector as a codebook (or none), the rest as they are.

    centers: float32, ascending, maybe empty. labels: which centre each of the first `len(labels)` values has.
    rest: float32, the values after these. counters: int64.
    """

    layout: Layout
    centers: Vector
    labels: Labels
    rest: Vector
    counters: Counters

    @classmethod
    def of(cls, state: State) -> Base:
        """A base that holds the state as it is, without a codebook."""
        none = np.empty(0, np.float32), np.empty(0, np.uint8)
        return cls(state.layout, *none, state.vector, state.counters)

    @cached_property
    def state(self) -> State:
        """The model that this base is."""
        if not self.labels.size:
            return State(self.layout, self.rest, self.counters)
        count = self.labels.size
        vector = np.empty(count + self.rest.size, np.float32)
        look_up(self.centers, self.labels, vector[:count])
        vector[count:] = self.rest
        return State(self.layout, vector, self.counters)

    @cached_property
    def digest(self) -> bytes:
        """Its name in eight bytes: BLAKE2b over layout, centres, labels, rest and counters.

        Each part is preceded by its length as a varint and written little-endian.
        """
        hasher = hashlib.blake2b(self.layout.fingerprint, digest_size=8)
        for part in (self.centers, self.labels, self.rest, self.counters):
            hasher.update(varint(part.size))
            hasher.update(np.ascontiguousarray(part.astype(part.dtype.newbyteorder("<"), copy=False)).data)
        return hasher.digest()

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self.centers.nbytes + self.labels.nbytes + self.rest.nbytes + self.counters.nbytes

    def values_from(self, start: int) -> Vector:
        """The vector from `start` on; not decoded where that is not needed."""
        count = self.labels.size
        return self.rest[start - count :] if start >= count else self.state.vector[start:]

    def predict(self, centers: Vector, count: int) -> Labels:
        """The label that both ends expect: the nearest of `centers` to each of the first `count` values."""
        if len(self.labels) == count and count:
            table: Labels = nearest(self.centers, centers)
            expected: Labels = look_up(table, self.labels)
            return expected
        return nearest(self.state.vector[:count], centers)

    def to_bytes(self) -> bytes:
        """For a client's memory or a server's checkpoint."""
        sections: dict[int, Buffer] = {
            Section.VALUES: encode_floats(self.rest),
            Section.COUNTERS: encode_counters(self.counters),
        }
        if self.labels.size:
            sections[Section.CENTERS] = encode_centers(self.centers)
            sections[Section.LABELS] = encode_labels(self.labels, len(self.centers), coding="packed")
        sections |= padding(self.layout, sum(len(body) for body in sections.values()))
        return Message(
            MessageKind.BASE, "", layout=self.layout.fingerprint, gives=self.digest, sections=sections
        ).to_bytes()

    @classmethod
    def from_bytes(cls, data: Buffer, layout: Layout) -> Base:
        """Read what `to_bytes` wrote; its digest must fit."""
        message = Message.from_bytes(data)
        centers: Vector = np.empty(0, np.float32)
        labels: Labels = np.empty(0, np.uint8)
        size = len(message.section(Section.VALUES)) // 4
        if message.kind != MessageKind.BASE or message.layout != layout.fingerprint or size > layout.values:
            raise MessageError("this is no base of this model.")
        check_size(layout, len(data))  # labels of a single centre take no bytes
        if Section.CENTERS in message.sections:
            centers = decode_centers(message.section(Section.CENTERS))
            count = layout.values - size
            labels = decode_labels(message.section(Section.LABELS), count, len(centers))
        elif size != layout.values:
            raise MessageError("the base does not hold as many values as its model.")
        rest = decode_values(message.section(Section.VALUES), size)
        counters = decode_counters(message.section(Section.COUNTERS), layout.counters)
        base = cls(layout, centers, labels, rest, counters)
        if base.digest != message.gives:
            raise MessageError("the base is damaged: its digest does not fit.")
        return base
