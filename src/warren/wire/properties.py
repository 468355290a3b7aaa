"""Basic properties: a 16-bit word saying which are present, then the values of those that are.

The broker forwards a publisher's block byte for byte; it is decoded only where the broker must
read or change it (dead lettering, CC and BCC, direct reply-to, the management API). Absent and
empty are different things and stay so.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from struct import Struct
from typing import Final

from warren.model.fields import Table
from warren.model.limits import SHORTSTR_BYTES_MAX
from warren.wire.tables import MalformedTable, decode_table, encode_table


class MalformedProperties(ValueError):
    """The bytes are no property block."""


@dataclass(slots=True)
class Properties:
    """In the order of their flags, from bit 15 down."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


_FLAGS: Final = Struct(">H")
_TIMESTAMP: Final = Struct(">Q")
_OCTETS: Final = frozenset({"delivery_mode", "priority"})
_LAYOUT: Final = tuple((field.name, 1 << (15 - n)) for n, field in enumerate(fields(Properties)))


def decode_properties(block: bytes) -> Properties:
    """Strings are kept such that bytes which are not UTF-8 survive a round trip."""
    if len(block) < _FLAGS.size:
        raise MalformedProperties("no property flags")
    flags: int = _FLAGS.unpack_from(block)[0]
    properties = Properties()
    offset = _FLAGS.size
    for name, flag in _LAYOUT:
        if flags & flag:
            value, offset = _decode_value(name, block, offset)
            setattr(properties, name, value)
    if offset != len(block):
        raise MalformedProperties("values and flags do not agree on the length")
    return properties


def encode_properties(properties: Properties) -> bytes:
    """A property block. Raises ValueError for what the wire cannot hold."""
    flags = 0
    values = bytearray()
    for name, flag in _LAYOUT:
        value = getattr(properties, name)
        if value is not None:
            flags |= flag
            values += _encode_value(name, value)
    return _FLAGS.pack(flags) + values


def _decode_value(name: str, block: bytes, offset: int) -> tuple[str | int | Table, int]:
    """A value that ends beyond the block is noticed by the caller, or here by the next one."""
    if name == "headers":
        try:
            return decode_table(block, offset)
        except MalformedTable as problem:
            raise MalformedProperties(f"headers: {problem}") from problem
    if name == "timestamp":
        value = int.from_bytes(block[offset : offset + _TIMESTAMP.size], "big")
        return value, offset + _TIMESTAMP.size
    if offset >= len(block):
        raise MalformedProperties(f"{name} is missing")
    if name in _OCTETS:
        return block[offset], offset + 1
    end = offset + 1 + block[offset]
    return block[offset + 1 : end].decode(errors="surrogateescape"), end


def _encode_value(name: str, value: str | int | Table) -> bytes:
    if isinstance(value, Table):
        return encode_table(value)
    if isinstance(value, int):
        size = 1 if name in _OCTETS else _TIMESTAMP.size
        return _encode_number(name, value, size)
    raw = value.encode(errors="surrogateescape")
    if len(raw) > SHORTSTR_BYTES_MAX:
        raise ValueError(f"{name} has {len(raw)} bytes, more than {SHORTSTR_BYTES_MAX}")
    return bytes((len(raw),)) + raw


def _encode_number(name: str, value: int, size: int) -> bytes:
    try:
        return value.to_bytes(size, "big")
    except OverflowError as problem:
        raise ValueError(f"{name} {value} does not fit into {size} bytes") from problem
