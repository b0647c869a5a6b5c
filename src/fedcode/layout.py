"""What a model is made of: the name, shape, dtype and kind of every entry, and its place in the flat vector.

The flat vector of a model holds its floating-point values in this order, entries of one kind in the
order of the model:

    matrices | vectors | statistics | variances
    '---- weights ----'

A matrix is a trained tensor of two or more dimensions, a vector one of fewer. Counters are 64-bit
integers in an array of their own.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache

from fedcode.errors import MessageError
from fedcode.reader import Buffer, Reader, text, varint, view


class Kind(IntEnum):
    """What an entry is."""

    WEIGHT = 0  # trained
    STATISTIC = 1  # floating-point, not trained
    VARIANCE = 2  # a statistic that must stay positive
    COUNTER = 3  # integer or boolean


# The place in this list is the dtype's code on the wire: append only.
DTYPES = (
    "float32",
    "float16",
    "bfloat16",
    "float64",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
)
FLOATS = DTYPES[:4]

MAX_ENTRIES = 1 << 20
MAX_NAME = 1 << 12
MAX_DIMENSIONS = 32
MAX_VALUES = 1 << 40
_MAX_LAYOUT_BYTES = 1 << 26

# How far a compressed layout may swell: a small hostile message must not grow into a large table. The names
# of a model of 94,000 entries shrink 23 times, to 2.5 bytes an entry.
_BYTES_A_BYTE = 64
_ENTRIES_A_BYTE = 1
_FREE = 1 << 12
_KEPT = 1 << 16


@dataclass(frozen=True)
class Entry:
    """One named tensor. `tied` names an earlier entry that is the same tensor, and then nothing is stored."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: Kind
    tied: str | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_matrix(self) -> bool:
        return self.kind == Kind.WEIGHT and len(self.shape) >= 2


