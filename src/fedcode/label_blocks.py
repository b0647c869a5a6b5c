"""The labels of a whole model in blocks, so that neither end need hold all of them at once.

Each block has 2^20 labels, the last what is left, and stands behind its length as a varint.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedcode.coding import decode_labels, encode_labels
from fedcode.packing import Labels
from fedcode.reader import Buffer, Reader, varint

BLOCK = 1 << 20


def places(count: int) -> Iterator[slice]:
    """Where each block of `count` labels stands.

    >>> list(places(BLOCK + 5))
    [slice(0, 1048576, None), slice(1048576, 1048581, None)]
    """
    for start in range(0, count, BLOCK):
        yield slice(start, min(start + BLOCK, count))


def encode_block(labels: Labels, k: int) -> bytes:
    """One block behind its length.

    >>> import numpy as np
    >>> encode_block(np.array([0, 1, 2, 1], np.uint8), 3).hex()
    '020164'
    """
    body = encode_labels(labels, k)
    return varint(len(body)) + body


def decode_blocks(data: Buffer, count: int, k: int) -> Iterator[Labels]:
    """The blocks of `count` labels of `k` centres, one at a time; nothing may follow the last."""
    reader = Reader(data, "the section of labels")
    for place in places(count):
        body = reader.take(reader.varint(reader.left))
        yield decode_labels(body, place.stop - place.start, k)
    reader.end()
