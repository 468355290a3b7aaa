"""The header `x-stream-offset`, put into a property block without taking that apart if possible.

A block is flags and values in a fixed order: content type, content encoding, then headers. So the
table is found by stepping over two texts, and the header goes to its end. Only a message that has
such a header already, having come from a stream before, is decoded and encoded anew.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from warren.wire.tables import decode_table_body, encode_table

OFFSET_HEADER: Final = "x-stream-offset"
ENTRY_HEAD: Final = bytes([len(OFFSET_HEADER)]) + OFFSET_HEADER.encode() + b"l"

_CONTENT_TYPE: Final = 0x8000
_CONTENT_ENCODING: Final = 0x4000
_HEADERS: Final = 0x2000
_FLAGS: Final = Struct(">H")
_LENGTH: Final = Struct(">I")
_OFFSET: Final = Struct(">q")


def headers_place(raw: bytes) -> int:
    """Where the table of headers is, or would be."""
    (flags,) = _FLAGS.unpack_from(raw)
    place = 2
    for flag in (_CONTENT_TYPE, _CONTENT_ENCODING):
        if flags & flag:
            place += 1 + raw[place]
    return place


def with_offset_slowly(raw: bytes, offset: int) -> bytes:
    (flags,) = _FLAGS.unpack_from(raw)
    place = headers_place(raw)
    if flags & _HEADERS:
        (size,) = _LENGTH.unpack_from(raw, place)
        table, rest = raw[place + 4 : place + 4 + size], raw[place + 4 + size :]
    else:
        table, rest = b"", raw[place:]
    table = without_offset(table) + ENTRY_HEAD + _OFFSET.pack(offset)
    return b"".join(
        (_FLAGS.pack(flags | _HEADERS), raw[2:place], _LENGTH.pack(len(table)), table, rest)
    )


def offset_of(raw: bytes) -> int:
    """Of a record as consumers get it: the header is the last one."""
    place = headers_place(raw)
    (size,) = _LENGTH.unpack_from(raw, place)
    offset: int = _OFFSET.unpack_from(raw, place + 4 + size - _OFFSET.size)[0]
    return offset


def without_offset(table: bytes) -> bytes:
    """A table, given and returned without its length, that does not have the header."""
    if OFFSET_HEADER.encode() not in table:
        return table
    return encode_table(decode_table_body(table).without(OFFSET_HEADER))[4:]
