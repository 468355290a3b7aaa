"""Handshake of an AMQP 0-9-1 client, until its connection is open.

    client                      broker
      | PROTOCOL_HEADER ------------> |
      | <----------- connection.start |
      | start-ok -------------------> |
      | <------------ connection.tune |
      | tune-ok, open --------------> |
      | <--------- connection.open-ok |

Pure: the caller sends what `answer` returns, on channel 0. A connection.close in between is for the
caller, who has to know anyway how a connection ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, cast

from pamqp.commands import Connection

from warren.client.errors import BrokenStream
from warren.protocol.negotiation import PROTOCOL_HEADER
from warren.wire.methods import Method

__all__ = ["PROTOCOL_HEADER", "Handshake", "Login"]

_CAPABILITIES: Final = {
    "publisher_confirms": True,
    "consumer_cancel_notify": True,
    "basic.nack": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


@dataclass(frozen=True, slots=True)
class Login:
    """User, virtual host and product of a client, and the limits that it asks for."""

    user: str
    password: str = field(repr=False)
    vhost: str
    product: str
    frame_max: int
    heartbeat_s: int = 0
    """0: without heartbeats, whatever the broker proposes."""


class Handshake:
    """`frame_max` and `heartbeat_s` are what was agreed on, once the connection is open."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._expected: type[Method] = Connection.Start
        self.frame_max = login.frame_max
        self.heartbeat_s = login.heartbeat_s
        self.is_open = False

    def answer(self, method: Method) -> list[Method]:
        """Return what to send next; raises BrokenStream if `method` is not the one to come now."""
        if not isinstance(method, self._expected):
            raise BrokenStream(f"{method.name} came in place of {self._expected.name}")
        match method:
            case Connection.Start():
                self._expected = Connection.Tune
                return [self._start_ok()]
            case Connection.Tune():
                self._expected = Connection.OpenOk
                return self._agree(method)
        self.is_open = True
        return []

    def _start_ok(self) -> Connection.StartOk:
        login = self._login
        properties = {
            "product": login.product,
            "platform": "Python",
            "capabilities": _CAPABILITIES,
        }
        return Connection.StartOk(
            client_properties=cast("Any", properties),
            mechanism="PLAIN",
            response=f"\0{login.user}\0{login.password}",
            locale="en_US",
        )

    def _agree(self, tune: Connection.Tune) -> list[Method]:
        """Take the lower of both limits; 0 of the broker's means that it has none."""
        self.frame_max = min(tune.frame_max or self.frame_max, self.frame_max)
        self.heartbeat_s = min(tune.heartbeat or self.heartbeat_s, self.heartbeat_s)
        return [
            Connection.TuneOk(tune.channel_max, self.frame_max, self.heartbeat_s),
            Connection.Open(self._login.vhost),
        ]
