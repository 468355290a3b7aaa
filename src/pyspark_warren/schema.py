"""The columns of the source and of the sink, as Spark names their types and as Arrow does.

Spark takes Arrow batches only if their types are exactly those of the schema, so both are made of
one list.
"""

from __future__ import annotations

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


def spark_schema(*, include_headers: bool) -> StructType:
    """What the source offers."""
    return StructType(
        [
            StructField(name, spark_type)
            for name, spark_type, _ in _COLUMNS
            if include_headers or name not in OF_HEADERS
        ]
    )


def arrow_schema(*, include_headers: bool) -> pa.Schema:
    """The same, of the batches that it makes."""
    return pa.schema(
        [
            (name, arrow_type)
            for name, _, arrow_type in _COLUMNS
            if include_headers or name not in OF_HEADERS
        ]
    )
