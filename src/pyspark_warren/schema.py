"""The columns of the source and of the sink, as Spark names their types and as Arrow does.

Spark takes Arrow batches only if their types are exactly those of the schema, so both are made of
one list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_warren.errors import InvalidOption
from pyspark_warren.option_words import suggestion

# Properties of a message that stand in the column of that name, in the protocol's order.
PROPERTY_NAMES: Final = (
    "content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to",
    "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip
_NUMBERED: Final = frozenset({"delivery_mode", "priority"})
_MOMENTS: Final = frozenset({"timestamp"})

MOMENT: Final = pa.timestamp("us", "UTC")
HEADERS: Final = pa.map_(pa.string(), pa.string())


def _property_type(name: str) -> DataType:
    if name in _NUMBERED:
        return IntegerType()
    return TimestampType() if name in _MOMENTS else StringType()


def _arrow_property_type(name: str) -> pa.DataType:
    if name in _NUMBERED:
        return pa.int32()
    return MOMENT if name in _MOMENTS else pa.string()


PROPERTIES: Final = pa.struct([(name, _arrow_property_type(name)) for name in PROPERTY_NAMES])
_SPARK_PROPERTIES: Final = StructType(
    [StructField(name, _property_type(name)) for name in PROPERTY_NAMES]
)

_COLUMNS: Final[tuple[tuple[str, DataType, pa.DataType], ...]] = (
    ("value", BinaryType(), pa.binary()),
    ("queue", StringType(), pa.string()),
    ("offset", LongType(), pa.int64()),
    ("timestamp", TimestampType(), MOMENT),
    ("exchange", StringType(), pa.string()),
    ("routing_key", StringType(), pa.string()),
    ("headers", MapType(StringType(), StringType()), HEADERS),
    ("properties", _SPARK_PROPERTIES, PROPERTIES),
    ("redelivered", BooleanType(), pa.bool_()),
)
OF_HEADERS: Final = frozenset({"headers", "properties"})
COLUMN_NAMES: Final = tuple(name for name, _, _ in _COLUMNS)
_TYPES: Final = {name: (spark_type, arrow_type) for name, spark_type, arrow_type in _COLUMNS}


def column_names(*, include_headers: bool) -> tuple[str, ...]:
    """The columns that the source has if nobody chooses others."""
    return tuple(name for name in COLUMN_NAMES if include_headers or name not in OF_HEADERS)


def parse_columns(text: str) -> tuple[str, ...]:
    """Columns separated by commas, in the order given. Raises InvalidOption."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in COLUMN_NAMES:
            raise InvalidOption(
                f"option columns: there is no column {name!r}{suggestion(name, COLUMN_NAMES)}"
            )
    if not names:
        raise InvalidOption(f"option columns: name some of {', '.join(COLUMN_NAMES)}")
    return names


def spark_schema(*, include_headers: bool = True, columns: Sequence[str] = ()) -> StructType:
    """What the source offers, or these columns of it."""
    names = columns or column_names(include_headers=include_headers)
    return StructType([StructField(name, _TYPES[name][0]) for name in names])


def arrow_schema(
    *,
    include_headers: bool = True,
    columns: Sequence[str] = (),
    property_names: Sequence[str] = PROPERTY_NAMES,
) -> pa.Schema:
    """The same, of the batches that it makes."""
    names = columns or column_names(include_headers=include_headers)
    types = {name: _TYPES[name][1] for name in names}
    if "properties" in types:
        types["properties"] = properties_type(property_names)
    return pa.schema(list(types.items()))


def properties_type(names: Sequence[str]) -> pa.StructType:
    """Type of the column `properties` with these fields."""
    return pa.struct([(name, _arrow_property_type(name)) for name in names])


def asked_columns(schema: StructType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns, and fields of `properties`, of a schema that a query gives.

    Raises InvalidOption for what the source does not have.
    """
    property_names: tuple[str, ...] = PROPERTY_NAMES
    for column in schema:
        if column.name not in _TYPES:
            raise InvalidOption(
                f"schema(): there is no column {column.name!r}"
                f"{suggestion(column.name, COLUMN_NAMES)} Bodies are decoded behind the source, "
                "with from_json() or the like"
            )
        expected = _TYPES[column.name][0]
        if column.name == "properties" and isinstance(column.dataType, StructType):
            property_names = tuple(column.dataType.fieldNames())
            known = set(property_names) <= set(PROPERTY_NAMES)
            expected = _properties_of(property_names) if known else expected
        # As text, which says nothing about nulls.
        if column.dataType.simpleString() != expected.simpleString():
            raise InvalidOption(
                f"schema(): column {column.name!r} is {expected.simpleString()}, and not "
                f"{column.dataType.simpleString()}"
            )
    return tuple(schema.fieldNames()), property_names


def _properties_of(names: Sequence[str]) -> StructType:
    return StructType([StructField(name, _property_type(name)) for name in names])
