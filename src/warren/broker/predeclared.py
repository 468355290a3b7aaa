"""The exchanges that every virtual host has from the beginning, and the default one's for events.

They cannot be deleted, nor declared as anything else, so they need not be stored: to the metadata
store they are keys that are always absent.
"""

from __future__ import annotations

from typing import Final

from warren.model.errors import access_refused
from warren.model.records import ExchangeRecord, describe_exchange
from warren.routing.router import DEFAULT_EXCHANGE

RESERVED_PREFIX: Final = "amq."
EVENT_EXCHANGE: Final = "amq.rabbitmq.event"
EVENT_VHOST: Final = "/"

_TYPES: Final = {
    DEFAULT_EXCHANGE: "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
    "amq.topic": "topic",
}
_INTERNAL: Final = frozenset({"amq.rabbitmq.trace", EVENT_EXCHANGE})


def predeclared_exchanges(vhost: str) -> list[ExchangeRecord]:
    types = {**_TYPES, EVENT_EXCHANGE: "topic"} if vhost == EVENT_VHOST else _TYPES
    return [
        ExchangeRecord(vhost, name, type_, internal=name in _INTERNAL)
        for name, type_ in types.items()
    ]


def require_not_default(exchange: str) -> None:
    if exchange == DEFAULT_EXCHANGE:
        raise access_refused("operation not permitted on the default exchange")


def require_deletable(exchange: str, vhost: str) -> None:
    """Any name with the prefix is a system exchange, whether it exists or not."""
    if exchange.startswith(RESERVED_PREFIX):
        where = describe_exchange(exchange, vhost)
        raise access_refused(f"deletion of system {where} not allowed")


def require_free_name(kind: str, name: str) -> None:
    """`kind` is "queue" or "exchange"."""
    if name.startswith(RESERVED_PREFIX):
        raise access_refused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")
