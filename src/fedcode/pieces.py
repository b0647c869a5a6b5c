"""Long rows of numbers that are never whole: joined, cut anew, and watched as they pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.errors import MessageError
from fedcode.progress import Progress

Array = npt.NDArray[Any]


def blocks(pieces: Iterable[Array], total: int, size: int) -> Iterator[Array]:
    """Pieces of any length as blocks of `size`, the last shorter. Each block is overwritten by the next.

    >>> [block.tolist() for block in blocks([np.arange(3), np.arange(2)], total=5, size=4)]
    [[0, 1, 2, 0], [1]]
    """
    block: Array | None = None
    filled = 0
    for piece in pieces:
        if block is None:
            block = np.empty(min(total, size), piece.dtype)
        at = 0
        while at < len(piece):
            part = piece[at : at + len(block) - filled]
            block[filled : filled + len(part)] = part
            filled += len(part)
            at += len(part)
            if filled == len(block):
                yield block
                filled = 0
    if block is not None and filled:
        yield block[:filled]


def joined(pieces: Iterable[Array], total: int, dtype: npt.DTypeLike) -> Array:
    """Pieces as one row.

    >>> joined([np.arange(3), np.arange(2)], 5, np.int64)
    array([0, 1, 2, 0, 1])
    """
    row = np.empty(total, dtype)
    at = 0
    for piece in pieces:
        row[at : at + len(piece)] = piece
        at += len(piece)
    assert at == total, (at, total)
    return row


def counted(pieces: Iterable[Array], stage: str, total: int, progress: Progress) -> Iterator[Array]:
    """The pieces as they are, and `progress` told of each that has been used."""
    done = 0
    for piece in pieces:
        yield piece
        done += len(piece)
        progress(stage, done, total)


class Parts:
    """A row that arrives in pieces and is taken in parts of other lengths.

    >>> parts = Parts(iter([np.arange(3), np.arange(2)]))
    >>> [piece.tolist() for piece in parts.take(4)], [piece.tolist() for piece in parts.take(1)]
    ([[0, 1, 2], [0]], [[1]])
    """

    def __init__(self, pieces: Iterator[Array]) -> None:
        self._pieces = pieces
        self._left: Array = np.empty(0)

    def take(self, size: int) -> Iterator[Array]:
        """The next `size` values, in pieces; all of them must be used before the next part is taken."""
        while size:
            if not len(self._left):
                self._left = next(self._pieces)
            piece, self._left = self._left[:size], self._left[size:]
            size -= len(piece)
            yield piece

    def end(self) -> None:
        """MessageError where something is left."""
        if len(self._left) or next(self._pieces, None) is not None:
            raise MessageError("there are more values than the layout has places.")
