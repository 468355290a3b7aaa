"""Ids as records: how a deduplicating queue writes the ids that it remembers, as messages.

    a pack      8 bytes of 0xFF    u16 count of ids, then for each of them, big-endian:
                i64 when it expires, or 0    u16 level of the message that it came with
                u64 that message's number there    u8 length of the id
                and then the ids, one behind another
    one id      i64 when it expires    u16 level    u64 number    and the id

The second form is that of former versions; it is read, and no longer written. No id expires at the
moment that a pack begins with: it is negative.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final, TypeAlias

from warren.model.deduplication import KEY_BYTES_MAX, Remembered
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import Properties, encode_properties

PACK_HEAD_BYTES: Final = 10
ID_EXTRA_BYTES: Final = 19
"""What an id takes up in a pack, apart from itself."""

_ROUTE = b"\x01\xff\x00"
"""An exchange whose name is not UTF-8: nothing that a client publishes can have come that way."""
_PERSISTENT = PropertyBlock(encode_properties(Properties(delivery_mode=2)))
_TRANSIENT = PropertyBlock(encode_properties(Properties()))
_PACK_MARK: Final = b"\xff" * 8
_PACK_HEAD: Final = Struct(">8sH")
_ONE_ID: Final = Struct(">qHQ")
_FORMS_KEPT: Final = 256

Place: TypeAlias = tuple[int, int]
"""Where a message is: its level, and its number there."""


class MalformedIds(ValueError):
    """A record of ids that no version has written."""


def pack_of(keys: list[bytes], fields: bytearray, is_persistent: bool) -> Message:
    """Return ids as a message, to be kept as safe as the messages that they came with.

    `fields` has what `add_fields` has put there for each of the `keys`.
    """
    body = b"".join([_PACK_HEAD.pack(_PACK_MARK, len(keys)), fields, *keys])
    return Message(_ROUTE, _PERSISTENT if is_persistent else _TRANSIENT, body)


def add_fields(
    fields: bytearray, expires_at_ms: int, level: int, number: int, key_bytes: int
) -> None:
    """Append what a pack says of an id. Byte by byte: compiled, that makes no objects."""
    shift = 56
    while shift >= 0:
        fields.append(expires_at_ms >> shift & 0xFF)
        shift -= 8
    fields.append(level >> 8)
    fields.append(level & 0xFF)
    shift = 56
    while shift >= 0:
        fields.append(number >> shift & 0xFF)
        shift -= 8
    fields.append(key_bytes)


def ids_of(record: Message) -> list[tuple[Remembered, Place]]:
    """Return the ids of a record in their order. Raises MalformedIds."""
    body = bytes(record.body)
    if not body.startswith(_PACK_MARK):
        return [_one_of(body)]
    if len(body) < PACK_HEAD_BYTES:
        raise MalformedIds("a pack without a count")
    count = _PACK_HEAD.unpack_from(body)[1]
    at = PACK_HEAD_BYTES + count * ID_EXTRA_BYTES
    if len(body) < at:
        raise MalformedIds(f"a pack of {len(body)} bytes for {count} ids")
    numbers = _fields(count).unpack_from(body, PACK_HEAD_BYTES)
    lengths = numbers[3::4]
    if max(lengths, default=0) > KEY_BYTES_MAX or at + sum(lengths) != len(body):
        raise MalformedIds(f"a pack of {len(body)} bytes, whose ids have other lengths")
    found = []
    for expires_at_ms, level, sequence, length in zip(*[iter(numbers)] * 4, strict=True):
        found.append((Remembered(body[at : at + length], expires_at_ms), (level, sequence)))
        at += length
    return found


def _one_of(body: bytes) -> tuple[Remembered, Place]:
    if not _ONE_ID.size <= len(body) <= _ONE_ID.size + KEY_BYTES_MAX:
        raise MalformedIds(f"an id of {len(body)} bytes")
    expires_at_ms, level, sequence = _ONE_ID.unpack_from(body)
    return Remembered(body[_ONE_ID.size :], expires_at_ms), (level, sequence)


def is_id(message: Message) -> bool:
    return message.route_key == _ROUTE


@lru_cache(_FORMS_KEPT)
def _fields(count: int) -> Struct:
    return Struct(">" + "qHQB" * count)
