"""What operators are shown of a client's connection beyond what it needs itself.

Ten thousand idle connections are ten thousand of these, so what a client said about itself is kept
as the bytes it sent, and read again when somebody asks.
"""

from __future__ import annotations

from dataclasses import dataclass

from warren.config.values import Endpoint
from warren.model.fields import Table
from warren.protocol.negotiation import Negotiated
from warren.server.tls.peer import TlsPeer
from warren.wire.tables import decode_table


@dataclass(frozen=True, slots=True)
class ConnectionDetails:
    number: int
    """Of this connection, among all that the node has had."""
    peer: Endpoint
    host: Endpoint
    """The address that the client is connected to."""
    connected_at_ms: int
    mechanism: str
    limits: Negotiated
    encoded_properties: bytes
    tls: TlsPeer | None = None

    @property
    def client_properties(self) -> Table:
        return decode_table(self.encoded_properties)[0]

    @property
    def name(self) -> str:
        """What RabbitMQ calls a connection: `127.0.0.1:53412 -> 127.0.0.1:5672`."""
        return f"{self.peer} -> {self.host}"
