"""Rows of Arrow batches into what is published: a basic.publish, properties and a body each.

Rows become frames a block at a time (`content_frames`), by columns. What rows have in common is
encoded once: the publish of each route, and the properties, if rows differ in nothing but the body.
Rows with headers or properties of their own are looked at one by one for these. Messages are
persistent unless a row says otherwise, and mandatory, so that one which no queue gets comes back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_warren.amqp_methods import BasicPublish, encode_method
from pyspark_warren.content_frames import U32, Numbers, content_frames, method_frame
from pyspark_warren.content_frames import Field as Octets
from pyspark_warren.errors import PublishFailed
from warren.model.fields import Field, Table
from warren.wire.properties import Properties, encode_properties

if TYPE_CHECKING:
    from pyspark_warren.options import SinkOptions

# As the well-known plugin has it.
DEDUPLICATION_HEADER: Final = "x-deduplication-header"
PERSISTENT: Final = 2
# What is made and sent at once: enough for a socket, and a small part of the publisher's window.
BLOCK_BYTES: Final = 524_288
BLOCK_MESSAGES: Final = 1_024
_ROUTES_MAX: Final = 10_000


class Encoder:
    """Encodes the rows of one task."""

    def __init__(self, options: SinkOptions, block_messages: int = BLOCK_MESSAGES) -> None:
        self._options = options
        self._block_messages = block_messages
        self._methods: dict[tuple[str, str], bytes] = {}

    def encode(self, batch: pa.RecordBatch, frame_max: int) -> Iterator[pa.BinaryArray]:
        """Blocks of messages, each the frames of a row. Raises PublishFailed for one it cannot."""
        _check_filled(batch, "value", "column value")
        if self._options.routing_key is None and "routing_key" in batch.schema.names:
            # Published with an empty key, most messages would go nowhere, or to the wrong queue.
            _check_filled(batch, "routing_key", "column routing_key", "fill it, or give routingKey")
        for name in self._options.id_columns:
            _check_filled(batch, name, f"option idColumns: {name}")
        if (key := self._options.partition_key) is not None:
            _check_filled(batch, key, f"option partitionKey: {key}")
        for block in self._blocks(batch):
            bodies = block["value"].cast(pa.binary())
            yield content_frames(
                self._method_frames(block), self._properties(block), bodies, frame_max
            )

    def _blocks(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        ends = np.cumsum(pc.binary_length(batch["value"]).to_numpy(), dtype=np.int64)
        start = 0
        while start < batch.num_rows:
            before = ends[start - 1] if start else 0
            fitting = int(np.searchsorted(ends, before + BLOCK_BYTES, "right"))
            end = min(max(fitting, start + 1), start + self._block_messages)
            yield batch.slice(start, end - start)
            start = end

    def _method_frames(self, batch: pa.RecordBatch) -> Octets:
        """Of each row's route; made once for each route that there is."""
        options = self._options
        column = "exchange" if options.super_stream is None else None
        exchanges, of_exchange = _numbered(batch, column, options.exchange)
        column = options.partition_key or "routing_key"
        keys, of_key = _numbered(batch, column, options.routing_key or "")
        if len(exchanges) == len(keys) == 1:
            return self._method_frame(exchanges[0], keys[0])
        routes, of_route = np.unique(of_exchange * len(keys) + of_key, return_inverse=True)
        pairs = [divmod(route, len(keys)) for route in routes.tolist()]
        made = [self._method_frame(exchanges[exchange], keys[key]) for exchange, key in pairs]
        return pa.array(made, pa.binary()).take(pa.array(of_route))

    def _method_frame(self, exchange: str, routing_key: str) -> bytes:
        route = (exchange, routing_key)
        made = self._methods.get(route)
        if made is None:
            if len(self._methods) >= _ROUTES_MAX:
                self._methods.clear()
            publish = BasicPublish(exchange=exchange, routing_key=routing_key, mandatory=True)
            try:
                made = method_frame(encode_method(publish))
            except ValueError as error:
                raise PublishFailed(
                    f"exchange {exchange!r}, key {routing_key!r}: {error}"
                ) from None
            self._methods[route] = made
        return made

    def _properties(self, batch: pa.RecordBatch) -> Sequence[Octets]:
        """The blocks that they are sent as, in pieces."""
        ids = _ids(batch, self._options.id_columns)
        if {"headers", "properties", "message_id"} & set(batch.schema.names):
            return [pa.array(_full_blocks(batch, ids), pa.binary())]
        return [_PERSISTENT_BLOCK] if ids is None else _blocks_of_ids(ids)


_PERSISTENT_BLOCK: Final = encode_properties(Properties(delivery_mode=PERSISTENT))


def _check_filled(
    batch: pa.RecordBatch, name: str, called: str, advice: str = "fill it first"
) -> None:
    if nulls := batch[name].null_count:
        raise PublishFailed(f"{called} is null in {nulls} rows; {advice}")


def _numbered(
    batch: pa.RecordBatch, column: str | None, default: str
) -> tuple[list[str], np.ndarray]:
    """The distinct names, and which of them each row has; without a column, all the default."""
    if column is None or column not in batch.schema.names:
        return [default], np.zeros(batch.num_rows, dtype=np.int64)
    encoded = pc.fill_null(batch[column].cast(pa.string()), default).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


def _ids(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.StringArray | None:
    """Text that is the same for no two different ids: colons within a part are escaped."""
    if not columns:
        return None
    parts = []
    for name in columns:
        text = batch[name].cast(pa.string())
        if not pa.types.is_integer(batch[name].type):
            text = pc.replace_substring(pc.replace_substring(text, "%", "%25"), ":", "%3A")
        parts.append(text)
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, ":")


def _blocks_of_ids(ids: pa.StringArray) -> Sequence[Octets]:
    """Headers of the id alone, and persistent: what encode_properties makes of each."""
    lengths = pc.binary_length(ids).to_numpy()
    table_lengths = Numbers(lengths + len(_HEADER_START) + 4, U32)
    return (
        _FLAGS_OF_ID, table_lengths, _HEADER_START, Numbers(lengths, U32), ids.cast(pa.binary()),
        bytes((PERSISTENT,)),
    )  # fmt: skip


_HEADER_START: Final = bytes((len(DEDUPLICATION_HEADER),)) + DEDUPLICATION_HEADER.encode() + b"S"
# Headers and delivery mode are there, nothing else.
_FLAGS_OF_ID: Final = b"\x30\x00"


def _full_blocks(batch: pa.RecordBatch, ids: pa.StringArray | None) -> Iterator[bytes]:
    """Row by row, for rows that say more of themselves."""
    count = batch.num_rows
    identities: list[str | None] = [None] * count if ids is None else ids.to_pylist()

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
            yield encode_properties(block)
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
