"""Whole numbers as one entropy-coded stream: pcodec with the settings that suit labels."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.errors import MessageError
from fedcode.reader import Buffer


@functools.cache
def _config() -> Any:
    from pcodec import ChunkConfig, DeltaSpec, ModeSpec

    return ChunkConfig(
        compression_level=8,
        mode_spec=ModeSpec.classic(),  # no search for structure that labels do not have
        delta_spec=DeltaSpec.no_op(),
        enable_8_bit=True,
    )


def compress(values: npt.NDArray[Any]) -> bytes:
    """A row of unsigned integers of 8, 16, 32 or 64 bits as a standalone pcodec file."""
    from pcodec import standalone

    data: bytes = standalone.simple_compress(np.ascontiguousarray(values), _config())
    return data


def decompress(data: Buffer, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Just `count` numbers of `dtype`; anything else is a MessageError."""
    from pcodec import standalone

    # one more than there should be, so that a longer stream shows
    values = np.zeros(count + 1, dtype)
    try:
        progress = standalone.simple_decompress_into(bytes(data), values)
    except RuntimeError as error:
        raise MessageError(f"a stream of {count} numbers is damaged: {error}.") from error
    if progress.n_processed != count or not progress.finished:
        raise MessageError(f"a stream of {count} numbers is expected, got one of {progress.n_processed}.")
    return values[:count]
