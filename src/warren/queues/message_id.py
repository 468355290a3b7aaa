"""The id that a message's publisher gave it, found without decoding what else the message says.

Every message of a queue that deduplicates is asked for it. Header tables are walked field by field,
of which only names and lengths are looked at; the kernel has checked these when the message came.
An id that is anything but text is rare, and is decoded with all the rest.
"""

from __future__ import annotations

from warren.model.deduplication import DEDUPLICATION_HEADER, key_of, key_of_text
from warren.wire.codec import Message
from warren.wire.properties import MalformedProperties, decode_properties

_HEADER = DEDUPLICATION_HEADER.encode()
_HEADER_BYTES = len(_HEADER)
_CONTENT_TYPE = 0x8000
_CONTENT_ENCODING = 0x4000
_HEADERS = 0x2000
_TEXT = ord("S")
_HAS_LENGTH = 254
_UNKNOWN = 255


def _value_sizes() -> bytes:
    """By type letter, how long a value is, or that its length stands before it."""
    sizes = bytearray([_UNKNOWN]) * 256
    for letters, size in (("V", 0), ("tbB", 1), ("su", 2), ("Iif", 4), ("D", 5), ("lLTd", 8)):
        for letter in letters.encode():
            sizes[letter] = size
    for letter in b"SxAF":
        sizes[letter] = _HAS_LENGTH
    return bytes(sizes)


_SIZES = _value_sizes()


def id_of(message: Message) -> bytes | None:
    block = message.properties
    raw = block.raw
    if not block.flags & _HEADERS:
        return None
    return _decoded(raw) if block.is_malformed else _found(raw, block.flags)


def _found(raw: bytes, flags: int) -> bytes | None:
    """Of a sound block that has headers."""
    at = 2
    if flags & _CONTENT_TYPE:
        at += 1 + raw[at]
    if flags & _CONTENT_ENCODING:
        at += 1 + raw[at]
    end = at + 4 + _length(raw, at)
    at += 4
    while at < end:
        name = at + 1
        at = name + raw[at]
        size = _SIZES[raw[at]]
        if at - name == _HEADER_BYTES and _is_header(raw, name):
            if raw[at] != _TEXT:
                return _decoded(raw)
            return key_of_text(raw[at + 5 : at + 5 + _length(raw, at + 1)])
        if size == _UNKNOWN:
            return _decoded(raw)
        at += 5 + _length(raw, at + 1) if size == _HAS_LENGTH else 1 + size
    return None


def _is_header(raw: bytes, at: int) -> bool:
    """Byte by byte: the .pxd makes that cheaper than a slice, which would be an object."""
    place = 0
    while place < _HEADER_BYTES:
        if raw[at + place] != _HEADER[place]:
            return False
        place += 1
    return True


def _length(raw: bytes, at: int) -> int:
    high = raw[at]  # a variable, so that the .pxd can make it wide enough to be shifted
    return high << 24 | raw[at + 1] << 16 | raw[at + 2] << 8 | raw[at + 3]


def _decoded(raw: bytes) -> bytes | None:
    try:
        headers = decode_properties(raw).headers
    except MalformedProperties:
        return None
    field = None if headers is None else headers.get(DEDUPLICATION_HEADER)
    return None if field is None else key_of(field)
