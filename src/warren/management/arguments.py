"""AMQP field tables as JSON and back.

JSON has fewer types: on the way out kinds of integers become one, on the way in every integer is a
64-bit one and every text a long string, as RabbitMQ has it. Octets that are no UTF-8 are shown in
base64 with a remark.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from warren.management.errors import bad_request
from warren.management.json_types import Json, JsonObject
from warren.model.fields import EMPTY_TABLE, Field, FieldData, Table, array, long, longstr

# Deeper than anybody nests, and far from where Python gives up.
NESTING_MAX: Final = 100
_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1


def table_to_json(table: Table) -> JsonObject:
    """In a table that has a name twice the first one counts."""
    shown: JsonObject = {}
    for name, field in table:
        shown.setdefault(printable(name.encode(errors="surrogateescape")), _shown(field))
    return shown


def printable(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return f"Not UTF-8, base64 is: {base64.b64encode(octets).decode()}"


def table_from_json(members: Mapping[str, Json]) -> Table:
    """Raises a bad request for what a field table cannot hold."""
    return _table(members, 0) if members else EMPTY_TABLE


def _shown(field: Field) -> Json:
    value: FieldData = field.value
    if isinstance(value, bytes):
        return printable(value)
    if isinstance(value, Table):
        return table_to_json(value)
    if field.kind == "D":
        assert isinstance(value, tuple), "a decimal is a pair"
        scale, number = value
        assert isinstance(scale, int), "places behind the point"
        assert isinstance(number, int), "all the digits"
        return number / 10**scale
    if isinstance(value, tuple):
        return [_shown(item) for item in value if isinstance(item, Field)]
    return value


def _table(members: Mapping[str, Json], depth: int) -> Table:
    if depth > NESTING_MAX:
        raise bad_request("nested_too_deeply")
    return Table((_name(name), _field(value, depth)) for name, value in members.items())


def _name(name: str) -> str:
    if len(name.encode()) > 255:
        raise bad_request(["name_too_long", name])
    return name


def _field(value: Json, depth: int) -> Field:
    match value:
        case bool():
            return Field("t", value)
        case int():
            if not _LONG_MIN <= value <= _LONG_MAX:
                raise bad_request(["unhandled_type", value])
            return long(value)
        case float():
            return Field("d", value)
        case str():
            return longstr(value)
        case dict():
            return Field("F", _table(value, depth + 1))
        case list():
            if depth > NESTING_MAX:
                raise bad_request("nested_too_deeply")
            return array(_field(item, depth + 1) for item in value)
        case _:
            raise bad_request("null_not_allowed")
