"""Rows of Arrow batches into what is published: a basic.publish, properties and a body each.

What rows have in common is encoded once: the publish of each route, and the properties, if rows
differ in nothing but the body or the deduplication id. Messages are persistent unless a row says
otherwise, and mandatory, so that one which no queue gets comes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pamqp.commands import Basic

from pyspark_warren.errors import PublishFailed
from warren.model.fields import Field, Table
from warren.wire.codec import Message, PropertyBlock
from warren.wire.methods import encode_method
from warren.wire.properties import Properties, encode_properties

if TYPE_CHECKING:
    from pyspark_warren.options import SinkOptions

# As the well-known plugin has it.
DEDUPLICATION_HEADER: Final = "x-deduplication-header"
PERSISTENT: Final = 2
_ROUTES_MAX: Final = 10_000
_LENGTH: Final = Struct(">I")


class Publication(NamedTuple):
    method: bytes
    message: Message


@dataclass(slots=True)
class Encoder:
    """Encodes the rows of one task."""

    options: SinkOptions
    _methods: dict[tuple[str, str], bytes]

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self._methods = {}

    def encode(self, batch: pa.RecordBatch) -> Iterator[Publication]:
        """Raises PublishFailed for a row that cannot be published."""
        bodies = _filled(batch, "value", pa.binary())
        rows = zip(self._routes(batch), self._blocks(batch), bodies, strict=True)
        for route, block, body in rows:
            yield Publication(self._method(route), Message(b"", block, body))

    def _routes(self, batch: pa.RecordBatch) -> Iterator[tuple[str, str]]:
        exchanges = self._names(batch, "exchange", self.options.exchange)
        keys = self._names(batch, "routing_key", self.options.routing_key or "")
        return zip(exchanges, keys, strict=True)

    def _names(self, batch: pa.RecordBatch, column: str, default: str) -> list[str]:
        if column not in batch.schema.names:
            return [default] * batch.num_rows
        names: list[str] = pc.fill_null(batch[column], default).to_pylist()
        return names

    def _method(self, route: tuple[str, str]) -> bytes:
        method = self._methods.get(route)
        if method is None:
            if len(self._methods) >= _ROUTES_MAX:
                self._methods.clear()
            exchange, routing_key = route
            publish = Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=True)
            try:
                method = encode_method(publish)
            except ValueError as error:
                raise PublishFailed(
                    f"exchange {exchange!r}, key {routing_key!r}: {error}"
                ) from None
            self._methods[route] = method
        return method

    def _blocks(self, batch: pa.RecordBatch) -> Iterator[PropertyBlock]:
        names = batch.schema.names
        ids = _ids(batch, self.options.id_columns)
        if not {"headers", "properties", "message_id"} & set(names):
            if ids is None:
                block = PropertyBlock(encode_properties(Properties(delivery_mode=PERSISTENT)))
                return iter([block] * batch.num_rows)
            return map(_block_of_id, ids)
        return _full_blocks(batch, ids)


def _filled(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> list[bytes]:
    column = batch[name]
    if column.null_count:
        raise PublishFailed(f"column {name} is null in {column.null_count} rows; fill it first")
    bodies: list[bytes] = column.cast(kind).to_pylist()
    return bodies


def _ids(batch: pa.RecordBatch, columns: tuple[str, ...]) -> list[str] | None:
    """Text that is the same for no two different ids: colons within a part are escaped."""
    if not columns:
        return None
    parts = []
    for name in columns:
        column = batch[name]
        if column.null_count:
            raise PublishFailed(f"option idColumns: {name} is null in {column.null_count} rows")
        text = column.cast(pa.string())
        escaped = pc.replace_substring(pc.replace_substring(text, "%", "%25"), ":", "%3A")
        parts.append(escaped)
    ids: list[str] = pc.binary_join_element_wise(*parts, ":").to_pylist()
    return ids


def _block_of_id(identity: str) -> PropertyBlock:
    """Headers of the id alone, and persistent: what encode_properties makes of it, but quickly."""
    raw = identity.encode()
    table = _HEADER_START + _LENGTH.pack(len(raw)) + raw
    return PropertyBlock(_FLAGS_OF_ID + _LENGTH.pack(len(table)) + table + bytes((PERSISTENT,)))


_HEADER_START: Final = bytes((len(DEDUPLICATION_HEADER),)) + DEDUPLICATION_HEADER.encode() + b"S"
# Headers and delivery mode are there, nothing else.
_FLAGS_OF_ID: Final = b"\x30\x00"


def _full_blocks(batch: pa.RecordBatch, ids: list[str] | None) -> Iterator[PropertyBlock]:
    """Row by row, for rows that say more of themselves."""
    count = batch.num_rows
    identities: list[str | None] = [None] * count if ids is None else list(ids)

    def column(name: str) -> list[object]:
        return batch[name].to_pylist() if name in batch.schema.names else [None] * count

    rows = zip(
        column("headers"), column("properties"), column("message_id"), identities,
        strict=True,
    )  # fmt: skip
    for headers, properties, message_id, identity in rows:
        block = Properties(delivery_mode=PERSISTENT)
        if isinstance(properties, dict):
            for name, value in properties.items():
                if value is not None:
                    is_moment = isinstance(value, datetime)
                    setattr(block, name, int(value.timestamp()) if is_moment else value)
        if isinstance(message_id, str):
            block.message_id = message_id
        block.headers = _table(headers, identity)
        try:
            yield PropertyBlock(encode_properties(block))
        except ValueError as error:
            raise PublishFailed(f"properties of a row: {error}") from None


def _table(headers: object, identity: str | None) -> Table | None:
    """Spark's maps come as lists of pairs."""
    items = list(headers) if isinstance(headers, list) else []
    fields = [
        (name, Field("V", None) if text is None else Field("S", text.encode()))
        for name, text in items
        if identity is None or name != DEDUPLICATION_HEADER
    ]
    if identity is not None:
        fields.append((DEDUPLICATION_HEADER, Field("S", identity.encode())))
    return Table(fields) if fields else None
