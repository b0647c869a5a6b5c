"""Byte strings one after the other, each with its length."""

from __future__ import annotations

from collections.abc import Iterable

from fedcode.reader import Buffer, Reader, varint


def join(parts: Iterable[bytes]) -> bytes:
    """Each part behind the varint of its length.

    >>> join([b"ab", b""]).hex()
    '02616200'
    """
    return b"".join(varint(len(part)) + part for part in parts)


def split(data: Buffer) -> list[memoryview]:
    """What `join` joined, without a copy.

    >>> [bytes(part) for part in split(bytes.fromhex("02616200"))]
    [b'ab', b'']
    """
    reader = Reader(data, "a list of byte strings")
    parts = []
    while reader.left:
        parts.append(reader.take(reader.varint()))
    return parts
