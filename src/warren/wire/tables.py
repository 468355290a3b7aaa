"""Field tables on the wire: every type letter RabbitMQ knows, each kept for the way back.

A table is a 32-bit length and then (short string, type letter, value) until the length is used
up. Names need not be UTF-8 (RabbitMQ does not look), so they are decoded such that any bytes come
back unchanged. NaN and the infinities are refused, as Erlang cannot read them either.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from math import isfinite
from struct import Struct, error
from typing import Final

from warren.model.fields import Field, FieldData, Table
from warren.model.limits import SHORTSTR_BYTES_MAX, TABLE_DEPTH_MAX

_LENGTH: Final = Struct(">I")
_DECIMAL: Final = Struct(">BI")
_NUMBERS: Final = {
    "b": Struct(">b"), "B": Struct(">B"), "s": Struct(">h"), "u": Struct(">H"),
    "I": Struct(">i"), "i": Struct(">I"), "l": Struct(">q"), "L": Struct(">q"),
    "f": Struct(">f"), "d": Struct(">d"), "T": Struct(">Q"),
}  # fmt: skip


class MalformedTable(ValueError):
    """The bytes are no field table."""


def decode_table(data: bytes, offset: int = 0) -> tuple[Table, int]:
    """The table whose length begins at `offset`, and the offset behind it."""
    start, end = _extent(data, offset, len(data))
    return _decode_items(data, start, end, TABLE_DEPTH_MAX), end


def decode_table_body(data: bytes) -> Table:
    """A table that is all of `data`, without the length in front."""
    return _decode_items(data, 0, len(data), TABLE_DEPTH_MAX)


def encode_table(table: Table) -> bytes:
    """The wire form, length first. Raises ValueError for what the wire cannot hold."""
    body = b"".join(_encode_name(name) + encode_field(field) for name, field in table)
    return _LENGTH.pack(len(body)) + body


def encode_field(field: Field) -> bytes:
    """Type letter and value."""
    kind, value = field
    try:
        if kind in _NUMBERS:
            # Both letters mean a signed 64-bit number; RabbitMQ writes the small one.
            return (b"l" if kind == "L" else kind.encode()) + _NUMBERS[kind].pack(value)
        return kind.encode() + _ENCODERS[kind](value)
    except (KeyError, TypeError, AttributeError, error) as problem:
        raise ValueError(f"no wire form for {field!r}") from problem


def _decode_items(data: bytes, offset: int, end: int, depth: int) -> Table:
    if depth == 0:
        raise MalformedTable(f"tables nested more than {TABLE_DEPTH_MAX} deep")
    items: list[tuple[str, Field]] = []
    while offset < end:
        name_end = offset + 1 + data[offset]
        if name_end >= end:
            raise MalformedTable("a name or its value reaches beyond the table")
        name = data[offset + 1 : name_end].decode(errors="surrogateescape")
        field, offset = _decode_field(data, name_end, end, depth)
        items.append((name, field))
    return Table(items)


def _decode_array(data: bytes, offset: int, end: int, depth: int) -> tuple[Field, ...]:
    if depth == 0:
        raise MalformedTable(f"arrays nested more than {TABLE_DEPTH_MAX} deep")
    fields: list[Field] = []
    while offset < end:
        field, offset = _decode_field(data, offset, end, depth)
        fields.append(field)
    return tuple(fields)


def _decode_field(data: bytes, offset: int, end: int, depth: int) -> tuple[Field, int]:
    """The field at `offset` and the offset behind it, which is never beyond `end`."""
    kind = chr(data[offset])
    offset += 1
    number = _NUMBERS.get(kind)
    if number is not None:
        after = _within(offset + number.size, end)
        value = number.unpack_from(data, offset)[0]
        if isinstance(value, float) and not isfinite(value):
            raise MalformedTable("a float that is not a finite number")
        return Field(kind, value), after
    match kind:
        case "S" | "x":
            start, after = _extent(data, offset, end)
            return Field(kind, data[start:after]), after
        case "t":
            after = _within(offset + 1, end)
            return Field(kind, data[offset] != 0), after
        case "F":
            start, after = _extent(data, offset, end)
            return Field(kind, _decode_items(data, start, after, depth - 1)), after
        case "A":
            start, after = _extent(data, offset, end)
            return Field(kind, _decode_array(data, start, after, depth - 1)), after
        case "D":
            after = _within(offset + _DECIMAL.size, end)
            return Field(kind, _DECIMAL.unpack_from(data, offset)), after
        case "V":
            return Field(kind, None), offset
    raise MalformedTable(f"no field type has the letter {kind!r}")


def _extent(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Where something that begins with its 32-bit length starts and ends."""
    start = _within(offset + _LENGTH.size, end)
    length: int = _LENGTH.unpack_from(data, offset)[0]
    return start, _within(start + length, end)


