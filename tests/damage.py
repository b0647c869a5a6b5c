"""Hostile bytes, made out of good ones in every way that we could think of."""

from __future__ import annotations

import contextlib
import json
import random
import zlib
from dataclasses import replace
from typing import Any

import numpy as np

from fedcode.arrays import decode_arrays, encode_arrays
from fedcode.errors import FedcodeError
from fedcode.joined import join, split
from fedcode.layout import Layout
from fedcode.reader import Reader, varint
from fedcode.wire import ASKS, Message, Section

ODD_NUMBERS = (0, 1, 2, 127, 128, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 32, (1 << 40) + 1, (1 << 63) - 1)
ODD_FLOATS = (0.0, -1.0, 0.5, 1e-40, 3e38, 1e300, -1e300)


class Damage:
    """Makes hostile bytes out of good ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def of(self, data: bytes, others: list[bytes]) -> bytes:
        """One hostile relative of `data`; mostly with its checksum put right, so that it is read beyond it."""
        choice = self.random.random()
        if choice < 0.15 or data[:3] != b"\x93FC":
            return self.anywhere(data, others)
        if choice < 0.35:
            return seal(self.anywhere(data[:-4], others) + bytes(4))
        return self.message(data, others)

    def anywhere(self, data: bytes, others: list[bytes]) -> bytes:
        """One to four changes somewhere."""
        out = bytearray(data)
        for _ in range(self.random.choice((1, 1, 1, 2, 4))):
            at = self.random.randrange(len(out) + 1)
            end = min(len(out), at + self.random.choice((1, 1, 2, 4, 8, 64)))
            what = self.random.randrange(9)
            if what == 0 and at < len(out):
                out[at] ^= 1 << self.random.randrange(8)
            elif what == 1:
                out[at:end] = self.random.randbytes(end - at)
            elif what == 2:
                del out[at:]
            elif what == 3:
                del out[at:end]
            elif what == 4:
                out[at:at] = out[at:end]
            elif what == 5:
                out[at : at + 1] = varint(self.random.choice(ODD_NUMBERS))
            elif what == 6:
                out[at:end] = self.random.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * (end - at)
            elif what == 7 and others:
                other = self.random.choice(others)
                start = self.random.randrange(len(other) + 1)
                out[at:end] = other[start : start + self.random.choice((4, 16, 256))]
            else:
                out += self.random.randbytes(self.random.choice((1, 4, 100)))
        return bytes(out)

    def message(self, data: bytes, others: list[bytes]) -> bytes:
        """A well-formed message whose header or sections lie."""
        try:
            said = Message.from_bytes(data)
        except FedcodeError:
            return self.anywhere(data, others)
        bodies = {tag: bytes(body) for tag, body in said.sections.items()}
        what = self.random.randrange(8)
        if what < 5 and bodies:
            tag = self.random.choice(list(bodies))
            bodies[tag] = self.body(tag, bodies[tag], others)
            said = replace(said, sections=bodies)
            if tag == Section.LAYOUT and self.random.random() < 0.8:
                with contextlib.suppress(FedcodeError):
                    said = replace(said, layout=Layout.from_bytes(bodies[tag]).fingerprint)
        elif what == 5:
            said = replace(said, sections=self.exchanged(bodies, others))
        elif what == 6:
            said = replace(said, asks=self.asks(dict(said.asks)))
        else:
            number = self.random.choice(ODD_NUMBERS)
            change: dict[str, Any] = self.random.choice(
                (
                    {"kind": self.random.randrange(1, 10)},
                    {"method": self.random.choice(("", "fedavg", "fedcode", "delta", "nothing", "a\x1b[2J"))},
                    {"round": number}, {"accepted": number}, {"examples": number},
                    {"base": self.random.choice((bytes(8), said.gives, self.random.randbytes(8)))},
                    {"gives": self.random.choice((bytes(8), said.base, self.random.randbytes(8)))},
                    {"layout": self.random.randbytes(8)}, {"federation": self.random.choice((bytes(8), b"8 bytes!"))},
                )
            )  # fmt: skip
            said = replace(said, **change)
        return said.to_bytes()

    def body(self, tag: int, body: bytes, others: list[bytes]) -> bytes:
        """A section damaged where it hurts: inside of what it wraps."""
        if self.random.random() < 0.3:
            return self.anywhere(body, others)
        if tag == Section.LAYOUT:
            reader = Reader(body, "a layout")
            reader.varint()
            plain = self.anywhere(zlib.decompress(reader.take(reader.left)), [])
            return varint(len(plain)) + zlib.compress(plain)
        if tag == Section.BASES:
            parts = [bytes(part) for part in split(body)]
            if parts:
                at = self.random.randrange(len(parts))
                parts[at] = self.message(parts[at], others)
            return join(parts)
        if tag == Section.EXTRA and len(body) > 1:
            return self.arrays(body)
        if tag == Section.FLAGS and body[:1] == b"{":
            return self.object(json.loads(body))
        if len(body) % 4 == 0 and body and self.random.random() < 0.5:
            floats = np.frombuffer(body, "<f4").copy()
            with np.errstate(over="ignore"):
                floats[self.random.randrange(floats.size)] = self.random.choice(ODD_FLOATS)
            return floats.tobytes()
        return self.anywhere(body, others)

    def exchanged(self, bodies: dict[int, bytes], others: list[bytes]) -> dict[int, bytes]:
        """A section too few, or one too many, or two of them swapped."""
        what, tags = self.random.randrange(3), list(bodies)
        if what == 0 and tags:
            del bodies[self.random.choice(tags)]
        elif what == 1 and len(tags) > 1:
            one, two = self.random.sample(tags, 2)
            bodies[one], bodies[two] = bodies[two], bodies[one]
        else:
            tag = self.random.choice([*map(int, Section), 77, 200])
            bodies[tag] = self.random.choice([b"", bytes(100), *(other[:200] for other in others[:3])])
        return bodies

    def asks(self, asks: dict[str, float]) -> dict[str, float]:
        """Something odd asked, or something left out."""
        if asks and self.random.random() < 0.3:
            del asks[self.random.choice(list(asks))]
            return asks
        name = self.random.choice([*asks, *asks, *ASKS[1:], "else"])
        asks[name] = self.random.choice((*ODD_NUMBERS[:-1], *ODD_FLOATS))
        return asks

    def arrays(self, body: bytes) -> bytes:
        """Kept arrays of which one is gone, or of another name, dtype, shape or value."""
        arrays = decode_arrays(body)
        name = self.random.choice(list(arrays))
        array, what = arrays.pop(name), self.random.randrange(6)
        with np.errstate(all="ignore"):
            if what == 0:
                return encode_arrays(arrays)
            if what == 1:
                name = self.random.choice(("x", *arrays))
            elif what == 2:
                array = array.astype(self.random.choice(("float32", "float64", "int64", "uint8", "bool")))
            elif what == 3:
                array = array.reshape(-1)[: self.random.choice((0, 1, array.size // 2, max(0, array.size - 1)))]
            elif what == 4:
                array = array.reshape((1, *array.shape))
            elif array.size:
                array = array.copy()
                odd = ODD_FLOATS if array.dtype.kind == "f" else (0, 1, -1, 255, 1 << 40)
                array.flat[self.random.randrange(array.size)] = np.array(self.random.choice(odd)).astype(array.dtype)
        return encode_arrays({**arrays, name: array})

    def object(self, about: Any) -> bytes:
        """A key left out, or a value of another type."""
        at = about
        while self.random.random() < 0.6:
            inner = [value for value in at.values() if isinstance(value, dict) and value]
            if not inner:
                break
            at = self.random.choice(inner)
        key = self.random.choice(list(at))
        if self.random.random() < 0.3:
            del at[key]
        else:
            odd: tuple[Any, ...] = (None, -1, 1 << 70, 0.5, True, "", "zz", "00" * 8, [], [1], {}, {"a": [1, "x"]})
            at[key] = self.random.choice(odd)
        data = json.dumps(about).encode()
        return self.anywhere(data, []) if self.random.random() < 0.2 else data


def seal(data: bytes) -> bytes:
    """The bytes with the checksum that fits them."""
    return data[:-4] + zlib.crc32(data[:-4]).to_bytes(4, "little")
