"""Numbers, as docs/wire-format.md says that they are written."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Any

ARRAY_DTYPES = "fdqiBHI?ebh"


class Cursor:
    """Bytes read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        assert self.at + size <= len(self.data), "cut short"
        self.at += size
        return self.data[self.at - size : self.at]

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    def unpack(self, form: str) -> Any:
        (value,) = struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))
        return value

    def varint(self) -> int:
        number = 0
        for shift in itertools.count(0, 7):
            byte = int(self.unpack("B"))
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise AssertionError

    def text(self) -> str:
        return self.take(self.varint()).decode()

    @property
    def done(self) -> bool:
        return self.at == len(self.data)


def f32(value: float) -> float:
    """The nearest float32."""
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


def bits_of(value: float) -> int:
    found: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return found


def float_of(pattern: int) -> float:
    found: float = struct.unpack("<f", struct.pack("<I", pattern))[0]
    return found


def unzigzag(z: int) -> int:
    return z // 2 if z % 2 == 0 else -((z + 1) // 2)


def varint(number: int) -> bytes:
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


def ladder(data: bytes) -> list[float]:
    cursor = Cursor(data)
    step, lowest, count = float_of(cursor.unpack("H") << 16), unzigzag(cursor.varint()), cursor.varint()
    assert cursor.done
    return [f32((lowest + number) * step) for number in range(count)]


def joined(data: bytes) -> list[bytes]:
    cursor, parts = Cursor(data), []
    while not cursor.done:
        parts.append(cursor.take(cursor.varint()))
    return parts


