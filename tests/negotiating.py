"""A client of the negotiation machine: its events, and what comes back, in few words."""

from __future__ import annotations

from typing import Any, cast

from pamqp.commands import Connection

from warren.model.errors import LoginRefused, not_allowed
from warren.model.fields import EMPTY_TABLE, Table
from warren.protocol.capabilities import server_properties
from warren.protocol.handshake import Handshake, HandshakeSettings
from warren.protocol.negotiation import (
    Action,
    CloseConnection,
    CloseSilently,
    Event,
    MethodReceived,
    ProtocolHeader,
    SendMethod,
)
from warren.protocol.sasl import Credentials
from warren.wire.methods import Method

HEADER = b"AMQP\0\0\x09\x01"


def authenticate(mechanism: str, credentials: Credentials) -> str:
    username, password = credentials
    if (username, password) not in {("guest", b"guest"), ("O=client", None)}:
        raise LoginRefused(f"user '{username}' - invalid credentials")
    return username


def open_vhost(user: str, vhost: str) -> None:
    if vhost == "forbidden":
        raise not_allowed(f"access to vhost '{vhost}' refused for user '{user}'")
    if vhost != "/":
        raise not_allowed(f"vhost {vhost} not found")


def handshake(**settings: Any) -> Handshake[str]:
    return Handshake(
        HandshakeSettings(server_properties("test"), **settings), authenticate, open_vhost
    )


def start_ok(
    response: bytes = b"\0guest\0guest", mechanism: str = "PLAIN", properties: Table = EMPTY_TABLE
) -> Event:
    method = Connection.StartOk(mechanism=mechanism, locale="en_US")
    method.client_properties = cast("Any", properties)
    method.response = cast("Any", response)
    return MethodReceived(method)


def tune_ok(channel_max: int = 2047, frame_max: int = 131072, heartbeat: int = 60) -> Event:
    return MethodReceived(Connection.TuneOk(channel_max, frame_max, heartbeat))


def open_(vhost: str = "/") -> Event:
    method = Connection.Open()
    method.virtual_host = vhost
    return MethodReceived(method)


HEADER_SENT: Event = ProtocolHeader(HEADER)
BEFORE_START_OK = (HEADER_SENT,)
BEFORE_TUNE_OK = (*BEFORE_START_OK, start_ok())
BEFORE_OPEN = (*BEFORE_TUNE_OK, tune_ok())
RUNNING = (*BEFORE_OPEN, open_())


def after(*events: Event, machine: Handshake[str] | None = None) -> list[Action[str]]:
    """What the machine asks for at the last of these events."""
    machine = machine or handshake()
    actions: list[Action[str]] = []
    for event in events:
        actions = machine.handle(event)
    return actions


def sent(actions: list[Action[str]]) -> Method:
    (action,) = (a for a in actions if isinstance(a, SendMethod))
    return action.method


def told(actions: list[Action[str]]) -> tuple[str, int, int]:
    (action,) = actions
    assert isinstance(action, CloseConnection)
    return action.error.reply_text, action.class_id, action.method_id


def silent(actions: list[Action[str]]) -> tuple[int, str]:
    (action,) = actions
    assert isinstance(action, CloseSilently)
    return action.after_s, action.reason
