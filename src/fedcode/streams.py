"""Whole numbers as one entropy-coded stream: pcodec with the settings that suit labels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.errors import MessageError
from fedcode.reader import Buffer

# How many numbers a page of the stream holds; each page has a table of its own.
PAGE = 1 << 18
_MAX_PAGE = 1 << 24


def pages(count: int, bits: float = 8.0) -> list[int]:
    """The sizes of the pages of `count` numbers that cost about `bits` bits each.

    Pages of 2^18 numbers stay in the processor's cache. Where numbers cost next to nothing a page holds more of
    them, so that its table (some 30 bytes) still weighs little.

    >>> pages(600_000), pages(600_000, 0.1)
    ([200000, 200000, 200000], [600000])
    """
    size = PAGE
    while size < _MAX_PAGE and size * bits < 8 * 10_000:
        size *= 4
    number = -(-count // size)
    return [count * (i + 1) // number - count * i // number for i in range(number)]


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
    """Just `count` numbers of `dtype`; anything else is a MessageError."""
    from pcodec import standalone

    # one more than there should be, so that a longer stream shows; zeros take no memory until they are written
    values = np.zeros(count + 1, dtype)
    try:
        progress = standalone.simple_decompress_into(bytes(data), values)
    except RuntimeError as error:
        raise MessageError(f"a stream of {count} numbers is damaged: {error}.") from error
    if progress.n_processed != count or not progress.finished:
        raise MessageError(f"a stream of {count} numbers is expected, got one of {progress.n_processed}.")
    return values[:count]
