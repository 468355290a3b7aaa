"""What can be wrong with a byte stream, and the AMQP error RabbitMQ answers each with.

The frame reader is sans-IO and knows no texts: it reports a `Fault` with one of these kinds, and
stops or goes on as the kind demands. This file turns the fault into the error for the client.
"""

from __future__ import annotations

from typing import Final

from warren.model.erlang import render_text_binary
from warren.model.errors import (
    AmqpError,
    frame_error,
    internal_error,
    precondition_failed,
    unexpected_frame,
)
from warren.wire.codec import Fault
from warren.wire.fault_kinds import FaultKind

FRAME_HEADER_BYTES: Final = 7
FRAME_OVERHEAD_BYTES: Final = 8
FRAME_MAX_MIN: Final = 4096
OCTETS_SHOWN: Final = 16


CONTENT_KINDS: Final = frozenset(
    {
        FaultKind.EXPECTED_METHOD,
        FaultKind.EXPECTED_HEADER,
        FaultKind.WRONG_CLASS,
        FaultKind.EXPECTED_BODY,
    }
)
MESSAGE_SIZE_CAP: Final = 536_870_912
_PUBLISH_IDS: Final = (60, 40)


def describe_octets(frame_type: int, octets: bytes) -> str:
    """RabbitMQ's way to quote a bad frame: `type 1, all octets = <<0,10>>`."""
    if len(octets) > OCTETS_SHOWN:
        return f"type {frame_type}, first 16 octets = {render_text_binary(octets[:OCTETS_SHOWN])}"
    return f"type {frame_type}, all octets = {render_text_binary(octets)}"


def error_of(fault: Fault, frame_max: int, message_size_max: int) -> AmqpError:
    """The error to close the connection (or, for a large message, the channel) with."""
    quoted = describe_octets(fault.frame_type, fault.payload)
    match FaultKind(fault.kind):
        case FaultKind.FRAME_END:
            return frame_error(f"{quoted}: {{invalid_frame_end_marker,{fault.detail}}}")
        case FaultKind.FRAME_TOO_LARGE:
            allowed = frame_max - FRAME_OVERHEAD_BYTES
            return frame_error(f"{quoted}: {{frame_too_large,{fault.detail},{allowed}}}")
        case FaultKind.UNKNOWN_FRAME:
            return frame_error(f"{quoted}: unknown_frame")
        case FaultKind.STRAY_FRAME:
            return unexpected_frame(quoted)
        case FaultKind.EXPECTED_METHOD:
            return unexpected_frame("expected method frame, got non method frame instead")
        case FaultKind.EXPECTED_HEADER:
            return unexpected_frame(
                "expected content header for class 60, got non content header frame instead"
            )
        case FaultKind.WRONG_CLASS:
            return unexpected_frame(
                f"expected content header for class 60, got one for class {fault.detail} instead"
            )
        case FaultKind.EXPECTED_BODY:
            return unexpected_frame("expected content body, got non content body frame instead")
        case FaultKind.MALFORMED_PROPERTIES:
            return internal_error("malformed content header")
        case FaultKind.MESSAGE_TOO_LARGE:
            limit = "max size" if message_size_max >= MESSAGE_SIZE_CAP else "configured max size"
            return precondition_failed(
                f"message size {fault.detail} is larger than {limit} {message_size_max}"
            )


def method_of(fault: Fault) -> tuple[int, int]:
    """Class and method ids that go with the error: the publish under way, or none."""
    in_publish = fault.kind in CONTENT_KINDS and fault.kind != FaultKind.EXPECTED_METHOD
    return _PUBLISH_IDS if in_publish or fault.kind == FaultKind.MESSAGE_TOO_LARGE else (0, 0)
