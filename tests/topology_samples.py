"""Short ways to write down exchanges, queues, bindings and tables in tests."""

from __future__ import annotations

from collections.abc import Mapping

from warren.model.fields import Field, FieldData, Table
from warren.model.records import (
    BindingRecord,
    Destination,
    DestinationKind,
    ExchangeRecord,
    QueueRecord,
)

VHOST = "/"


def table(values: Mapping[str, object] | None = None) -> Table:
    """Python values as a client library would send them: int as signedint, text as longstr."""
    return Table((name, field(value)) for name, value in (values or {}).items())


def field(value: object) -> Field:
    match value:
        case Field():
            return value
        case None:
            return Field("V", None)
        case bool():
            return Field("t", value)
        case int():
            return Field("I", value)
        case float():
            return Field("d", value)
        case str():
            return Field("S", value.encode())
        case Mapping():
            return Field("F", table(value))
        case list():
            return Field("A", tuple(field(item) for item in value))
    raise TypeError(value)


def typed(kind: str, value: FieldData) -> Field:
    return Field(kind, value)


def to_queue(name: str) -> Destination:
    return Destination(DestinationKind.QUEUE, name)


def to_exchange(name: str) -> Destination:
    return Destination(DestinationKind.EXCHANGE, name)


def binding(
    source: str,
    destination: str | Destination,
    key: str = "",
    arguments: Mapping[str, object] | None = None,
) -> BindingRecord:
    """A plain name is that of a queue."""
    end = to_queue(destination) if isinstance(destination, str) else destination
    return BindingRecord(VHOST, source, end, key, table(arguments))


def exchange(
    name: str,
    type_: str = "direct",
    arguments: Mapping[str, object] | None = None,
    *,
    durable: bool = True,
    auto_delete: bool = False,
    internal: bool = False,
) -> ExchangeRecord:
    return ExchangeRecord(VHOST, name, type_, durable, auto_delete, internal, table(arguments))


def queue(
    name: str,
    arguments: Mapping[str, object] | None = None,
    *,
    durable: bool = True,
    auto_delete: bool = False,
    owner: str | None = None,
) -> QueueRecord:
    return QueueRecord(VHOST, name, durable, auto_delete, owner, table(arguments))
