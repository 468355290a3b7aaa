"""What the two ends tell each other about themselves while they negotiate."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from warren import __version__
from warren.model.fields import Field, Table, longstr

# Clients look for these two before they use what RabbitMQ added to AMQP.
PRODUCT: Final = "RabbitMQ"
COMPATIBLE_VERSION: Final = "3.10.8"

SERVER_CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


def server_properties(cluster_name: str) -> Table:
    capabilities = Table((name, Field("t", True)) for name in SERVER_CAPABILITIES)
    texts = {
        "cluster_name": cluster_name,
        "copyright": "Copyright (c) the authors of Warren",
        "information": f"Warren {__version__}, an AMQP 0-9-1 broker. Licensed under Apache 2.0",
        "platform": f"Warren on Python {sys.version_info.major}.{sys.version_info.minor}",
        "product": PRODUCT,
        "version": COMPATIBLE_VERSION,
    }
    return Table(
        [
            ("capabilities", Field("F", capabilities)),
            *((name, longstr(text)) for name, text in texts.items()),
        ]
    )


@dataclass(frozen=True, slots=True)
class ClientCapabilities:
    """The client's abilities that change what the server sends; others are informative."""

    authentication_failure_close: bool = False
    consumer_cancel_notify: bool = False
    connection_blocked: bool = False

    @classmethod
    def of(cls, client_properties: Table) -> ClientCapabilities:
        declared = client_properties.get("capabilities")
        table = declared.value if declared is not None else None
        if not isinstance(table, Table):
            return cls()

        def has(name: str) -> bool:
            return table.get(name) == Field("t", True)

        return cls(
            authentication_failure_close=has("authentication_failure_close"),
            consumer_cancel_notify=has("consumer_cancel_notify"),
            connection_blocked=has("connection.blocked"),
        )


def connection_name(client_properties: Table) -> str | None:
    """The name the client gave to its connection, for logs and listings."""
    field = client_properties.get("connection_name")
    if field is None or field.kind != "S" or not isinstance(field.value, bytes):
        return None
    return field.value.decode(errors="replace")