def _within(after: int, end: int) -> int:
    if after > end:
        raise MalformedTable("a value reaches beyond the table")
    return after


def _encode_name(name: str) -> bytes:
    raw = name.encode(errors="surrogateescape")
    if len(raw) > SHORTSTR_BYTES_MAX:
        raise ValueError(f"a table's names have {SHORTSTR_BYTES_MAX} bytes at most: {name!r}")
    return bytes((len(raw),)) + raw


def _encode_bytes(value: FieldData) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("expected bytes")
    return _LENGTH.pack(len(value)) + value


def _encode_nested(value: FieldData) -> bytes:
    if not isinstance(value, Table):
        raise TypeError("expected a table")
    return encode_table(value)


def _encode_array(value: FieldData) -> bytes:
    if not isinstance(value, tuple):
        raise TypeError("expected a tuple of fields")
    body = b"".join(encode_field(item) for item in value if isinstance(item, Field))
    return _LENGTH.pack(len(body)) + body


def _encode_decimal(value: FieldData) -> bytes:
    if not isinstance(value, tuple):
        raise TypeError("expected (scale, value)")
    return _DECIMAL.pack(*value)


_ENCODERS: Final[Mapping[str, Callable[[FieldData], bytes]]] = {
    "S": _encode_bytes,
    "x": _encode_bytes,
    "t": lambda value: b"\x01" if value else b"\x00",
    "F": _encode_nested,
    "A": _encode_array,
    "D": _encode_decimal,
    "V": lambda _value: b"",
}


def python_to_table(mapping: Mapping[str, object]) -> Table:
    """A table from plain Python (or JSON) values: whole numbers become 64-bit, text longstr."""
    return Table((name, _field_of(value)) for name, value in mapping.items())


def table_to_python(table: Table) -> dict[str, object]:
    """Plain values for people and JSON. Of duplicate names the first counts, as in look-ups."""
    plain: dict[str, object] = {}
    for name, field in table:
        plain.setdefault(name, _plain_of(field))
    return plain


def _field_of(value: object) -> Field:
    match value:
        case None:
            return Field("V", None)
        case bool():
            return Field("t", value)
        case int():
            return Field("l", value)
        case float():
            return Field("d", value)
        case str():
            return Field("S", value.encode(errors="surrogateescape"))
        case bytes():
            return Field("S", value)
        case Table():
            return Field("F", value)
        case Mapping():
            return Field("F", python_to_table(value))
        case list() | tuple():
            return Field("A", tuple(_field_of(item) for item in value))
    raise ValueError(f"no field type for {type(value).__name__}")


def _plain_of(field: Field) -> object:
    value = field.value
    if isinstance(value, bytes):
        return _text_of(value)
    if isinstance(value, Table):
        return table_to_python(value)
    if isinstance(value, tuple):
        if field.kind == "D":
            scale, number = value
            assert isinstance(scale, int)
            assert isinstance(number, int)
            return number / 10**scale
        return [_plain_of(item) for item in value if isinstance(item, Field)]
    return value


def _text_of(value: bytes) -> str:
    """RabbitMQ's management API shows bytes that are not UTF-8 this way."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"Not UTF-8, base64 is: {b64encode(value).decode()}"
