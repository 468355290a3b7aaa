"""Messages in a batch of instructions, as frames: what clients send, and the kernel reads."""

from __future__ import annotations

from typing import Any, Final

from warren.wire.codec import FrameReader, Message, OutputBuffer

_CHANNEL: Final = 1
_PUBLISH: Final = b"\x00\x3c\x00\x28\x00\x00"  # basic.publish and a ticket of old
_FRAME_BYTES_MAX: Final = 1_048_576
# Messages were bounded when they were published, and batches are by whoever makes them.
_UNBOUNDED: Final = 1 << 40


class NotMessages(Exception):
    """The frames are something else."""


class MessageFrames:
    def __init__(self) -> None:
        self._output = OutputBuffer(_FRAME_BYTES_MAX, _UNBOUNDED, _nothing)
        self._route_key = b""
        self._method = _PUBLISH + b"\0"
        """Of the last message; most have the same."""

    @property
    def size(self) -> int:
        return self._output.size

    def add(self, message: Message) -> int:
        """The bytes there are now."""
        if message.route_key != self._route_key:
            self._route_key = message.route_key
            self._method = _PUBLISH + message.route_key + b"\0"
        self._output.content(_CHANNEL, self._method, message)
        return self._output.size

    def take(self) -> bytes:
        return b"".join(self._output.take())


def _nothing() -> None:
    """Whoever fills it knows when."""


def encode_messages(messages: list[Message]) -> bytes:
    frames = MessageFrames()
    for message in messages:
        frames.add(message)
    return frames.take()


def decode_messages(frames: bytes | memoryview) -> list[Message]:
    messages: list[Any] = FrameReader(_FRAME_BYTES_MAX, _UNBOUNDED).feed(frames)
    for message in messages:
        if type(message) is not Message:
            raise NotMessages
    return messages
