"""Schemas of a lake's tables: what a job's rows have, what a table has, and how the two differ.

A column that a table lacks is added or refused, as the user says; a type is never changed. A body
that used to be a number and is a text now needs a table of its own, or a schema that reads both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_warren.errors import InvalidOption, WarrenError
from pyspark_warren.lake import HOUR

_ATOMIC: Final[dict[type[DataType], pa.DataType]] = {
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    DateType: pa.date32(),
    DoubleType: pa.float64(),
    FloatType: pa.float32(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    ShortType: pa.int16(),
    StringType: pa.string(),
    TimestampNTZType: pa.timestamp("us"),
    TimestampType: pa.timestamp("us", "UTC"),
}


class SchemaDiffers(WarrenError):
    """The rows of a job do not fit into the table that is there."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Names of columns, with dots for fields within them."""

    new: list[str] = field(default_factory=list)
    """The table lacks them."""
    missing: list[str] = field(default_factory=list)
    """The rows lack them."""
    changed: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.new or self.missing or self.changed)

    def __str__(self) -> str:
        parts = []
        if self.changed:
            parts.append(f"other types: {', '.join(self.changed)}")
        if self.new:
            parts.append(f"new here: {', '.join(self.new)}")
        if self.missing:
            parts.append(f"missing here: {', '.join(self.missing)}")
        return "; ".join(parts)


def table_schema(rows: StructType) -> pa.Schema:
    """Return the schema of a table for such rows, with the hour. Raises InvalidOption."""
    columns = [pa.field(column.name, _arrow_type(column.name, column.dataType)) for column in rows]
    return pa.schema([*columns, pa.field(HOUR, pa.string())])


def _arrow_type(name: str, kind: DataType) -> pa.DataType:
    """Return the type that Arrow and Delta have for one of Spark's; everything may be null."""
    match kind:
        case StructType():
            return pa.struct([(f.name, _arrow_type(f"{name}.{f.name}", f.dataType)) for f in kind])
        case MapType():
            return pa.map_(_arrow_type(name, kind.keyType), _arrow_type(name, kind.valueType))
        case ArrayType():
            return pa.list_(pa.field("element", _arrow_type(name, kind.elementType)))
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
    found = _ATOMIC.get(type(kind))
    if found is None:
        raise InvalidOption(
            f"option schema: column {name!r} is {kind.simpleString()}, which a lake cannot keep"
        )
    return found


def normal(kind: pa.DataType) -> pa.DataType:
    """Return a type as the tables have it, whatever view or size of it a reader has chosen."""
    if pa.types.is_struct(kind):
        return pa.struct([(child.name, normal(child.type)) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(normal(kind.key_type), normal(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", normal(kind.value_type)))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind


def normal_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(column.name, normal(column.type)) for column in schema])


def differences(table: pa.Schema, rows: pa.Schema) -> Differences:
    """Compare two normal schemas, whatever the order of their columns."""
    found = Differences()
    _compare(found, "", pa.struct(list(table)), pa.struct(list(rows)))
    return found


def _compare(found: Differences, prefix: str, table: Any, rows: Any) -> None:
    ours, theirs = _children(table), _children(rows)
    for name, kind in theirs.items():
        if name not in ours:
            found.new.append(f"{prefix}{name} {kind}")
        elif pa.types.is_struct(kind) and pa.types.is_struct(ours[name]):
            _compare(found, f"{prefix}{name}.", ours[name], kind)
        elif kind != ours[name]:
            found.changed.append(f"{prefix}{name} is {kind} here and {ours[name]} in the table")
    found.missing.extend(f"{prefix}{name}" for name in ours if name not in theirs)


def merged(table: pa.Schema, rows: pa.Schema) -> pa.Schema:
    """Return the table's schema and what only the rows have, behind it."""
    kind = _merged(pa.struct(list(table)), pa.struct(list(rows)))
    return pa.schema(list(kind))


def _merged(table: Any, rows: Any) -> pa.StructType:
    theirs = _children(rows)
    return pa.struct([*_kept(table, theirs), *_added(table, theirs)])


def _kept(table: Any, theirs: dict[str, pa.DataType]) -> Iterator[tuple[str, pa.DataType]]:
    for name, kind in _children(table).items():
        other = theirs.get(name)
        both = other is not None and pa.types.is_struct(kind) and pa.types.is_struct(other)
        yield name, _merged(kind, other) if both else kind


def _added(table: Any, theirs: dict[str, pa.DataType]) -> Iterator[tuple[str, pa.DataType]]:
    ours = _children(table)
    yield from ((name, kind) for name, kind in theirs.items() if name not in ours)


def _children(kind: Any) -> dict[str, pa.DataType]:
    return {child.name: child.type for child in kind}
