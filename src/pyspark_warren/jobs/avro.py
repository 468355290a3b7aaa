"""Avro bodies: one record each, in Avro's binary encoding, by a schema that all share.

Spark decodes Avro with a package that pip does not bring, so fastavro does it here, in the Python
workers. Types are those that Spark would give them.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_warren.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLAIN: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "fixed": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
}
_LOGICAL: Final[dict[str, DataType]] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
}
REASON_CHARS_MAX: Final = 500


def decode_avro(frame: DataFrame, schema: str) -> DataFrame:
    """Decode bodies. Raises InvalidOption if part of the schema has no type in Spark."""
    body = spark_type(_parsed(schema))
    if not isinstance(body, StructType):
        raise InvalidOption("option schema: an Avro schema of bodies is a record")
    both = StructType([StructField("reason", StringType()), StructField("body", body)])
    decoder = F.udf(Decoder(schema), both, useArrow=False)
    decoded = frame.withColumn("_decoded", decoder(F.col("value")))
    return decoded.select("*", "_decoded.*").drop("_decoded")


def spark_type(schema: Any) -> DataType:
    """Return Spark's type for an Avro schema that fastavro has parsed."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        if len(others) == 1:
            return spark_type(others[0])
        raise InvalidOption("option schema: of unions, only those with null have a type in Spark")
    if isinstance(schema, str):
        schema = {"type": schema}
    kind = schema["type"]
    if (logical := schema.get("logicalType")) in _LOGICAL:
        return _LOGICAL[logical]
    if logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if isinstance(kind, str) and kind in _PLAIN:
        return _PLAIN[kind]
    match kind:
        case "record":
            members = [(field["name"], spark_type(field["type"])) for field in schema["fields"]]
            return StructType([StructField(*member) for member in members])
        case "array":
            return ArrayType(spark_type(schema["items"]))
        case "map":
            return MapType(StringType(), spark_type(schema["values"]))
        case dict() | list():
            return spark_type(kind)
    raise InvalidOption(f"option schema: {kind!r} has no type in Spark")


def _parsed(schema: str) -> Any:
    try:
        from fastavro.schema import SchemaParseException, expand_schema
    except ImportError:
        raise InvalidOption("Avro bodies need fastavro: pip install 'warren[spark]'") from None
    try:
        return expand_schema(json.loads(schema))
    except (ValueError, SchemaParseException) as error:
        raise InvalidOption(f"option schema: is no Avro schema: {error}") from None


class Decoder:
    """Decodes bodies in a worker, where the schema is parsed once."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._parsed: Any = None

    def __call__(self, data: bytes) -> tuple[str | None, object]:
        """Return what is wrong with the body, or the body."""
        from fastavro import schemaless_reader

        if self._parsed is None:
            self._parsed = _parsed(self._schema)
        stream = io.BytesIO(data)
        try:
            body = schemaless_reader(stream, self._parsed, None)
        except Exception as error:  # noqa: BLE001 - any bytes may come, and anything be raised
            return f"does not match the schema: {error!r}"[:REASON_CHARS_MAX], None
        left = len(data) - stream.tell()
        if left:
            return f"does not match the schema: {left} bytes are left over", None
        return None, body
