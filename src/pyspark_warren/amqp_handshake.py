"""Handshake of the sink's AMQP connection: who logs in, how, and with which limits.

    client                      broker
      | PROTOCOL_HEADER ------------> |
      | <----------- connection.start |
      | start-ok -------------------> |
      | <------------ connection.tune |
      | tune-ok, open --------------> |
      | <--------- connection.open-ok |

A user logs in with a password (PLAIN), with an OAuth 2.0 token, which RabbitMQ takes in place of
the password, or with the certificate that the TLS handshake has shown (EXTERNAL), if the broker
offers that and neither a user nor a token is named. Pure: the caller sends what `answer` returns.
"""

from __future__ import annotations

from typing import Final

from pyspark_warren.amqp_methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from pyspark_warren.endpoints import Endpoint
from warren.client.errors import BrokenStream
from warren.wire.tables import python_to_table

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
_CAPABILITIES: Final = {
    "publisher_confirms": True,
    "basic.nack": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class Handshake:
    """One connection's; `frame_max` is what was agreed on once it is open."""

    def __init__(self, endpoint: Endpoint, vhost: str, frame_max: int) -> None:
        self._endpoint = endpoint
        self._vhost = vhost
        self._expected: type[Method] = ConnectionStart
        self.frame_max = frame_max
        self.is_open = False

    def answer(self, method: Method) -> list[Method]:
        """Return what to send next; raises BrokenStream if `method` is not the one to come now."""
        if not isinstance(method, self._expected):
            came, expected = type(method).__name__, self._expected.__name__
            raise BrokenStream(f"{came} came in place of {expected}")
        match method:
            case ConnectionStart():
                self._expected = ConnectionTune
                return [self._start_ok(method)]
            case ConnectionTune():
                self._expected = ConnectionOpenOk
                return self._agree(method)
        self.is_open = True
        return []

    def _start_ok(self, start: ConnectionStart) -> ConnectionStartOk:
        properties = python_to_table(
            {"product": "pyspark_warren", "platform": "Python", "capabilities": _CAPABILITIES}
        )
        endpoint = self._endpoint
        if endpoint.is_external and b"EXTERNAL" in start.mechanisms.split():
            return ConnectionStartOk(properties, "EXTERNAL", b"")
        secret = endpoint.identity.bearer() or endpoint.password
        return ConnectionStartOk(properties, "PLAIN", f"\0{endpoint.user}\0{secret}".encode())

    def _agree(self, tune: ConnectionTune) -> list[Method]:
        """Take the lower limit of frames; 0 of the broker's means that it has none."""
        self.frame_max = min(tune.frame_max or self.frame_max, self.frame_max)
        return [
            ConnectionTuneOk(tune.channel_max, self.frame_max, 0),
            ConnectionOpen(self._vhost),
        ]