def floats(data: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def counters(data: bytes, count: int) -> list[int]:
    cursor, found, last = Cursor(data), [], 0
    for _ in range(count):
        last = (last + unzigzag(cursor.varint()) + 2**63) % 2**64 - 2**63
        found.append(last)
    assert cursor.done
    return found


def pcodec(data: bytes, count: int, form: str) -> list[int]:
    from pcodec import standalone

    found = standalone.simple_decompress(data)
    assert found is not None
    assert (found.dtype.name, found.size) == (form, count)
    numbers: list[int] = found.tolist()
    return numbers


def unpacked(data: bytes, count: int, width: int) -> list[int]:
    """Numbers of `width` bits each."""
    assert len(data) == (count * width + 7) // 8
    found, waiting, have, at = [], 0, 0, 0
    for _ in range(count):
        while have < width:
            waiting |= data[at] << have
            have, at = have + 8, at + 1
        found.append(waiting & ((1 << width) - 1))
        waiting, have = waiting >> width, have - width
    return found


def symbols(data: bytes, form: int, count: int, k: int) -> list[int]:
    cursor, m, table = Cursor(data), k, None
    if form & 32:
        m = cursor.varint()
        table = [cursor.unpack("B" if k <= 256 else "H") for _ in range(m)]
    pivot = cursor.varint() if form & 16 else 0
    top = (2 * m if form & 16 else m) - 1
    numbers = pcodec(cursor.rest(), count, "uint8" if top < 1 << 8 else "uint16" if top < 1 << 16 else "uint32")
    if form & 16:
        assert all(x < pivot or m + pivot <= x < 2 * m for x in numbers)
        numbers = [x if x < pivot else x - m for x in numbers]
    assert all(x < m for x in numbers)
    return numbers if table is None else [table[x] for x in numbers]


def labels(data: bytes, count: int, k: int, expected: Sequence[int] | None = None) -> list[int]:
    if not count or k == 1:
        assert not data
        return [0] * count
    way, form = data[0] & ~48, data[0] & 48
    if way == 1:
        return unpacked(data[1:], count, (k - 1).bit_length())
    if way == 2:
        return symbols(data[1:], form, count, k)
    assert expected is not None
    numbers = symbols(data[1:], form, count, k) if way == 3 else _grouped(data[1:], k, expected)
    return [(e + unzigzag(d)) % k for e, d in zip(expected, numbers, strict=True)]


def _grouped(data: bytes, k: int, expected: Sequence[int]) -> list[int]:
    cursor = Cursor(data)
    number = cursor.unpack("B")
    width = (number - 1).bit_length()
    groups = unpacked(cursor.take((k * width + 7) // 8), k, width)
    lengths = [cursor.varint() for _ in range(number)]
    places = [groups[label] for label in expected]
    parts = [iter(labels(cursor.take(length), places.count(group), k)) for group, length in enumerate(lengths)]
    assert cursor.done
    return [next(parts[group]) for group in places]


def label_blocks(data: bytes, count: int, k: int) -> list[int]:
    sizes = [min(1 << 20, count - at) for at in range(0, count, 1 << 20)]
    parts = zip(joined(data), sizes, strict=True)
    return [label for part, size in parts for label in labels(part, size, k)]


def positions(data: bytes, count: int, size: int) -> list[int]:
    if not count:
        assert not data
        return []
    way, form, body = data[0] & ~48, data[0] & 48, data[1:]
    if way in (2, 3):
        bitmap = unpacked(body, size, 1) if way == 2 else symbols(body, form, size, 2)
        return [at for at, bit in enumerate(bitmap) if bit]
    gaps = pcodec(body, count, "uint32" if size <= 1 << 32 else "uint64") if way == 1 else _rice(body, count)
    return [gap - 1 for gap in itertools.accumulate(gap + 1 for gap in gaps)]


def _rice(data: bytes, count: int) -> list[int]:
    low, end = data[0], 1 + (count * data[0] + 7) // 8
    unary = "".join(f"{byte:08b}"[::-1] for byte in data[end:])
    rests = [len(zeros) for zeros in unary.split("1")[:count]]
    return [rest << low | part for rest, part in zip(rests, unpacked(data[1:end], count, low), strict=True)]


def counted_positions(data: bytes, size: int) -> list[int]:
    cursor = Cursor(data)
    count = cursor.varint()
    return positions(cursor.rest(), count, size)


def integers(data: bytes, count: int) -> list[int]:
    if not count:
        return []
    cursor = Cursor(data)
    form = cursor.unpack("B")
    if form == 0x40:
        bound = cursor.varint()
        found = labels(cursor.rest(), count, bound)
    elif form == 0x84:
        found = pcodec(cursor.rest(), count, "uint32")
    else:
        found = [cursor.unpack({1: "B", 2: "H", 4: "I"}[form]) for _ in range(count)]
    return [unzigzag(z) for z in found]


def small_tensors(
    data: bytes, tensors: Sequence[tuple[int, bool]], bits: int = 8, held: Sequence[float] | None = None
) -> list[float]:
    """tensors: the size of each, and whether it is a variance."""
    if not tensors:
        assert not data
        return []
    cursor = Cursor(data)
    words = [[cursor.unpack("H") for _ in tensors] for _ in range(2)]
    scales = [
        (first << 16, second << 8) if variance else (float_of(first << 16), float_of(second << 16))
        for first, second, (_, variance) in zip(*words, tensors, strict=True)
    ]
    places = [index for index, (size, _) in enumerate(tensors) for _ in range(size)]
    top = (1 << bits) - 1
    expected = None
    if held is not None:
        expected = []
        for index, value in zip(places, held, strict=True):
            low, width = scales[index]
            x = bits_of(max(value, 0.0)) if tensors[index][1] else value
            expected.append(min(max(round((x - low) / width), 0), top) if width else 0)
    found = []
    for index, level in zip(places, labels(cursor.rest(), len(places), top + 1, expected), strict=True):
        low, width = scales[index]
        value = low + level * width
        if tensors[index][1]:
            found.append(float_of(int(min(max(value, 0), 0x7F7FFFFF))))
        else:
            largest = float_of(0x7F7FFFFF)
            found.append(f32(min(max(value, -largest), largest)))
    return found


def arrays(data: bytes) -> dict[str, tuple[str, list[int], list[Any]]]:
    cursor, found = Cursor(data), {}
    for _ in range(cursor.varint()):
        name, form = cursor.text(), ARRAY_DTYPES[cursor.unpack("B")]
        shape = [cursor.varint() for _ in range(cursor.varint())]
        count = 1
        for length in shape:
            count *= length
        found[name] = (form, shape, [cursor.unpack(form) for _ in range(count)])
    assert cursor.done
    return found
