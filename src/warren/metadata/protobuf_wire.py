"""The wire format of Protocol Buffers: encode and read the fields of a message. Pure.

A message is a sequence of fields. Each begins with a varint, `number << 3 | wire type`. Of the four
wire types that exist, etcd's messages use two: varints (integers, booleans, enums) and byte strings
with a length in front (bytes, text, messages inside messages). A field that has the default value
(0, empty) is left out. A reader must accept any order of fields, must skip numbers that it does not
know (a newer etcd may send them), and takes the last of several values for a field that is single.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

VARINT: Final = 0
_FIXED_64: Final = 1
LENGTH_DELIMITED: Final = 2
_FIXED_32: Final = 5
_UINT64_MASK: Final = 2**64 - 1
_INT64_SIGN: Final = 2**63


class BadMessage(ValueError):
    """The bytes are not a message: cut short, or with a wire type that nothing sends any more."""


def varint(value: int) -> bytes:
    """Encode a 64-bit integer; a negative one takes ten bytes, as int64 fields do."""
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= _UINT64_MASK
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def integer(number: int, value: int) -> bytes:
    """Encode an integer, boolean or enum field; nothing if it has the default value, 0."""
    return integer_of_oneof(number, value) if value else b""


def integer_of_oneof(number: int, value: int) -> bytes:
    """Encode an integer field whose presence means something, even if it is 0."""
    return varint(number << 3) + varint(value)


def octets(number: int, value: bytes) -> bytes:
    """Encode a bytes or text field; nothing if it is empty."""
    return message(number, value) if value else b""


def message(number: int, value: bytes) -> bytes:
    """Encode a field that is a message; an empty one is still there."""
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(value)) + value


def messages(number: int, values: Iterable[bytes]) -> bytes:
    """Encode a repeated field of messages."""
    return b"".join([message(number, value) for value in values])


class _Reader:
    """Position in an encoded message."""

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded
        self.position = 0
        self.end = len(encoded)

    def varint(self) -> int:
        value = shift = 0
        while self.position < self.end and shift < 64:
            octet = self.encoded[self.position]
            self.position += 1
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                return value & _UINT64_MASK
            shift += 7
        raise BadMessage("a varint without an end")

    def octets(self, size: int) -> bytes:
        left = self.end - self.position
        if size > left:
            raise BadMessage(f"{size} bytes announced, {left} left")
        start = self.position
        self.position = start + size
        return self.encoded[start : self.position]


def fields(encoded: bytes) -> list[tuple[int, int, bytes]]:
    """Return number, integer and bytes of each field: one of the two, the other is 0 or empty.

    Fixed-width fields are skipped: no message that we read has any. Raises BadMessage.
    """
    found = []
    reader = _Reader(encoded)
    while reader.position < reader.end:
        head = reader.varint()
        number, kind = head >> 3, head & 7
        if kind == VARINT:
            found.append((number, reader.varint(), b""))
        elif kind == LENGTH_DELIMITED:
            found.append((number, 0, reader.octets(reader.varint())))
        elif kind == _FIXED_64:
            reader.octets(8)
        elif kind == _FIXED_32:
            reader.octets(4)
        else:
            raise BadMessage(f"field {number} has wire type {kind}")
    return found


def signed(value: int) -> int:
    """Return the int64 that a varint stands for."""
    return value - 2**64 if value >= _INT64_SIGN else value
