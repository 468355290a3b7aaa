"""A channel that gets messages, publishes, and acknowledges: what moving messages takes.

The sink's connection reads answers and confirms; this one reads content, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pamqp.commands import Basic

from pyspark_warren.amqp_connection import CHANNEL, AmqpConnection
from warren.perf.frames import BrokenStream
from warren.wire.codec import Ack, MethodFrame
from warren.wire.methods import decode_method

if TYPE_CHECKING:
    from pyspark_warren.endpoints import Endpoint

_METHOD: Final = 1
_HEADER: Final = 2
_BODY: Final = 3
_FRAME_END: Final = 0xCE
_ACK: Final = b"\x00\x3c\x00\x50"
_GET_OK: Final = b"\x00\x3c\x00\x47"


@dataclass(slots=True)
class Content:
    """A message as it came: its properties as they are, and its body."""

    delivery_tag: int
    block: bytes = b""
    body: bytes = b""
    _left: int = -1

    @property
    def is_whole(self) -> bool:
        return self._left == 0

    def take(self, kind: int, payload: bytes) -> None:
        if kind == _HEADER:
            self._left = int.from_bytes(payload[4:12], "big")
            self.block = payload[12:]
        else:
            self.body += payload
            self._left -= len(payload)


class ContentReader:
    """Frames into methods, confirms and contents, in order."""

    def __init__(self) -> None:
        self._partial = b""
        self._pending: Content | None = None
        self.contents: list[Content] = []

    def feed(self, data: bytes) -> list[MethodFrame | Ack]:
        data = self._partial + data
        events: list[MethodFrame | Ack] = []
        position = 0
        while len(data) - position >= 8:
            end = position + 7 + int.from_bytes(data[position + 3 : position + 7], "big")
            if end >= len(data):
                break
            if data[end] != _FRAME_END:
                raise BrokenStream("a frame does not end where it says")
            self._frame(data[position], data[position + 7 : end], events)
            position = end + 1
        self._partial = data[position:]
        return events

    def _frame(self, kind: int, payload: bytes, events: list[MethodFrame | Ack]) -> None:
        if kind == _METHOD:
            if payload[:4] == _ACK:
                tag = int.from_bytes(payload[4:12], "big")
                events.append(Ack(CHANNEL, tag, payload[12] & 1 == 1))
            elif payload[:4] == _GET_OK:
                method = decode_method(payload)
                assert isinstance(method, Basic.GetOk), "as its number says"
                self._pending = Content(method.delivery_tag or 0)
            else:
                self._pending = None  # of what is returned, the content is known
                events.append(MethodFrame(CHANNEL, payload))
        elif kind in {_HEADER, _BODY} and self._pending is not None:
            self._pending.take(kind, payload)
            if self._pending.is_whole:
                self.contents.append(self._pending)
                self._pending = None


class GettingConnection(AmqpConnection):
    """Publishes with confirms, and gets messages from a queue one by one."""

    def __init__(self, endpoint: Endpoint, vhost: str) -> None:
        super().__init__(endpoint, vhost)
        # Everything that was asked is answered, so nothing is half read.
        self._contents = ContentReader()
        self._reader = self._contents

    def get(self, queue: str) -> Content | None:
        """The next message, unacknowledged; None if there is none. Confirms wait for `receive`."""
        self._method(Basic.Get(queue=queue), CHANNEL)
        self.send()
        contents = self._contents.contents
        while not contents:
            came = self._received()
            answers = [event for event in came if not isinstance(event, Basic.GetEmpty)]
            self._events += answers
            if len(answers) < len(came):
                return None
        return contents.pop(0)

    def ack(self, tag: int) -> None:
        """Is sent with what comes next."""
        self._method(Basic.Ack(delivery_tag=tag), CHANNEL)
