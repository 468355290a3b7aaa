"""What members of a group send each other, and how it looks as bytes.

    length of the rest, u32 | length of head, u32 | head: msgpack | payloads, one after the other

The head says all there is to know, the payloads' lengths included; the payloads are what a queue's
replicas tell each other, and nobody here looks into them. Encoding gives a list of buffers with the
payloads as they came, decoding gives views of the buffer that arrived: a payload passes through a
node without being copied. A node puts the frames of all its groups for the same neighbour one
after the other, since a frame of its own on the link costs both ends more than what is in it.

Every frame begins with its fence: the queue's uid, the sender's epoch and view, and the sender.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from warren.model.unreadable import UNREADABLE
from warren.replication.group_record import Member

Payload: TypeAlias = bytes | memoryview

LENGTH_BYTES: Final = 4
KEPT_SHARE: Final = 4
"""A frame that is less than such a part of what arrived is copied out of it."""
_LENGTHS: Final = struct.Struct(">II")


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """How far one origin's publications have come at the sender.

    The sender has all up to `last_pub`; all up to `acked` have been everywhere. The publications
    that come with the frame are the last ones up to `last_pub`: `lengths` has the lengths of their
    payloads, `views` the views in which their origin published them.
    """

    origin: str
    last_pub: int
    acked: int
    views: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()


class _Fenced(msgspec.Struct, frozen=True, tag=True, array_like=True):
    uid: str
    epoch: int
    view: int
    sender: str


class Activity(_Fenced, frozen=True, tag="a"):
    """From left to right: what is new. `number` counts the frames of a stream, to find gaps."""

    stream: int
    number: int
    progress: tuple[Progress, ...]


class Catchup(_Fenced, frozen=True, tag="c"):
    """From left to right: all that the left one knows. A new stream begins with it."""

    stream: int
    progress: tuple[Progress, ...]


class CheckNeighbours(_Fenced, frozen=True, tag="n"):
    """To a neighbour that was or is: see my view.

    With `lost_stream`, from right to left: begin a new stream unless you have since that one.
    """

    lost_stream: int | None = None


class AddOnRight(_Fenced, frozen=True, tag="j"):
    """From one who would like to join, to the leader. The sender is no member yet."""

    newcomer: Member


class AddedOnRight(_Fenced, frozen=True, tag="k"):
    """The leader's answer; not ready means: ask again."""

    is_added: bool


class Rejected(_Fenced, frozen=True, tag="r"):
    """What you sent is of an epoch that is over; the fence of this frame says which one it is.

    `stream` is the stream that was cut off by it, 0 if it belonged to none.
    """

    stream: int


Frame: TypeAlias = Activity | Catchup | CheckNeighbours | AddOnRight | AddedOnRight | Rejected


class MalformedFrame(Exception):
    """The bytes are not a frame; the link that brought them is broken."""


_WITH_PAYLOADS: Final = (Activity, Catchup)

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Frame]] = msgspec.msgpack.Decoder(Frame)


def encode_frame(frame: Frame, payloads: tuple[Payload, ...] = ()) -> list[Payload]:
    head = _encoder.encode(frame)
    length = LENGTH_BYTES + len(head)
    for payload in payloads:
        length += len(payload)
    return [_LENGTHS.pack(length, len(head)) + head, *payloads]


def decode_frames(data: Payload) -> Iterator[tuple[Frame, tuple[Payload, ...]]]:
    """Yield the frames of `data`, one after the other.

    The payloads are views of `data`, or of a copy of a small frame. Raises MalformedFrame at the
    first frame that cannot be read: where the next one begins is not known then.
    """
    buffer = memoryview(data)
    start, end = 0, len(buffer)
    while start < end:
        if end - start < _LENGTHS.size:
            raise MalformedFrame("the head of a group's frame is cut short")
        length, head_length = _LENGTHS.unpack_from(buffer, start)
        begin, start = start + _LENGTHS.size, start + LENGTH_BYTES + length
        if not begin + head_length <= start <= end:
            raise MalformedFrame("the head of a group's frame is cut short")
        frame = buffer[begin:start]
        if KEPT_SHARE * len(frame) < len(buffer):
            frame = memoryview(bytes(frame))  # or one message would keep all others in memory
        yield _decode(frame, head_length)


def _decode(buffer: memoryview, start: int) -> tuple[Frame, tuple[Payload, ...]]:
    try:
        frame = _decoder.decode(buffer[:start])
    except UNREADABLE as error:
        raise MalformedFrame(f"a group's frame cannot be read: {error}") from None
    payloads: list[Payload] = []
    for length in _payload_lengths(frame):
        payloads.append(buffer[start : start + length])
        start += length
    if start != len(buffer):
        raise MalformedFrame("a group's frame does not have the length that it says")
    return frame, tuple(payloads)


def _payload_lengths(frame: Frame) -> list[int]:
    if not isinstance(frame, _WITH_PAYLOADS):
        return []
    lengths: list[int] = []
    for progress in frame.progress:
        if len(progress.lengths) != len(progress.views):
            raise MalformedFrame("a group's frame has publications that make no sense")
        lengths += progress.lengths
    if lengths and min(lengths) < 0:
        raise MalformedFrame("a group's frame has publications that make no sense")
    return lengths
