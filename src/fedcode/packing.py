"""Labels as `ceil(log2 k)` bits each, the form that the papers count."""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fedcode.errors import ArgumentError, MessageError
from fedcode.kernels import available, in_chunks, kernel
from fedcode.reader import Buffer

Labels = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]

MAX_LABELS = 1 << 16

# The unit that threads share out: 64 labels of b bits fill just b words of 64 bits. A thread costs as much to
# start as some hundred thousand labels to pack.
_BLOCK = 64
_LEAST_BLOCKS = 1 << 15


def label_bits(k: int) -> int:
    """How many bits a label of `k` centres takes: ceil(log2 k).

    >>> [label_bits(k) for k in (1, 2, 3, 64, 65)]
    [0, 1, 2, 6, 7]
    """
    if not 1 <= k <= MAX_LABELS:
        raise ArgumentError(f"labels of 1 to {MAX_LABELS} centres can be coded, not of {k}.")
    return (int(k) - 1).bit_length()


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
    outside = array.size and (int(array.max()) >= k or (array.dtype.kind == "i" and int(array.min()) < 0))
    if outside:
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
    if not bits or not row.size:
        return b""
    packed = _pack_by_words(row, bits) if _compiled() else _pack_plainly(row, bits)
    return packed.tobytes()


def unpack(data: Buffer, count: int, k: int) -> Labels:
    """The `count` labels that `pack` wrote; uint8 up to 256 centres, else uint16.

    >>> unpack(bytes.fromhex("39"), 4, 4)
    array([1, 2, 3, 0], dtype=uint8)
    """
    bits = label_bits(k)
    size = packed_size(count, bits)
    if len(data) != size:
        raise MessageError(f"{count} labels of {bits} bits take {size} bytes, got {len(data)}.")
    if not size:
        return no_labels(count, k)
    if data[-1] >> ((count * bits - 1) % 8 + 1):
        raise MessageError("the bits after the last label are not zero.")
    row = _unpack_by_words(data, count, k, bits) if _compiled() else _unpack_plainly(data, count, k, bits)
    if k != 1 << bits and int(row.max()) >= k:
        raise MessageError(f"a label is {int(row.max())} where there are {k} centres.")
    return row


def _compiled() -> bool:
    # The kernels see labels and stream as words of 64 bits, whose first byte must be their lowest.
    return sys.byteorder == "little" and available()


def _pack_plainly(row: Labels, bits: int) -> npt.NDArray[np.uint8]:
    raw = row.astype(row.dtype.newbyteorder("<"), copy=False).view(np.uint8).reshape(-1, row.itemsize)
    return np.packbits(np.unpackbits(raw, axis=1, count=bits, bitorder="little").reshape(-1), bitorder="little")


def _unpack_plainly(data: Buffer, count: int, k: int, bits: int) -> Labels:
    dtype = np.dtype(label_type(k))
    flat = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little", count=count * bits)
    wide = np.zeros((count, 8 * dtype.itemsize), np.uint8)
    wide[:, :bits] = flat.reshape(count, bits)
    raw = np.packbits(wide, axis=1, bitorder="little")
    row: Any = raw.reshape(-1).view(dtype.newbyteorder("<")).astype(dtype, copy=False)
    return cast(Labels, row)


