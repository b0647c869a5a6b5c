"""Numbers to bytes and back: labels, positions, small integers, floats; docs/wire-format.md has the bytes.

Labels are coded in one of four ways, named by their first byte: packed, entropy coded, or entropy coded given the
labels that both ends expect, in one stream or in one for each group of these. Nothing to say (no labels, one centre)
is no byte at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.context import difference, follow
from fedcode.errors import ArgumentError, MessageError
from fedcode.groups import MAX_GROUPS, grouping, part, sizes, unite
from fedcode.packing import Labels, check_labels, label_bits, no_labels, pack, packed_size, unpack
from fedcode.reader import Buffer, Reader, varint
from fedcode.sparse import decode_positions, encode_positions
from fedcode.streams import compress, decompress
from fedcode.symbols import RANKED, SPLIT, Survey, decode_symbols, encode_symbols

__all__ = [
    "CODINGS",
    "decode_floats",
    "decode_integers",
    "decode_labels",
    "decode_positions",
    "encode_floats",
    "encode_integers",
    "encode_labels",
    "encode_positions",
    "pack",
    "unpack",
]

CODINGS = ("smallest", "packed", "entropy", "context")
PACKED, ENTROPY, CONTEXT, GROUPS = 1, 2, 3, 4
_FORMS = SPLIT | RANKED


def encode_labels(
    labels: npt.ArrayLike, k: int, *, coding: str = "smallest", context: npt.ArrayLike | None = None
) -> bytes:
    """Labels of `k` centres as bytes. `context`: the label that both ends expect at each place.

    >>> labels = np.array([0, 1, 2, 1], np.uint8)
    >>> encode_labels(labels, 3).hex()
    '0164'
    >>> decode_labels(bytes.fromhex("0164"), 4, 3)
    array([0, 1, 2, 1], dtype=uint8)
    """
    if coding not in CODINGS:
        raise ArgumentError(f"a coding is one of {', '.join(CODINGS)}, not {coding!r}.")
    if coding == "context" and context is None:
        raise ArgumentError("coding='context' needs the labels that both ends expect: context=.")
    row = check_labels(labels, k)
    expected = None if context is None else _context(context, len(row), k)
    if not row.size or k == 1:
        return b""
    if coding == "packed":
        return bytes((PACKED,)) + pack(row, k)
    # A way is tried only where its entropy, which it cannot undercut, leaves room below the best so far: mostly
    # one is enough, and yet the smallest is found.
    least = 1 + packed_size(len(row), label_bits(k)) if coding == "smallest" else None
    best = b""
    for floor, encode in sorted(_ways(row, k, coding, expected), key=lambda found: found[0]):
        if least is None or 1 + floor < least:
            data = encode()
            if least is None or len(data) < least:
                least, best = len(data), data
    return best or bytes((PACKED,)) + pack(row, k)


def _ways(row: Labels, k: int, coding: str, expected: Labels | None) -> Iterator[tuple[int, Callable[[], bytes]]]:
    """What may be tried: its least size in bytes, and how to do it."""
    if coding != "context":
        survey = Survey.of(row, k)
        yield survey.floor, partial(_symbols, ENTROPY, survey)
    if coding != "entropy" and expected is not None:
        steps = difference(row, expected, k)
        groups = grouping(steps, expected, k)
        if groups is None:
            survey = Survey.of(steps, k)
            yield survey.floor, partial(_symbols, CONTEXT, survey)
        else:
            parts = part(steps, expected, groups)
            surveys = [Survey.of(found, k) for found in parts if found.size]
            yield sum(found.floor for found in surveys), partial(_grouped, parts, groups, k)


def _symbols(way: int, survey: Survey) -> bytes:
    form, body = encode_symbols(survey)
    return bytes((way | form,)) + body


def _grouped(parts: list[Any], groups: npt.NDArray[np.uint8], k: int) -> bytes:
    bodies = [encode_labels(found, k) for found in parts]
    lengths = b"".join(varint(len(body)) for body in bodies)
    return bytes((GROUPS, len(parts))) + pack(groups, len(parts)) + lengths + b"".join(bodies)


def decode_labels(data: Buffer, count: int, k: int, *, context: npt.ArrayLike | None = None) -> Labels:
    """The `count` labels that `encode_labels` wrote; uint8 up to 256 centres, else uint16."""
    label_bits(k)
    if not count or k == 1:
        if len(data):
            raise MessageError(f"{count} labels of {k} centres take no bytes, got {len(data)}.")
        return no_labels(count, k)
    if not len(data):
        raise MessageError(f"{count} labels of {k} centres are expected, got no bytes.")
    coding, body = data[0], memoryview(data).cast("B")[1:]
    if coding == PACKED:
        return unpack(body, count, k)
    way, form = coding & ~_FORMS, coding & _FORMS
    if way not in (ENTROPY, CONTEXT) and coding != GROUPS:
        raise MessageError(f"the labels are coded in way {coding}, which this release does not know.")
    if way == ENTROPY:
        return decode_symbols(body, form, count, k)
    if context is None:
        raise MessageError("the labels are coded against labels that this end does not hold.")
    expected = _context(context, count, k)
    steps = _ungrouped(body, expected, k) if way == GROUPS else decode_symbols(body, form, count, k)
    return follow(steps, expected, k)


def _ungrouped(body: Buffer, expected: Labels, k: int) -> Labels:
    reader = Reader(body, "the labels in groups")
    number = reader.u8()
    if not 2 <= number <= MAX_GROUPS:
        raise MessageError(f"labels are coded in 2 to {MAX_GROUPS} groups, not in {number}.")
    groups = unpack(reader.take(packed_size(k, label_bits(number))), k, number).astype(np.uint8, copy=False)
    counts = sizes(expected, groups, number)
    bodies = [reader.take(length) for length in [reader.varint(reader.left) for _ in counts]]
    reader.end()
    parts = [decode_labels(found, count, k) for found, count in zip(bodies, counts, strict=True)]
    return unite(parts, expected, groups)


def _context(context: npt.ArrayLike, count: int, k: int) -> Labels:
    row = check_labels(context, k)
    if len(row) != count:
        raise ArgumentError(f"the context must have one label for each of {count}, got {len(row)}.")
    return row


# How integers are coded: as so many bytes each, as a stream of 32-bit numbers, or as labels below a bound.
_STREAM, _BOUNDED = 0x84, 0x40
_MAX_BOUND = 1 << 16


def encode_integers(values: npt.ArrayLike) -> bytes:
    """Signed whole numbers, best small ones.

    >>> decode_integers(encode_integers([0, -1, 5]), 3)
    array([ 0, -1,  5], dtype=int32)
    """
    row = np.asarray(values).reshape(-1)
    if not row.size:
        return b""
    if row.dtype.kind not in "ui" or int(row.max()) >= 1 << 31 or int(row.min()) < -(1 << 31):
        raise ArgumentError(f"integers of up to 32 bits can be coded, got {row.dtype}.")
    wide = row.astype(np.int64)
    folded = np.where(wide < 0, -2 * wide - 1, 2 * wide)
    bound = int(folded.max()) + 1
    width = 1 if bound <= 1 << 8 else 2 if bound <= 1 << 16 else 4
    raw = bytes((width,)) + folded.astype(f"<u{width}").tobytes()
    if bound <= _MAX_BOUND:
        coded = bytes((_BOUNDED,)) + varint(bound) + encode_labels(folded, bound)
    else:
        coded = bytes((_STREAM,)) + compress(folded.astype(np.uint32))
    return min(raw, coded, key=len)


def decode_integers(data: Buffer, count: int) -> npt.NDArray[np.int32]:
    """The `count` numbers that `encode_integers` wrote, as int32."""
    if not count and not len(data):
        return np.empty(0, np.int32)
    if not count or not len(data):
        raise MessageError(f"{count} integers are expected, got {len(data)} bytes.")
    reader = Reader(data, "the integers")
    form = reader.u8()
    folded: npt.NDArray[Any]
    if form == _BOUNDED:
        bound = reader.varint(_MAX_BOUND)
        if not bound:
            raise MessageError("the integers are said to be below 0.")
        folded = decode_labels(reader.take(reader.left), count, bound)
    elif form == _STREAM:
        folded = decompress(reader.take(reader.left), count, np.uint32)
    elif form not in (1, 2, 4):
        raise MessageError(f"the integers are coded in way {form}, which this release does not know.")
    elif reader.left != form * count:
        raise MessageError(f"{count} integers take {form * count} bytes, got {reader.left}.")
    else:
        folded = np.frombuffer(reader.take(reader.left), f"<u{form}")
    wide = folded.astype(np.int64)
    return np.where(wide % 2 == 0, wide // 2, -((wide + 1) // 2)).astype(np.int32)


def encode_floats(values: npt.ArrayLike, half: bool = False) -> bytes:
    """Floats, little-endian: 32 bits each, or 16 (rounded to the nearest).

    >>> encode_floats([1.0]).hex(), encode_floats([1.0], half=True).hex()
    ('0000803f', '003c')
    """
    row = np.asarray(values, np.float32).reshape(-1)
    if not half:
        return row.astype("<f4", copy=False).tobytes()
    with np.errstate(over="ignore"):
        small = row.astype("<f2")
    if (np.isinf(small) & np.isfinite(row)).any():
        raise ArgumentError("a value above 65504 does not fit into float16; send float32 (half=False).")
    return small.tobytes()


def decode_floats(data: Buffer, count: int, half: bool = False) -> npt.NDArray[np.float32]:
    """The `count` floats that `encode_floats` wrote, as float32."""
    width = 2 if half else 4
    if len(data) != width * count:
        raise MessageError(f"{count} floats take {width * count} bytes, got {len(data)}.")
    return np.frombuffer(data, f"<f{width}").astype(np.float32)
