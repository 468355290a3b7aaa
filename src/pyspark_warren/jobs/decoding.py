"""Bodies into columns, and what is wrong with those that do not decode.

A decoder adds two columns: `body`, and `reason`, which is null if the body is good. Nothing is
dropped and nothing raises: what cannot be decoded goes to quarantine, with the reason, as it came.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_warren.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BodyFormat = Literal["raw", "json", "avro"]
BODY: Final = "body"
REASON: Final = "reason"
NOT_JSON: Final = "not JSON"
MORE_THAN_JSON: Final = "not JSON alone: something follows it"
_CORRUPT: Final = "_corrupt_record"
_PARSED: Final = "_parsed"


def decode(frame: DataFrame, body_format: BodyFormat, schema: str | None) -> DataFrame:
    """Raises InvalidOption for a schema that is missing or wrong."""
    check_format(body_format, schema)
    if schema is None:
        return frame.withColumn(REASON, F.lit(None).cast("string"))
    if body_format == "json":
        return decode_json(frame, json_schema(schema))
    from pyspark_warren.jobs.avro import decode_avro

    return decode_avro(frame, text_of(schema))


def check_format(body_format: BodyFormat, schema: str | None) -> None:
    """Raises InvalidOption if there is a schema and should be none, or the other way round."""
    if body_format == "raw" and schema is not None:
        raise InvalidOption("option schema: raw bodies have none; say which format they have")
    if body_format != "raw" and schema is None:
        raise InvalidOption(f"option schema: is missing; {body_format} bodies are decoded by one")


def text_of(schema: str) -> str:
    """The schema itself, or what is in the file of that name."""
    path = Path(schema)
    return path.read_text() if len(schema) < 4096 and path.is_file() else schema


def json_schema(schema: str) -> StructType:
    """As Spark writes it: `id BIGINT NOT NULL, name STRING`, or its JSON."""
    text = text_of(schema).strip()
    try:
        if text.startswith("{"):
            return StructType.fromJson(json.loads(text))
        schema_of_text = StructType.fromDDL(text)
    except Exception as error:  # noqa: BLE001 - whatever Spark's parsers raise
        raise InvalidOption(f"option schema: {error}") from None
    if not isinstance(schema_of_text, StructType):
        raise InvalidOption("option schema: name the fields: id BIGINT NOT NULL, name STRING")
    return schema_of_text


def decode_json(frame: DataFrame, schema: StructType) -> DataFrame:
    if _CORRUPT in schema.names:
        raise InvalidOption(f"option schema: {_CORRUPT} is not for fields")
    whole = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    text = F.col("value").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = frame.withColumn(_PARSED, F.from_json(text, whole, options))
    decoded = parsed.withColumn(REASON, _reason_of_json(text, schema))
    body = F.col(_PARSED).dropFields(_CORRUPT)
    return decoded.withColumn(BODY, F.when(F.col(REASON).isNull(), body)).drop(_PARSED)


def _reason_of_json(text: Column, schema: StructType) -> Column:
    found = F.schema_of_variant(F.try_parse_json(text))
    is_none = F.try_parse_json(text).isNull()
    reason = (
        F.when(~F.is_valid_utf8(text), F.lit("not UTF-8"))
        .when(~_is_one_value(text), F.when(is_none, F.lit(NOT_JSON)).otherwise(MORE_THAN_JSON))
        .when(
            F.col(_PARSED).isNull() | F.col(_PARSED)[_CORRUPT].isNotNull(),
            F.concat(F.lit("does not match the schema: it is "), F.left(found, F.lit(500))),
        )
    )
    for name, required in _required(schema, F.col(_PARSED), ""):
        reason = reason.when(required, F.lit(f"field {name} is missing"))
    return reason


def _is_one_value(text: Column) -> Column:
    """Spark's parsers stop at the end of the first value, whatever follows.

    So it is looked at within brackets and within braces. What follows a value and makes sense in
    both would begin with a comma; but then comes a name and a colon in braces, and never in
    brackets.
    """
    in_brackets = F.try_parse_json(F.concat(F.lit("["), text, F.lit("]")))
    in_braces = F.try_parse_json(F.concat(F.lit('{"":'), text, F.lit("}")))
    return in_brackets.isNotNull() & in_braces.isNotNull()


def _required(kind: StructType, parent: Column, prefix: str) -> Iterator[tuple[str, Column]]:
    """Fields that are NOT NULL, each with the condition under which it is missing."""
    for field in kind:
        column = parent[field.name]
        if not field.nullable:
            yield prefix + field.name, parent.isNotNull() & column.isNull()
        if isinstance(field.dataType, StructType):
            yield from _required(field.dataType, column, f"{prefix}{field.name}.")