def _pack_by_words(row: Labels, bits: int) -> npt.NDArray[np.uint8]:
    lanes = 8 // row.itemsize
    inside = row.size // _BLOCK * _BLOCK
    words = np.empty(-(-row.size // _BLOCK) * bits, np.uint64)
    steps = _steps(bits, row.itemsize)
    # numba reads words at their own alignment only, and a label's array may begin anywhere
    aligned = row if row.ctypes.data % 8 == 0 else row.copy()
    source = aligned[:inside].view(np.uint64)

    def work(start: int, stop: int) -> None:
        labels = source[start * _BLOCK // lanes : stop * _BLOCK // lanes]
        _close(labels, bits * lanes, steps, words[start * bits : stop * bits])

    in_chunks(work, inside // _BLOCK, _LEAST_BLOCKS)
    if inside < row.size:
        last = np.zeros(_BLOCK, row.dtype)
        last[: row.size - inside] = row[inside:]
        _close(last.view(np.uint64), bits * lanes, steps, words[len(words) - bits :])
    return words.view(np.uint8)[: packed_size(row.size, bits)]


def _unpack_by_words(data: Buffer, count: int, k: int, bits: int) -> Labels:
    blocks = -(-count // _BLOCK)
    stream = np.empty(blocks * bits * 8, np.uint8)
    stream[: len(data)] = np.frombuffer(data, np.uint8)
    stream[len(data) :] = 0
    words = stream.view(np.uint64)
    row = np.empty(blocks * _BLOCK, label_type(k))
    lanes = 8 // row.itemsize
    target = row.view(np.uint64)
    steps = _steps(bits, row.itemsize)

    def work(start: int, stop: int) -> None:
        labels = target[start * _BLOCK // lanes : stop * _BLOCK // lanes]
        _open(words[start * bits : stop * bits], bits * lanes, steps, labels)

    in_chunks(work, blocks, _LEAST_BLOCKS)
    return cast(Labels, row[:count])


def _steps(bits: int, itemsize: int) -> npt.NDArray[np.uint64]:
    """How the gaps between the labels of one word close: which lanes stay, how far the others move down.

    First the odd lanes of 8 bits, then of 16, then of 32. Labels of 16 bits have nothing to do in the first.
    """
    pair = 2 * bits if itemsize == 1 else bits
    first = (0x00FF00FF00FF00FF, 8 - bits) if itemsize == 1 else (0xFFFFFFFFFFFFFFFF, 0)
    return np.array([*first, 0x0000FFFF0000FFFF, 16 - pair, 0x00000000FFFFFFFF, 32 - 2 * pair], np.uint64)


def _no_plain(*_: Any) -> None:
    raise AssertionError("numpy packs without words")


@kernel(plain=_no_plain)
def _close(source: Any, width: int, steps: Any, out: Any) -> None:
    """Words of labels to a stream in which each word takes `width` bits."""
    stay8, down8, stay16, down16, stay32, down32 = steps[0], steps[1], steps[2], steps[3], steps[4], steps[5]
    step, whole, one = np.uint64(width), np.uint64(64), np.uint64(1)
    waiting, fill = np.uint64(0), np.uint64(0)
    at = 0
    for i in range(source.size):
        word = source[i]
        word = (word & stay8) | ((word & ~stay8) >> down8)
        word = (word & stay16) | ((word & ~stay16) >> down16)
        word = (word & stay32) | ((word & ~stay32) >> down32)
        waiting |= word << fill
        fill += step
        if fill >= whole:
            out[at] = waiting
            at += 1
            fill -= whole
            waiting = (word >> one) >> (step - fill - one)  # two steps: a shift by 64 is undefined


@kernel(plain=_no_plain)
def _open(source: Any, width: int, steps: Any, out: Any) -> None:
    """The inverse of `_close`: the same steps, backwards."""
    down8, down16, down32 = steps[1], steps[3], steps[5]
    # what stays is what a lane's low bits hold once the lane above has come down to them
    stay8, stay16, stay32 = (steps[0] >> down8) & steps[0], (steps[2] >> down16) & steps[2], steps[4] >> down32
    step, whole = np.uint64(width), np.uint64(64)
    low = ~np.uint64(0) >> (whole - step)
    fill = np.uint64(0)
    at = 0
    for i in range(out.size):
        word = source[at] >> fill
        fill += step
        if fill >= whole:
            fill -= whole
            at += 1
            if fill:
                word |= source[at] << (step - fill)
        word &= low
        word = (word & stay32) | ((word & ~stay32) << down32)
        word = (word & stay16) | ((word & ~stay16) << down16)
        out[i] = (word & stay8) | ((word & ~stay8) << down8)
