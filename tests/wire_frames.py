"""Frames built by hand, readers fed in pieces, and events in a form that can be compared."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from struct import pack
from types import ModuleType
from typing import Any

import pytest

from warren.wire.fault_kinds import FaultKind

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
NO_PROPERTIES = b"\x00\x00"
FRAME_MAX = 131_072
MESSAGE_SIZE_MAX = 134_217_728
LANDING_BYTES_MIN = 16_384


def kernel(name: str) -> ModuleType:
    """The compiled kernel (`_codec`) or its twin (`_codec_py`)."""
    try:
        return importlib.import_module(f"warren.wire.{name}")
    except ImportError:
        pytest.skip(f"warren.wire.{name} was not built")


def frame(kind: int, channel: int, payload: bytes = b"", end: int = 0xCE) -> bytes:
    return pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])


def short_string(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def route_key(exchange: bytes = b"", routing_key: bytes = b"q") -> bytes:
    return short_string(exchange) + short_string(routing_key)


def publish(channel: int = 1, route: bytes | None = None, flags: int = 0) -> bytes:
    route = route_key() if route is None else route
    return frame(METHOD, channel, pack(">HHH", 60, 40, 0) + route + bytes([flags]))


def header(
    channel: int = 1,
    body_size: int = 0,
    properties: bytes = NO_PROPERTIES,
    class_id: int = 60,
    weight: int = 0,
) -> bytes:
    payload = pack(">HHQ", class_id, weight, body_size) + properties
    return frame(HEADER, channel, payload)


def body(channel: int = 1, payload: bytes = b"") -> bytes:
    return frame(BODY, channel, payload)


def message(
    payload: bytes = b"hello",
    channel: int = 1,
    properties: bytes = NO_PROPERTIES,
    frame_bytes_max: int = FRAME_MAX,
) -> bytes:
    """A whole publish, the body in as many frames as it takes."""
    pieces = [
        body(channel, payload[start : start + frame_bytes_max])
        for start in range(0, len(payload), frame_bytes_max)
    ]
    return publish(channel) + header(channel, len(payload), properties) + b"".join(pieces)


def ack(channel: int = 1, delivery_tag: int = 7, bits: int = 0) -> bytes:
    return frame(METHOD, channel, pack(">HHQB", 60, 80, delivery_tag, bits))


def deliver(
    channel: int = 1, consumer_tag: bytes = b"c", route: bytes | None = None, bits: int = 0
) -> bytes:
    arguments = short_string(consumer_tag) + pack(">QB", 7, bits) + (route or route_key())
    return frame(METHOD, channel, pack(">HH", 60, 60) + arguments)


def returned(channel: int = 1) -> bytes:
    arguments = pack(">H", 312) + short_string(b"NO_ROUTE") + route_key()
    return frame(METHOD, channel, pack(">HH", 60, 50) + arguments)


def get_ok(channel: int = 1, route: bytes | None = None, messages_left: int = 3) -> bytes:
    arguments = pack(">QB", 7, 1) + (route or route_key()) + pack(">I", messages_left)
    return frame(METHOD, channel, pack(">HH", 60, 71) + arguments)


def described(event: Any) -> tuple[Any, ...]:
    """All that can be seen of an event or a property block, the same for both kernels."""
    match type(event).__name__:
        case "Message":
            names = ["channel", "route_key", "flags", "body"]
            return (*(getattr(event, n) for n in names), described(event.properties), "Message")
        case "Delivery":
            names = ["channel", "consumer_tag", "delivery_tag", "redelivered", "messages_left"]
            return (*(getattr(event, n) for n in names), described(event.message), "Delivery")
        case "PropertyBlock":
            names = ["raw", "flags", "is_malformed", "persistent", "priority", "expiration_ms"]
            names.append("needs_vetting")
        case "MethodFrame":
            names = ["channel", "payload"]
        case "Ack":
            names = ["channel", "delivery_tag", "multiple"]
        case "Fault":
            names = ["kind", "channel", "frame_type", "payload", "detail"]
        case unknown:
            raise AssertionError(f"no event: {unknown}")
    return (*(getattr(event, n) for n in names), type(event).__name__)


def event_names(events: list[Any]) -> list[str]:
    """What came, in short: the class of an event, of a fault its kind."""
    return [
        FaultKind(event.kind).name if type(event).__name__ == "Fault" else type(event).__name__
        for event in events
    ]


def only(events: list[Any]) -> Any:
    assert len(events) == 1, event_names(events)
    return events[0]


def cut(data: bytes, boundaries: Iterable[int]) -> list[bytes]:
    """The data in pieces that begin at the given offsets."""
    offsets = sorted({0, len(data), *(b for b in boundaries if 0 < b < len(data))})
    return [data[start:end] for start, end in pairwise(offsets)]


def feed_all(reader: Any, pieces: Sequence[bytes]) -> list[Any]:
    return [event for piece in pieces for event in reader.feed(piece)]


def receive(reader: Any, data: bytes, read_bytes_max: int) -> list[Any]:
    """As a connection does: into the landing where there is one, else through feed()."""
    events = []
    position = 0
    while position < len(data):
        landing = reader.landing()
        if landing is None:
            piece = data[position : position + read_bytes_max]
            events += reader.feed(piece)
        else:
            piece = data[position : position + min(read_bytes_max, len(landing))]
            landing[: len(piece)] = piece
            events += reader.landed(len(piece))
        position += len(piece)
    return events
