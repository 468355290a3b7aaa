"""What can happen while a connection is negotiated, and what the machine can ask to be done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from warren.model.errors import HardError
from warren.model.fields import Table
from warren.protocol.capabilities import ClientCapabilities
from warren.wire.methods import Method

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

UserT = TypeVar("UserT")


@dataclass(frozen=True, slots=True)
class ProtocolHeader:
    """The first eight bytes of a connection."""

    header: bytes


@dataclass(frozen=True, slots=True)
class MethodReceived:
    """A method on channel 0."""

    method: Method


@dataclass(frozen=True, slots=True)
class StrayFrame:
    """Before `Opened`: a frame that is neither a method on channel 0 nor a heartbeat."""

    frame_type: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class UnreadableFrame:
    """The wire layer could not make sense of what came."""

    error: HardError
    class_id: int = 0
    method_id: int = 0


@dataclass(frozen=True, slots=True)
class Timeout:
    """The time for negotiating is over."""


Event: TypeAlias = ProtocolHeader | MethodReceived | StrayFrame | UnreadableFrame | Timeout


@dataclass(frozen=True, slots=True)
class SendProtocolHeaderAndClose:
    """Answer a protocol we do not speak with the one we do; `reason` is for the log."""

    reason: str
    header: bytes = PROTOCOL_HEADER


@dataclass(frozen=True, slots=True)
class SendMethod:
    method: Method


@dataclass(frozen=True, slots=True)
class CloseSilently:
    """Read no more, send nothing, close the socket after `after_s`; `reason` is for the log."""

    after_s: int
    reason: str


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Send connection.close and wait for close-ok; `reason` is for the log."""

    error: HardError
    class_id: int
    method_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Negotiated:
    """Limits both sides keep from now on; a frame_max or heartbeat_s of 0 means none."""

    frame_max: int
    heartbeat_s: int
    channel_max: int


@dataclass(frozen=True, slots=True)
class Opened(Generic[UserT]):
    """Comes right before open-ok is sent."""

    vhost: str
    user: UserT
    mechanism: str
    capabilities: ClientCapabilities
    client_properties: Table
    connection_name: str | None


Action: TypeAlias = (
    SendProtocolHeaderAndClose
    | SendMethod
    | CloseSilently
    | CloseConnection
    | Negotiated
    | Opened[UserT]
)
