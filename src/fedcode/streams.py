"""Whole numbers as one entropy-coded stream: pcodec with the settings that suit labels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.errors import MessageError
from fedcode.reader import Buffer

# How many numbers a page of the stream holds at most, so that it stays in the processor's cache. Each page has a table
# of its own (some 30 bytes and more), which weighs little beside so many bytes; pcodec takes up to 2^24 numbers a page.
PAGE = 1 << 18
_ENOUGH = 7_000
_MOST = 1 << 24
_MOST_JOINED = _MOST // PAGE


def pages(count: int) -> list[int]:
    """The sizes of the fewest even pages that `count` numbers fit in.

    >>> pages(600_000)
    [200000, 200000, 200000]
    """
    number = -(-count // PAGE)
    return [count * (i + 1) // number - count * i // number for i in range(number)]


def joined(number: int, bits: float) -> list[int]:
    """Which of `number` pages begin a page where numbers cost next to nothing: `bits` bits in all.

    >>> joined(5, 1e6), joined(5, 2e5), joined(5, 2e4)
    ([0, 1, 2, 3, 4], [0, 1, 3], [0])
    """
    pages = number
    while pages > 1 and bits / pages < 8 * _ENOUGH and -(-number // -(-pages // 2)) <= _MOST_JOINED:
        pages = -(-pages // 2)
    return [number * i // pages for i in range(pages)]


@functools.cache
def _specs() -> tuple[Any, Any]:
    from pcodec import DeltaSpec, ModeSpec

    return ModeSpec.classic(), DeltaSpec.no_op()  # no search for structure that labels do not have


def compress(values: npt.NDArray[Any], page_sizes: Sequence[int] | None = None, level: int = 8) -> bytes:
    """A row of unsigned integers of 8, 16, 32 or 64 bits as a standalone pcodec file."""
    from pcodec import ChunkConfig, PagingSpec, standalone

    mode, delta = _specs()
    sizes = list(pages(values.size) if page_sizes is None else page_sizes)
    config = ChunkConfig(
        compression_level=level,
        mode_spec=mode,
        delta_spec=delta,
        paging_spec=PagingSpec.exact_page_sizes(sizes),
        enable_8_bit=True,
    )
    data: bytes = standalone.simple_compress(np.ascontiguousarray(values), config)
    return data


def decompress(data: Buffer, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Just `count` numbers of `dtype`; anything else is a MessageError.

    pcodec reads up to the end that a stream marks by a zero and says nothing of what stands behind it. What does not
    end in a zero is refused; other bytes too many change no number.
    """
    from pcodec import standalone

    if not len(data) or data[-1] or count > len(data) * _MOST:
        raise MessageError(f"{len(data)} bytes cannot be a stream of {count} numbers, or are cut off.")
    # one more than there should be, so that a longer stream shows; what is not written takes no memory
    try:
        values = np.empty(count + 1, dtype)
    except MemoryError as error:
        raise MessageError(f"a stream of {count} numbers is expected, which this machine has no memory for.") from error
    try:
        progress = standalone.simple_decompress_into(bytes(data), values)
    except RuntimeError as error:
        raise MessageError(f"a stream of {count} numbers is damaged: {error}.") from error
    if progress.n_processed != count or not progress.finished:
        raise MessageError(f"a stream of {count} numbers is expected, got one of {progress.n_processed}.")
    return values[:count]
