"""What the wire kernel makes of bytes, in plain Python: see `_codec_py.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from warren.wire._properties_py import (
    EXPIRATION_NONE,
    EXPIRATION_ODD,
    MalformedBlock,
    Property,
    names_more_keys,
    parse_expiration,
    property_flags,
    split_properties,
)

PERSISTENT: Final = b"\x02"
DIRECT_REPLY_TO: Final = b"amq.rabbitmq.reply-to"


class PropertyBlock:
    """A basic property block, kept byte for byte, with what routing and queues look at."""

    __slots__ = (
        "expiration_ms", "flags", "is_malformed", "needs_vetting", "persistent", "priority", "raw"
    )  # fmt: skip

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.flags = property_flags(raw)
        self.is_malformed = False
        self.persistent = False
        self.priority = 0
        self.expiration_ms = EXPIRATION_NONE
        self.needs_vetting = False
        try:
            for which, value in split_properties(raw):
                self._note(which, value)
        except MalformedBlock:
            self.is_malformed = True

    def _note(self, which: Property, value: bytes) -> None:
        match which:
            case Property.DELIVERY_MODE:
                self.persistent = value == PERSISTENT
            case Property.PRIORITY:
                self.priority = value[0]
            case Property.HEADERS:
                self.needs_vetting |= names_more_keys(value)
            case Property.REPLY_TO:
                self.needs_vetting |= value == DIRECT_REPLY_TO
            case Property.EXPIRATION:
                self.expiration_ms = parse_expiration(value)
                self.needs_vetting |= self.expiration_ms == EXPIRATION_ODD
            case Property.USER_ID:
                self.needs_vetting = True
            case _:
                pass  # only passed on


# The classes below compare by identity, as the compiled ones do: two equal publishes are two.


@dataclass(slots=True, eq=False)
class Message:
    """One publish, shared by every queue it was routed to."""

    route_key: bytes
    properties: PropertyBlock
    body: bytes
    channel: int = field(default=0, init=False)
    flags: int = 0


@dataclass(slots=True, eq=False)
class QueuedMessage:
    """A message's place in one queue."""

    message: Message
    sequence: int
    expires_at_ms: int
    redelivered: bool = field(default=False, init=False)
    delivery_count: int = field(default=0, init=False)
    holder: Any = field(default=None, init=False)
    delivered_at_ms: int = field(default=0, init=False)
    state: int = field(default=0, init=False)
    publisher: Any = field(default=None, init=False)
    publisher_sequence: int = field(default=0, init=False)
    store_file: int = field(default=-1, init=False)
    store_offset: int = field(default=0, init=False)
    size: int = field(default=0, init=False)


@dataclass(slots=True, eq=False)
class MethodFrame:
    """A control method, still encoded."""

    channel: int
    payload: bytes


@dataclass(slots=True, eq=False)
class Ack:
    """basic.ack, the one control method as frequent as messages."""

    channel: int
    delivery_tag: int
    multiple: bool


@dataclass(slots=True, eq=False)
class Delivery:
    """What a client gets: basic.deliver, or basic.get-ok (whose consumer tag is empty)."""

    channel: int
    consumer_tag: bytes
    delivery_tag: int
    redelivered: bool
    messages_left: int
    message: Message


@dataclass(slots=True, eq=False)
class Fault:
    """Something wrong in the byte stream."""

    kind: int
    channel: int
    frame_type: int
    payload: bytes
    detail: int
