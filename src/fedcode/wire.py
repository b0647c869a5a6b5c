"""A message and its bytes: a header, sections, a checksum. docs/wire-format.md is the specification.

    magic "\\x93FC" | version | kind | federation 8 | layout 8 | base 8 | gives 8 | seed 4
    method | round | accepted | examples | asks | sections | CRC-32

Reading checks every length before it is used and copies nothing; whatever is wrong is a MessageError.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from fedcode.errors import MessageError
from fedcode.reader import Buffer, Reader, text, varint
from fedcode.reader import view as bytes_view

MAGIC = b"\x93FC"
VERSION = 1
NOTHING = bytes(8)  # the digest of no base, the id of no federation, the fingerprint of no layout

_FIXED = struct.Struct("<3sBB8s8s8s8sI")
_CHECKSUM = struct.Struct("<I")
_MAX_NAME = 64
_MAX_ASKS = 64
_MAX_SECTIONS = 64
_MAX_COUNT = (1 << 63) - 1

# What may be asked of a client, by its number on the wire: append only. Other names are spelt out.
ASKS = (
    "",
    "full",
    "clusters",
    "labels",
    "statistics",
    "bits",
    "residual",
    "proximal",
    "density",
    "levels",
    "bucket",
    "keep",
    "vector_bits",
    "debias",
    "mask",
    "silent",
    "warm",
)


class MessageKind(IntEnum):
    """Who says it, and what for."""

    BROADCAST = 1  # server to client: a model to train from
    REPLY = 2  # client to server: what came of it
    EVALUATE = 3  # server to client: a model to evaluate
    HELLO = 4  # either way: who is there
    CANNOT_USE = 5  # client to server: that message was of no use to me
    MEMORY = 6  # client to itself: what it must keep
    MODEL = 7  # a file: a whole model
    BASE = 8  # inside a memory or a checkpoint: weights that both ends hold
    SERVER = 9  # server to itself: a checkpoint


class Section(IntEnum):
    """What a section holds. Numbers from 128 on are free for methods from outside the package."""

    LAYOUT = 1  # names, shapes, dtypes and kinds
    VALUES = 2  # floats, of the vector or of what the method says
    CENTERS = 3  # a codebook: float32, ascending
    LABELS = 4  # labels of a codebook
    STATISTICS = 5  # what is not trained, floating-point
    COUNTERS = 6  # what is not trained, integers
    POSITIONS = 7  # which values: sorted indices
    SCALES = 8  # one float a tensor or bucket
    VECTORS = 9  # trained tensors of fewer than two dimensions
    SIZES = 10  # how many centres, or values, each tensor has
    FLAGS = 11  # one bit a value
    RESIDUAL = 12  # what was not sent
    OWN = 13  # a client's own last model
    BASES = 14  # bases, one after the other
    PENDING = 15  # what waits to be acknowledged
    PADDING = 16  # zeros
    EXTRA = 17  # what a method keeps
    ERROR = 18  # the squared error of the weights as a share of their energy: one float32
    CHANGES = 19  # changes of few weights, one round after the other
    LADDER = 20  # a codebook in even steps


@dataclass(frozen=True)
class Message:
    """One message. Digests and ids are eight bytes; `NOTHING` stands for none.

    >>> message = Message(MessageKind.BROADCAST, "fedcode", round=3, asks={"clusters": 64, "full": 1})
    >>> data = message.to_bytes()
    >>> Message.from_bytes(data) == message, len(data)
    (True, 63)
    """

    kind: MessageKind
    method: str
    round: int = 0
    federation: bytes = NOTHING
    layout: bytes = NOTHING  # the layout's fingerprint
    base: bytes = NOTHING  # what it is coded against
    gives: bytes = NOTHING  # the base that it gives; in a reply: the newest that its sender holds
    accepted: int = 0  # the last round of which the server accepted this client's reply
    seed: int = 0  # 32 bits, for what is drawn at random
    examples: int = 0  # in a reply: how many examples it was trained on
    asks: Mapping[str, float] = field(default_factory=dict)  # what is asked back and how it is coded
    sections: Mapping[int, Buffer] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The message as bytes."""
        return b"".join(self.parts())

    def parts(self) -> list[Buffer]:
        """The message's bytes in parts, the sections uncopied: a long message is written without being joined."""
        for digest in (self.federation, self.layout, self.base, self.gives):
            assert len(digest) == 8, digest
        head = bytearray(
            _FIXED.pack(MAGIC, VERSION, self.kind, self.federation, self.layout, self.base, self.gives, self.seed)
        )
        head += text(self.method)
        head += varint(self.round) + varint(self.accepted) + varint(self.examples)
        head += varint(len(self.asks))
        for name, value in self.asks.items():
            head += _ask(name, value)
        head += varint(len(self.sections))
        for tag, body in self.sections.items():
            head += bytes((tag,)) + varint(len(body))
        parts: list[Buffer] = [bytes(head), *self.sections.values()]
        checksum = 0
        for part in parts:
            checksum = zlib.crc32(part, checksum)
        return [*parts, _CHECKSUM.pack(checksum)]

    @classmethod
    def from_bytes(cls, data: Buffer) -> Message:
        """Read a message; its sections are views of `data`."""
        view = bytes_view(data, "a message")
        if len(view) < _FIXED.size + _CHECKSUM.size:
            raise MessageError(f"{len(view)} bytes are too few for a message of fedcode.")
        magic, version, kind, federation, layout, base, gives, seed = _FIXED.unpack_from(view)
        if magic != MAGIC:
            raise MessageError(f"this is no message of fedcode: it begins with {magic!r}, not with {MAGIC!r}.")
        if version != VERSION:
            raise MessageError(f"the message has format version {version}; this release reads {VERSION}.")
        body, (checksum,) = view[: -_CHECKSUM.size], _CHECKSUM.unpack(view[-_CHECKSUM.size :])
        if zlib.crc32(body) != checksum:
            raise MessageError("the message is damaged: its checksum does not fit. Have it sent again.")
        if kind not in MessageKind.__members__.values():
            raise MessageError(f"the message is of kind {kind}, which this release does not know.")
        reader = Reader(body, "the message")
        reader.take(_FIXED.size)
        method = reader.text(_MAX_NAME)
        number, accepted, examples = (reader.varint(_MAX_COUNT) for _ in range(3))
        asks: dict[str, float] = {}
        for _ in range(reader.varint(_MAX_ASKS)):
            name, value = _read_ask(reader)
            if name in asks:
                raise MessageError(f"the message asks for {name} twice.")
            asks[name] = value
        lengths: dict[int, int] = {}
        for _ in range(reader.varint(_MAX_SECTIONS)):
            tag, length = reader.u8(), reader.varint()
            if tag in lengths:
                raise MessageError(f"the message holds section {tag} twice.")
            lengths[tag] = length
        sections = {tag: reader.take(length) for tag, length in lengths.items()}
        reader.end()
        return cls(
            MessageKind(kind), method, number, federation, layout, base, gives, accepted, seed, examples,
            asks, sections,
        )  # fmt: skip

    def section(self, tag: int) -> Buffer:
        """A section that must be there."""
        if tag not in self.sections:
            name = Section(tag).name.lower() if tag in Section.__members__.values() else str(tag)
            raise MessageError(f"the {self.kind.name.lower()} message of {self.method} lacks its {name} section.")
        return self.sections[tag]


