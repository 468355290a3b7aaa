"""Which columns a DataFrame may have that is written to an exchange, and of which types.

A misspelt column would not fail by itself: its rows would go out without what it says. So only
columns are taken that mean something here, that make up the deduplication id, or that the source
has given, so that what was read can be written as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from pyspark_warren.errors import InvalidOption
from pyspark_warren.option_words import suggestion
from pyspark_warren.schema import PROPERTY_NAMES

if TYPE_CHECKING:
    from pyspark_warren.options import SinkOptions

SINK_COLUMNS: Final = (
    "value", "routing_key", "exchange", "headers", "properties", "message_id",
)  # fmt: skip
# Of the source; they say where a message was, and mean nothing where it goes.
PASSED_OVER: Final = frozenset({"queue", "offset", "timestamp", "redelivered"})
_TYPES: Final[dict[str, tuple[type[DataType], ...]]] = {
    "value": (BinaryType, StringType),
    "routing_key": (StringType,),
    "exchange": (StringType,),
    "headers": (MapType,),
    "properties": (StructType,),
    "message_id": (StringType,),
}
_ID_TYPES: Final = (StringType, LongType, IntegerType, ShortType, BinaryType)
_NUMBERED: Final = frozenset({"delivery_mode", "priority"})


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raises InvalidOption, which names the column and, if it can, the right one."""
    named = [name for name in (options.partition_key,) if name is not None]
    known = {*SINK_COLUMNS, *PASSED_OVER, *options.id_columns, *named}
    for field in schema:
        if field.name not in known:
            hint = suggestion(field.name, SINK_COLUMNS)
            raise InvalidOption(f"column {field.name}: the sink has no use for it{hint}")
        expected = _TYPES.get(field.name)
        if expected and not isinstance(field.dataType, expected):
            names = " or ".join(kind.typeName() for kind in expected)
            raise InvalidOption(
                f"column {field.name}: is {field.dataType.simpleString()} and must be {names}"
            )
    _check_presence(schema, options)
    if "headers" in schema.names:
        _check_headers(schema["headers"].dataType)
    if "properties" in schema.names:
        _check_properties(schema["properties"].dataType)


def _check_presence(schema: StructType, options: SinkOptions) -> None:
    if "value" not in schema.names:
        raise InvalidOption(f"column value: is missing{suggestion('value', tuple(schema.names))}")
    if options.partition_key is not None:
        _check_named(schema, "partitionKey", options.partition_key)
    elif "routing_key" not in schema.names and options.routing_key is None:
        raise InvalidOption("column routing_key: is missing; add it, or give option routingKey")
    for name in options.id_columns:
        _check_named(schema, "idColumns", name)


def _check_named(schema: StructType, option: str, name: str) -> None:
    if name not in schema.names:
        hint = suggestion(name, tuple(schema.names))
        raise InvalidOption(f"option {option}: there is no column {name}{hint}")
    if not isinstance(schema[name].dataType, _ID_TYPES):
        kind = schema[name].dataType.simpleString()
        raise InvalidOption(f"option {option}: {name} is {kind}, neither text nor a number")


def _check_headers(kind: DataType) -> None:
    assert isinstance(kind, MapType), "looked at before"
    if not isinstance(kind.keyType, StringType) or not isinstance(kind.valueType, StringType):
        raise InvalidOption(
            f"column headers: is {kind.simpleString()} and must be map<string,string>"
        )


def _check_properties(kind: DataType) -> None:
    assert isinstance(kind, StructType), "looked at before"
    for field in kind:
        if field.name not in PROPERTY_NAMES:
            hint = suggestion(field.name, PROPERTY_NAMES)
            raise InvalidOption(f"column properties: there is no property {field.name}{hint}")
        expected: type[DataType] = StringType
        if field.name in _NUMBERED:
            expected = IntegerType
        elif field.name == "timestamp":
            expected = TimestampType
        if not isinstance(field.dataType, expected):
            raise InvalidOption(
                f"column properties: {field.name} is {field.dataType.simpleString()} and must be "
                f"{expected.typeName()}"
            )
