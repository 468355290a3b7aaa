"""Events to bytes, in plain Python: see `_codec_py.py`.

Frames are written one behind the other into a chunk of memory that goes to the transport as it
is; a body of `BODY_BY_REFERENCE_MIN` bytes or more is not copied into it but becomes a piece of
its own, between the chunk that ends with its frame header and one that begins with its end octet.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from warren.wire._reader_py import (
    BASIC_ACK,
    CLASS_BASIC,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
)
from warren.wire._values_py import Message

BASIC_DELIVER: Final = b"\x00\x3c\x00\x3c"
BASIC_NACK: Final = b"\x00\x3c\x00\x78"
FRAME_OVERHEAD_BYTES: Final = 8
BODY_BY_REFERENCE_MIN: Final = 16384

_FRAME_START: Final = Struct(">BHI")
_CONTENT_START: Final = Struct(">HHQ")
_DELIVERY_TAG: Final = Struct(">Q?")
_END: Final = bytes([FRAME_END])


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return _FRAME_START.pack(kind, channel, len(payload)) + payload + _END


class OutputBuffer:
    """Everything one connection is about to send."""

    __slots__ = (
        "_chunk", "_congestion_bytes", "_on_congested", "_on_first_write",
        "_sealed", "frame_max", "is_congested", "octets", "size", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        frame_max: int,
        congestion_bytes: int,
        on_first_write: Callable[[], None],
        on_congested: Callable[[], None] | None = None,
    ) -> None:
        self.frame_max = frame_max
        self.size = 0
        self.octets = 0
        self.is_congested = False
        self.waiting: list[Any] = []
        self._congestion_bytes = congestion_bytes
        self._on_first_write = on_first_write
        self._on_congested = on_congested
        self._sealed: list[bytes | memoryview] = []
        self._chunk = bytearray()

    def raw(self, data: bytes) -> None:
        self._announce()
        self._chunk += data
        self._count(len(data))

    def method(self, channel: int, payload: bytes) -> None:
        self.raw(frame(FRAME_METHOD, channel, payload))

    def heartbeat(self) -> None:
        self.raw(frame(FRAME_HEARTBEAT, 0, b""))

    def ack(self, channel: int, delivery_tag: int, multiple: bool) -> None:
        self.method(channel, BASIC_ACK + _DELIVERY_TAG.pack(delivery_tag, multiple))

    def nack(self, channel: int, delivery_tag: int, multiple: bool) -> None:
        self.method(channel, BASIC_NACK + _DELIVERY_TAG.pack(delivery_tag, multiple))

    def deliver(
        self, channel: int, consumer_tag: bytes, delivery_tag: int, redelivered: bool,
        message: Message,
    ) -> None:  # fmt: skip
        """One basic.deliver; `consumer_tag` comes with its length octet."""
        delivery = _DELIVERY_TAG.pack(delivery_tag, redelivered)
        self.content(channel, BASIC_DELIVER + consumer_tag + delivery + message.route_key, message)

    def content(self, channel: int, method: bytes, message: Message) -> None:
        """A method with content that is not a delivery: basic.get-ok, basic.return."""
        body = message.body
        room = self.frame_max - FRAME_OVERHEAD_BYTES
        start = _CONTENT_START.pack(CLASS_BASIC, 0, len(body))
        data = frame(FRAME_METHOD, channel, method)
        data += frame(FRAME_HEADER, channel, start + message.properties.raw)
        if 0 < len(body) < BODY_BY_REFERENCE_MIN and len(body) <= room:
            self.raw(data + frame(FRAME_BODY, channel, body))
            return
        self.raw(data)
        for position in range(0, len(body), room):
            self._body(channel, body, position, min(position + room, len(body)))

    def take(self) -> list[bytes | memoryview]:
        """Everything written so far, in pieces; the buffer is empty afterwards."""
        self._seal()
        pieces, self._sealed = self._sealed, []
        self.size = 0
        return pieces

    def _body(self, channel: int, body: bytes, start: int, end: int) -> None:
        if end - start < BODY_BY_REFERENCE_MIN:
            self.raw(frame(FRAME_BODY, channel, body[start:end]))
            return
        self._announce()
        self._chunk += _FRAME_START.pack(FRAME_BODY, channel, end - start)
        self._seal()
        self._sealed.append(body if end - start == len(body) else memoryview(body)[start:end])
        self._chunk += _END
        self._count(end - start + FRAME_OVERHEAD_BYTES)

    def _announce(self) -> None:
        if self.size == 0:
            self._on_first_write()

    def _count(self, octets: int) -> None:
        self.size += octets
        self.octets += octets
        if self.size > self._congestion_bytes and not self.is_congested:
            self.is_congested = True
            if self._on_congested is not None:
                self._on_congested()

    def _seal(self) -> None:
        """Close the chunk under construction: what is written so far goes as one piece."""
        if self._chunk:
            self._sealed.append(bytes(self._chunk))
            self._chunk.clear()
