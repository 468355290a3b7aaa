"""Topology records as bytes: versioned JSON that a person can read in the database.

Field tables go in as base64 of their wire form, the only one that keeps every type letter. A field
that this version does not know is ignored; a layout it does not know is refused.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, Literal, TypeAlias

import msgspec

from warren.model.fields import Table
from warren.model.records import (
    BindingRecord,
    Destination,
    DestinationKind,
    ExchangeRecord,
    QueueRecord,
)
from warren.model.unreadable import UNREADABLE
from warren.wire.tables import MalformedTable, decode_table, encode_table

LAYOUT: Final = 1
TopologyRecord: TypeAlias = ExchangeRecord | QueueRecord | BindingRecord


class UnreadableRecord(ValueError):
    """Stored bytes that are not a record of this or an older layout."""


class _Exchange(msgspec.Struct, frozen=True, tag="exchange", tag_field="kind"):
    layout: int
    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: str
    created_by: str


class _Queue(msgspec.Struct, frozen=True, tag="queue", tag_field="kind"):
    layout: int
    vhost: str
    name: str
    durable: bool
    auto_delete: bool
    owner: str | None
    arguments: str
    created_by: str
    node: str = ""


class _Binding(msgspec.Struct, frozen=True, tag="binding", tag_field="kind"):
    layout: int
    vhost: str
    source: str
    destination_kind: Literal["queue", "exchange"]
    destination: str
    routing_key: str
    arguments: str


_decoder: Final = msgspec.json.Decoder(_Exchange | _Queue | _Binding)
_encoder: Final = msgspec.json.Encoder()


def encode_record(record: TopologyRecord) -> bytes:
    return _encoder.encode(_stored(record))


def decode_record(data: bytes) -> TopologyRecord:
    try:
        stored = _decoder.decode(data)
        if stored.layout > LAYOUT:
            raise UnreadableRecord(f"layout {stored.layout} is newer than {LAYOUT}, which we know")
        return _record(stored)
    except (*UNREADABLE, MalformedTable, binascii.Error) as error:
        raise UnreadableRecord(f"{error}: {data[:80]!r}") from error


def decode_exchange(data: bytes) -> ExchangeRecord:
    record = decode_record(data)
    if not isinstance(record, ExchangeRecord):
        raise UnreadableRecord(f"not an exchange: {data[:80]!r}")
    return record


def decode_queue(data: bytes) -> QueueRecord:
    record = decode_record(data)
    if not isinstance(record, QueueRecord):
        raise UnreadableRecord(f"not a queue: {data[:80]!r}")
    return record


def decode_binding(data: bytes) -> BindingRecord:
    record = decode_record(data)
    if not isinstance(record, BindingRecord):
        raise UnreadableRecord(f"not a binding: {data[:80]!r}")
    return record


def _stored(record: TopologyRecord) -> _Exchange | _Queue | _Binding:
    arguments = base64.b64encode(encode_table(record.arguments)).decode()
    match record:
        case ExchangeRecord():
            return _Exchange(
                layout=LAYOUT,
                vhost=record.vhost,
                name=record.name,
                type=record.type,
                durable=record.durable,
                auto_delete=record.auto_delete,
                internal=record.internal,
                arguments=arguments,
                created_by=record.created_by,
            )
        case QueueRecord():
            return _Queue(
                layout=LAYOUT,
                vhost=record.vhost,
                name=record.name,
                durable=record.durable,
                auto_delete=record.auto_delete,
                owner=record.owner,
                arguments=arguments,
                created_by=record.created_by,
                node=record.node,
            )
        case BindingRecord():
            return _Binding(
                layout=LAYOUT,
                vhost=record.vhost,
                source=record.source,
                destination_kind=record.destination.kind.value,
                destination=record.destination.name,
                routing_key=record.routing_key,
                arguments=arguments,
            )


def _record(stored: _Exchange | _Queue | _Binding) -> TopologyRecord:
    arguments = _table(stored.arguments)
    if isinstance(stored, _Exchange):
        return ExchangeRecord(
            stored.vhost,
            stored.name,
            stored.type,
            stored.durable,
            stored.auto_delete,
            stored.internal,
            arguments,
            stored.created_by,
        )
    if isinstance(stored, _Queue):
        return QueueRecord(
            stored.vhost,
            stored.name,
            stored.durable,
            stored.auto_delete,
            stored.owner,
            arguments,
            stored.created_by,
            stored.node,
        )
    destination = Destination(DestinationKind(stored.destination_kind), stored.destination)
    return BindingRecord(stored.vhost, stored.source, destination, stored.routing_key, arguments)


def _table(text: str) -> Table:
    data = base64.b64decode(text, validate=True)
    table, end = decode_table(data)
    if end != len(data):
        raise MalformedTable("bytes left over behind the table")
    return table
