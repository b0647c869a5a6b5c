"""Bytes from outside, read with every length checked; and the varint that most lengths are written as."""

from __future__ import annotations

from fedcode.errors import ArgumentError, MessageError

Buffer = bytes | bytearray | memoryview

# Ten groups of seven bits hold any 64-bit number.
_VARINT_BYTES = 10


def varint(number: int) -> bytes:
    """A whole number from 0 to 2^64 - 1 as LEB128: seven bits a byte, lowest first, the top bit says "more".

    >>> varint(300).hex()
    'ac02'
    """
    assert 0 <= number < 1 << 64, number
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def text(value: str) -> bytes:
    """A string as the varint of its length in UTF-8 bytes, and these bytes."""
    raw = value.encode()
    return varint(len(raw)) + raw


def view(data: Buffer, what: str) -> memoryview:
    """What was passed as bytes, byte by byte and without a copy; ArgumentError where it is something else.

    >>> view(bytearray(b"abc"), "example")[1:].tobytes()
    b'bc'
    """
    try:
        return memoryview(data).cast("B")
    except TypeError as error:
        raise ArgumentError(f"{what} is read from bytes, got {type(data).__name__}.") from error


class Reader:
    """A cursor over bytes that never passes their end.

    >>> reader = Reader(bytes.fromhex("ac02ff"), "example")
    >>> reader.varint(), reader.u8(), reader.left
    (300, 255, 0)
    """

    def __init__(self, data: Buffer, what: str) -> None:
        self.view = view(data, what)
        self.at = 0
        self.what = what

    @property
    def left(self) -> int:
        return len(self.view) - self.at

    def take(self, size: int) -> memoryview:
        """The next `size` bytes, without a copy."""
        if size > self.left:
            raise MessageError(
                f"{self.what} is cut short: {size} bytes expected at byte {self.at}, {self.left} are there."
            )
        piece = self.view[self.at : self.at + size]
        self.at += size
        return piece

    def u8(self) -> int:
        return self.take(1)[0]

    def varint(self, limit: int = (1 << 64) - 1) -> int:
        """The next varint, refused above `limit` and where it is longer than it need be."""
        number = 0
        for place in range(_VARINT_BYTES):
            byte = self.u8()
            number |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                if byte == 0 and place > 0:
                    raise MessageError(f"{self.what} writes a number in more bytes than it needs.")
                if number > limit:
                    raise MessageError(f"{self.what} holds {number} where at most {limit} is possible.")
                return number
        raise MessageError(f"{self.what} holds a number longer than 64 bits.")

    def text(self, limit: int) -> str:
        """The next string, of at most `limit` bytes."""
        raw = bytes(self.take(self.varint(limit)))
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise MessageError(f"{self.what} holds a name that is not UTF-8.") from error

    def end(self) -> None:
        """Nothing may follow."""
        if self.left:
            raise MessageError(f"{self.what} has {self.left} bytes too many at its end.")
