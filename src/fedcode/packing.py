"""Labels as `ceil(log2 k)` bits each, the form that the papers count."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fedcode.errors import ArgumentError, MessageError
from fedcode.reader import Buffer

Labels = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]

MAX_LABELS = 1 << 16


def label_bits(k: int) -> int:
    """How many bits a label of `k` centres takes: ceil(log2 k).

    >>> [label_bits(k) for k in (1, 2, 3, 64, 65)]
    [0, 1, 2, 6, 7]
    """
    if not 1 <= k <= MAX_LABELS:
        raise ArgumentError(f"labels of 1 to {MAX_LABELS} centres can be coded, not of {k}.")
    return (k - 1).bit_length()


def label_type(k: int) -> type[np.uint8] | type[np.uint16]:
    """The dtype of labels of `k` centres."""
    return np.uint8 if k <= 256 else np.uint16


def no_labels(count: int, k: int) -> Labels:
    """What a codebook of one centre says: `count` times label 0."""
    zeros: Any = np.zeros(count, label_type(k))
    return cast(Labels, zeros)


def packed_size(count: int, bits: int) -> int:
    """How many bytes `count` labels of `bits` bits take."""
    return (count * bits + 7) // 8


def check_labels(labels: npt.ArrayLike, k: int) -> Labels:
    """The labels as one row of the dtype for `k`; one that is none of `k` is an ArgumentError."""
    label_bits(k)
    array = np.asarray(labels)
    if array.size and array.dtype.kind not in "ui":
        raise ArgumentError(f"labels are integers, got {array.dtype}.")
    if array.size and (int(array.max()) >= k or int(array.min()) < 0):
        raise ArgumentError(f"labels of {k} centres are 0 to {k - 1}, got {array.min()} to {array.max()}.")
    row: Any = np.ascontiguousarray(array.reshape(-1), label_type(k))
    return cast(Labels, row)


def pack(labels: npt.ArrayLike, k: int) -> bytes:
    """Label i in bits i*b to i*b+b-1 of the stream, b = ceil(log2 k); bit j of it is bit j%8 of byte j//8.

    >>> pack(np.array([1, 2, 3, 0], np.uint8), 4).hex()
    '39'
    """
    row = check_labels(labels, k)
    bits = label_bits(k)
    if not bits:
        return b""
    width = row.itemsize
    raw = row.astype(row.dtype.newbyteorder("<"), copy=False).view(np.uint8).reshape(-1, width)
    return np.packbits(
        np.unpackbits(raw, axis=1, count=bits, bitorder="little").reshape(-1), bitorder="little"
    ).tobytes()


def unpack(data: Buffer, count: int, k: int) -> Labels:
    """The `count` labels that `pack` wrote; uint8 up to 256 centres, else uint16.

    >>> unpack(bytes.fromhex("39"), 4, 4)
    array([1, 2, 3, 0], dtype=uint8)
    """
    bits = label_bits(k)
    if len(data) != packed_size(count, bits):
        raise MessageError(f"{count} labels of {bits} bits take {packed_size(count, bits)} bytes, got {len(data)}.")
    if not bits:
        return no_labels(count, k)
    flat = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if flat[count * bits :].any():
        raise MessageError("the bits after the last label are not zero.")
    rows = flat[: count * bits].reshape(count, bits)
    wide = np.zeros((count, 8 * np.dtype(label_type(k)).itemsize), np.uint8)
    wide[:, :bits] = rows
    raw = np.packbits(wide, axis=1, bitorder="little")
    labels: Any = raw.reshape(-1).view(np.dtype(label_type(k)).newbyteorder("<")).astype(label_type(k))
    if count and int(labels.max()) >= k:
        raise MessageError(f"a label is {int(labels.max())} where there are {k} centres.")
    return cast(Labels, labels)