def peek(data: Buffer) -> tuple[MessageKind, bytes]:
    """A message's kind and federation from its first bytes alone: enough to know where its memory lies.

    >>> peek(Message(MessageKind.HELLO, "fedcode", federation=b"training").to_bytes())
    (<MessageKind.HELLO: 4>, b'training')
    """
    view = bytes_view(data, "a message")
    if len(view) < _FIXED.size or bytes(view[: len(MAGIC)]) != MAGIC:
        raise MessageError(f"this is no message of fedcode: it begins with {bytes(view[:3])!r}, not with {MAGIC!r}.")
    _, _, kind, federation, *_ = _FIXED.unpack_from(view)
    if kind not in MessageKind.__members__.values():
        raise MessageError(f"the message is of kind {kind}, which this release does not know.")
    return MessageKind(kind), federation


def _ask(name: str, value: float) -> bytes:
    """Number (or 0 and name), then twice a whole number, or 1 and a double."""
    known = ASKS.index(name) if name in ASKS[1:] else 0
    head = varint(known) if known else varint(0) + text(name)
    if isinstance(value, int) and 0 <= value < 1 << 62:
        return head + varint(value << 1)
    return head + varint(1) + struct.pack("<d", value)


def _read_ask(reader: Reader) -> tuple[str, float]:
    known = reader.varint(len(ASKS) - 1)
    name = ASKS[known] if known else reader.text(_MAX_NAME)
    value = reader.varint()
    if value == 1:
        (double,) = struct.unpack("<d", reader.take(8))
        if double != double or double in (float("inf"), float("-inf")):
            raise MessageError(f"the message asks for {name} of {double}.")
        return name, double
    if value & 1:
        raise MessageError(f"the message writes {name} in a form that does not exist.")
    return name, value >> 1