@dataclass(frozen=True)
class Layout:
    """The entries of a model in their order.

    >>> bias = Entry("bias", (2,), "float32", Kind.WEIGHT)
    >>> layout = Layout((bias, Entry("w", (2, 3), "float32", Kind.WEIGHT)))
    >>> layout.places["w"], layout.places["bias"], layout.weights
    (slice(0, 6, None), slice(6, 8, None), 8)
    >>> Layout.from_bytes(layout.to_bytes()) == layout
    True
    """

    entries: tuple[Entry, ...]

    @cached_property
    def places(self) -> dict[str, slice]:
        """Where each entry's values stand: in the flat vector, for a counter in the array of counters."""
        order = sorted(
            (entry for entry in self.entries if entry.tied is None),
            key=lambda entry: (entry.kind, not entry.is_matrix),
        )
        places: dict[str, slice] = {}
        ends = {False: 0, True: 0}
        for entry in order:
            counter = entry.kind == Kind.COUNTER
            places[entry.name] = slice(ends[counter], ends[counter] + entry.size)
            ends[counter] += entry.size
        for entry in self.entries:
            if entry.tied is not None:
                places[entry.name] = places[entry.tied]
        return places

    def of_kind(self, *kinds: Kind) -> tuple[Entry, ...]:
        """The stored entries of these kinds, in the order of the model."""
        return tuple(entry for entry in self.entries if entry.kind in kinds and entry.tied is None)

    def _count(self, *kinds: Kind) -> int:
        return sum(entry.size for entry in self.of_kind(*kinds))

    @cached_property
    def matrices(self) -> int:
        """How many values the trained tensors of two or more dimensions hold."""
        return sum(entry.size for entry in self.of_kind(Kind.WEIGHT) if entry.is_matrix)

    @cached_property
    def weights(self) -> int:
        """P: how many trained values there are."""
        return self._count(Kind.WEIGHT)

    @cached_property
    def values(self) -> int:
        """The length of the flat vector: weights and statistics."""
        return self._count(Kind.WEIGHT, Kind.STATISTIC, Kind.VARIANCE)

    @cached_property
    def counters(self) -> int:
        """How many integers there are."""
        return self._count(Kind.COUNTER)

    @cached_property
    def tensors(self) -> tuple[tuple[Entry, slice], ...]:
        """The trained tensors that hold anything, with their places, in the order of the flat vector."""
        found = [(entry, self.places[entry.name]) for entry in self.of_kind(Kind.WEIGHT) if entry.size]
        return tuple(sorted(found, key=lambda pair: pair[1].start))

    @cached_property
    def statistics(self) -> tuple[tuple[Entry, slice], ...]:
        """The statistics that hold anything, with their places, in the order of the flat vector."""
        kinds = (Kind.STATISTIC, Kind.VARIANCE)
        found = [(entry, self.places[entry.name]) for entry in self.of_kind(*kinds) if entry.size]
        return tuple(sorted(found, key=lambda pair: pair[1].start))

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes that name this layout."""
        return hashlib.blake2b(self._plain_bytes(), digest_size=8).digest()

    def _plain_bytes(self) -> bytes:
        indices = {entry.name: index for index, entry in enumerate(self.entries)}
        out = bytearray(varint(len(self.entries)))
        for entry in self.entries:
            out += text(entry.name)
            out += bytes((entry.kind, DTYPES.index(entry.dtype)))
            out += varint(0 if entry.tied is None else indices[entry.tied] + 1)
            out += varint(len(entry.shape))
            for length in entry.shape:
                out += varint(length)
        return bytes(out)

    def to_bytes(self) -> bytes:
        """The layout as a zlib stream; names repeat themselves, so it shrinks to a fifth."""
        plain = self._plain_bytes()
        packed = zlib.compress(plain, 9)
        if not _believable(len(plain), len(self.entries), len(packed)):
            packed = zlib.compress(plain, 0)
        return varint(len(plain)) + packed

    @classmethod
    def from_bytes(cls, data: Buffer) -> Layout:
        """Read what `to_bytes` wrote; anything else is a MessageError."""
        packed = bytes(view(data, "the layout"))
        # a large one is read anew: what is kept for later must not grow with what hostile messages declare
        return _read(packed) if len(packed) <= _KEPT else cls._unpack(packed)

    @classmethod
    def _unpack(cls, data: bytes) -> Layout:
        outer = Reader(data, "the layout")
        size = outer.varint(_MAX_LAYOUT_BYTES)
        packed = outer.take(outer.left)
        if not _believable(size, 0, len(packed)):
            raise MessageError(f"the layout declares {size} bytes in a stream of {len(packed)}.")
        inflate = zlib.decompressobj()
        try:
            plain = inflate.decompress(packed, size + 1)
        except zlib.error as error:
            raise MessageError(f"the layout is damaged: {error}.") from error
        if len(plain) != size or not inflate.eof or inflate.unused_data:
            raise MessageError(f"the layout is damaged: it does not hold just the {size} bytes that it declares.")
        reader = Reader(plain, "the layout")
        count = reader.varint(MAX_ENTRIES)
        if not _believable(size, count, len(packed)):
            raise MessageError(f"the layout declares {count} entries in a stream of {len(packed)} bytes.")
        return cls._parse(reader, count)

    @classmethod
    def _parse(cls, reader: Reader, count: int) -> Layout:
        entries: list[Entry] = []
        names: set[str] = set()
        total = 0
        for _ in range(count):
            name = reader.text(MAX_NAME)
            kind, dtype, tied = reader.u8(), reader.u8(), reader.varint(len(entries))
            shape = tuple(reader.varint(MAX_VALUES) for _ in range(reader.varint(MAX_DIMENSIONS)))
            if name in names:
                raise MessageError(f"the layout names {name!r} twice.")
            if kind >= len(Kind) or dtype >= len(DTYPES):
                raise MessageError(f"the layout gives {name!r} a kind or dtype that does not exist.")
            if (kind == Kind.COUNTER) == (DTYPES[dtype] in FLOATS):
                raise MessageError(f"the layout calls {name!r}, {DTYPES[dtype]}, a {Kind(kind).name.lower()}.")
            twin = entries[tied - 1] if tied else None
            entry = Entry(name, shape, DTYPES[dtype], Kind(kind), twin.name if twin else None)
            if twin and (twin.tied or (twin.shape, twin.dtype, twin.kind) != (shape, entry.dtype, kind)):
                raise MessageError(f"the layout ties {name!r} to an entry that it cannot be the same as.")
            # A length of zero must not hide the others: no array can have such a shape, empty or not.
            total += math.prod(length or 1 for length in shape)
            if total > MAX_VALUES:
                raise MessageError(f"the layout's entries up to {name!r} hold more values than any model has.")
            names.add(name)
            entries.append(entry)
        reader.end()
        return cls(tuple(entries))


@lru_cache(maxsize=8)  # every client is sent the same layout
def _read(data: bytes) -> Layout:
    return Layout._unpack(data)


def _believable(plain: int, entries: int, packed: int) -> bool:
    """Whether a stream of `packed` bytes may hold so many bytes and entries."""
    return plain <= _FREE + _BYTES_A_BYTE * packed and entries <= _FREE + _ENTRIES_A_BYTE * packed
