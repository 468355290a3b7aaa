"""A property block taken apart, and checked to the last byte: see `_codec_py.py`.

The broker forwards blocks as they came, so a malformed one must be noticed when it comes in: it
would break every consumer it reaches. Nothing is decoded for that, only measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag
from math import isfinite
from struct import Struct
from typing import Final

from warren.model.limits import EXPIRY_MS_MAX, TABLE_DEPTH_MAX

EXPIRATION_NONE: Final = -1
EXPIRATION_ODD: Final = -2
EXPIRATION_DIGITS_MAX: Final = len(str(EXPIRY_MS_MAX))
KEYS_OF_MORE_KEYS: Final = frozenset({b"CC", b"BCC"})

FIXED_SIZE_BYTES: Final = {
    b"V": 0,
    b"t": 1, b"b": 1, b"B": 1,
    b"s": 2, b"u": 2,
    b"I": 4, b"i": 4,
    b"D": 5,
    b"l": 8, b"L": 8, b"T": 8,
}  # fmt: skip
FLOATS: Final = {b"f": Struct(">f"), b"d": Struct(">d")}


class MalformedBlock(ValueError):
    """The flags and the bytes after them do not fit together."""


class Property(IntFlag):
    """In the order of the values. The two lowest bits mean nothing and RabbitMQ ignores them."""

    CONTENT_TYPE = 0x8000
    CONTENT_ENCODING = 0x4000
    HEADERS = 0x2000
    DELIVERY_MODE = 0x1000
    PRIORITY = 0x0800
    CORRELATION_ID = 0x0400
    REPLY_TO = 0x0200
    EXPIRATION = 0x0100
    MESSAGE_ID = 0x0080
    TIMESTAMP = 0x0040
    TYPE = 0x0020
    USER_ID = 0x0010
    APP_ID = 0x0008
    CLUSTER_ID = 0x0004


class Octets:
    """Reads from the front; what is not there is malformed."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def __bool__(self) -> bool:
        return self._position < len(self._data)

    def take(self, count: int) -> bytes:
        piece = self._data[self._position : self._position + count]
        if len(piece) < count:
            raise MalformedBlock("ends too early")
        self._position += count
        return piece

    def short_string(self) -> bytes:
        return self.take(self.take(1)[0])

    def long_string(self) -> bytes:
        return self.take(int.from_bytes(self.take(4), "big"))


def property_flags(block: bytes) -> int:
    return int.from_bytes(block[:2], "big") if len(block) >= 2 else 0


def split_properties(block: bytes) -> Iterator[tuple[Property, bytes]]:
    """Each property that is present with its value, strings and tables without their lengths."""
    octets = Octets(block)
    flags = int.from_bytes(octets.take(2), "big")
    for which in Property:
        if not flags & which:
            continue
        if which in Property.DELIVERY_MODE | Property.PRIORITY:
            value = octets.take(1)
        elif which == Property.TIMESTAMP:
            value = octets.take(8)
        elif which == Property.HEADERS:
            value = octets.long_string()
            check_table(value, depth=0)
        else:
            value = octets.short_string()
        yield which, value
    if octets:
        raise MalformedBlock("goes on after the last property")


def check_table(table: bytes, depth: int) -> None:
    for _ in table_keys(table, depth):
        pass


def table_keys(table: bytes, depth: int) -> Iterator[bytes]:
    """The keys of a table, whose values are checked on the way."""
    if depth >= TABLE_DEPTH_MAX:
        raise MalformedBlock("nested too deeply")
    octets = Octets(table)
    while octets:
        yield octets.short_string()
        check_value(octets, depth)


def check_array(array: bytes, depth: int) -> None:
    if depth >= TABLE_DEPTH_MAX:
        raise MalformedBlock("nested too deeply")
    octets = Octets(array)
    while octets:
        check_value(octets, depth)


def check_value(octets: Octets, depth: int) -> None:
    letter = octets.take(1)
    if letter in FIXED_SIZE_BYTES:
        octets.take(FIXED_SIZE_BYTES[letter])
    elif letter in FLOATS:
        check_float(octets, FLOATS[letter])
    elif letter in {b"S", b"x"}:
        octets.long_string()
    elif letter == b"F":
        check_table(octets.long_string(), depth + 1)
    elif letter == b"A":
        check_array(octets.long_string(), depth + 1)
    else:
        raise MalformedBlock("unknown type of field")


def check_float(octets: Octets, layout: Struct) -> None:
    """Erlang has no infinity and no NaN, so RabbitMQ cannot read them."""
    if not isfinite(layout.unpack(octets.take(layout.size))[0]):
        raise MalformedBlock("not a finite number")


def names_more_keys(table: bytes) -> bool:
    """Whether a header table has CC or BCC, which add routing keys."""
    return any(key in KEYS_OF_MORE_KEYS for key in table_keys(table, depth=0))


def parse_expiration(text: bytes) -> int:
    """Milliseconds; anything but a plain decimal number in range is for the channel to refuse."""
    if not text.isdigit() or len(text) > EXPIRATION_DIGITS_MAX:
        return EXPIRATION_ODD
    value = int(text)
    return value if value <= EXPIRY_MS_MAX else EXPIRATION_ODD
