"""Bytes to events, in plain Python: see `_codec_py.py`.

AMQP is frames, each of one channel; a message is a publish method, a content header and as many
body frames as it takes, and those of different channels may alternate. So the reader keeps one
`Assembly` for each channel, the content that channel is in the middle of:

    EXPECT_METHOD --publish--> EXPECT_HEADER --header--> EXPECT_BODY --last byte--> EXPECT_METHOD
                                     |                        `--more than announced--> OVERRUN
                                     `--refused--> DISCARD --any method--> EXPECT_METHOD

Anything else is a fault, after which the channel starts anew. A client's reader (`is_client`) takes
basic.deliver and basic.get-ok where a server's takes publishes; the content of a basic.return is
discarded, since the client has published it.

What comes out does not depend on how the bytes were cut into reads. A frame is judged by its
header as soon as those 7 bytes are there, so one that is too long is never waited for, and a body
frame that fits is put in its place as it comes (a `BodyStream`), without being collected first.
While such a frame has much to come, `landing()` offers that place, and the socket can be read
straight into it: a large body is then copied nowhere at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from warren.wire._values_py import Ack, Delivery, Fault, Message, MethodFrame, PropertyBlock
from warren.wire.fault_kinds import FaultKind

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE
FRAME_HEADER_BYTES: Final = 7

CLASS_BASIC: Final = 60
BASIC_PUBLISH: Final = b"\x00\x3c\x00\x28"
BASIC_ACK: Final = b"\x00\x3c\x00\x50"
BASIC_RETURN: Final = b"\x00\x3c\x00\x32"
BASIC_DELIVER: Final = b"\x00\x3c\x00\x3c"
BASIC_GET_OK: Final = b"\x00\x3c\x00\x47"
METHOD_BYTES_MIN: Final = 4
ACK_BYTES: Final = 13
CONTENT_HEADER_FIXED_BYTES: Final = 12
LANDING_BYTES_MIN: Final = 16384

_FRAME_START: Final = Struct(">BHI")
_CONTENT_START: Final = Struct(">HHQ")

Event: TypeAlias = Message | Delivery | MethodFrame | Ack | Fault


class Frame(NamedTuple):
    type: int
    channel: int
    payload: bytes


class AssemblyState(Enum):
    """What a channel must send next."""

    EXPECT_METHOD = auto()
    EXPECT_HEADER = auto()
    EXPECT_BODY = auto()
    OVERRUN = auto()
    DISCARD = auto()


_FAULT_OF_STATE: Final = {
    AssemblyState.EXPECT_METHOD: FaultKind.EXPECTED_METHOD,
    AssemblyState.EXPECT_HEADER: FaultKind.EXPECTED_HEADER,
    AssemblyState.EXPECT_BODY: FaultKind.EXPECTED_BODY,
    AssemblyState.OVERRUN: FaultKind.EXPECTED_BODY,
}
_NO_PROPERTIES: Final = PropertyBlock(b"\x00\x00")


class DeliveryArguments(NamedTuple):
    consumer_tag: bytes
    delivery_tag: int
    redelivered: bool
    messages_left: int
    route_key: bytes


@dataclass(slots=True, eq=False)
class Assembly:
    """The content one channel is in the middle of sending."""

    state: AssemblyState = AssemblyState.EXPECT_METHOD
    route_key: bytes = b""
    flags: int = 0
    delivery: DeliveryArguments | None = None
    properties: PropertyBlock = _NO_PROPERTIES
    missing: int = 0
    body: list[bytearray] = field(default_factory=list)

    def has_room_for(self, size: int) -> bool:
        return self.state is AssemblyState.EXPECT_BODY and size <= self.missing


@dataclass(slots=True, eq=False)
class BodyStream:
    """A body frame as it comes, piece by piece."""

    assembly: Assembly
    channel: int
    payload: bytearray
    filled: int = 0

    @property
    def left(self) -> int:
        return len(self.payload) - self.filled

    def fill(self, piece: bytearray) -> None:
        self.payload[self.filled : self.filled + len(piece)] = piece
        self.filled += len(piece)


class FrameReader:
    """Bytes in, events out, whatever the boundaries of the reads."""

    __slots__ = (
        "_assemblies", "_input", "_stream",
        "frame_max", "frames", "has_stopped", "is_client", "message_size_max", "octets", "stepwise",
    )  # fmt: skip

    def __init__(self, frame_max: int, message_size_max: int) -> None:
        self.frame_max = frame_max
        self.message_size_max = message_size_max
        self.stepwise = False
        self.is_client = False
        self.octets = 0
        self.frames = 0
        self.has_stopped = False
        self._assemblies: dict[int, Assembly] = {}
        self._input = bytearray()
        self._stream: BodyStream | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Whatever the bytes so far complete; if stepwise, one event, and feed(b"") for more."""
        events: list[Event] = []
        self.octets += len(data)
        self._input += data
        while not self.has_stopped and not (self.stepwise and events):
            if not self._advance(events):
                break
        if self.has_stopped:
            self._input.clear()
        return events

    def landing(self) -> memoryview | None:
        """Where the rest of a large body frame under way belongs, for the socket to read into."""
        stream = self._stream
        if stream is None or stream.left < LANDING_BYTES_MIN:
            return None
        return memoryview(stream.payload)[stream.filled :]

    def landed(self, count: int) -> list[Event]:
        """So many bytes were read into the landing. (The frame's end octet never is.)"""
        stream = self._stream
        if stream is None or not 0 <= count <= stream.left:
            raise ValueError("more bytes landed than there was room for")
        self.octets += count
        stream.filled += count
        return []

    def is_in_content(self) -> bool:
        """Whether a message has begun, header and all, and is not complete."""
        return any(a.state is AssemblyState.EXPECT_BODY for a in self._assemblies.values())

    def forget_channel(self, channel: int) -> None:
        """The channel starts anew; a body frame under way is received and dropped."""
        assembly = self._assemblies.pop(channel, None)
        if assembly is not None:
            assembly.state = AssemblyState.DISCARD

    def _advance(self, events: list[Event]) -> bool:
        """Take one frame off the input, or begin or go on with a body; False: more must come."""
        if self._stream is not None:
            return self._go_on(self._stream, events)
        if len(self._input) < FRAME_HEADER_BYTES:
            return False
        kind, channel, size = _FRAME_START.unpack_from(self._input)
        if size > self.frame_max:
            self._fault(FaultKind.FRAME_TOO_LARGE, Frame(kind, channel, b""), events, size)
            return False
        assembly = self._assembly(channel)
        if kind == FRAME_BODY and assembly.has_room_for(size):
            del self._input[:FRAME_HEADER_BYTES]
            self._stream = BodyStream(assembly, channel, bytearray(size))
            return True
        end = FRAME_HEADER_BYTES + size
        if len(self._input) <= end:
            return False
        frame = Frame(kind, channel, bytes(self._input[FRAME_HEADER_BYTES:end]))
        if self._input[end] != FRAME_END:
            self._fault(FaultKind.FRAME_END, frame, events, self._input[end])
            return False
        del self._input[: end + 1]
        self._frame(frame, events)
        return True

    def _go_on(self, stream: BodyStream, events: list[Event]) -> bool:
        piece = self._input[: stream.left]
        del self._input[: stream.left]
        stream.fill(piece)
        if not self._input:
            return False
        self._stream = None
        end = self._input.pop(0)
        if end != FRAME_END:
            frame = Frame(FRAME_BODY, stream.channel, bytes(stream.payload))
            self._fault(FaultKind.FRAME_END, frame, events, end)
            return False
        self.frames += 1
        assembly = stream.assembly
        assembly.body.append(stream.payload)
        assembly.missing -= len(stream.payload)
        if assembly.missing == 0 and assembly.state is AssemblyState.EXPECT_BODY:
            self._finish(assembly, stream.channel, events)
        return True

    def _frame(self, frame: Frame, events: list[Event]) -> None:
        self.frames += 1
        size = len(frame.payload)
        if frame.type == FRAME_METHOD and size >= METHOD_BYTES_MIN:
            self._method(frame, events)
        elif frame.type == FRAME_HEADER and size >= CONTENT_HEADER_FIXED_BYTES:
            self._header(frame, events)
        elif frame.type == FRAME_BODY:
            self._unwanted_body(frame, events)
        elif frame.type != FRAME_HEARTBEAT or size != 0:
            self._fault(FaultKind.UNKNOWN_FRAME, frame, events)
        elif frame.channel != 0:
            self._fault(FaultKind.STRAY_FRAME, frame, events)

    def _method(self, frame: Frame, events: list[Event]) -> None:
        channel, payload = frame.channel, frame.payload
        assembly = self._assembly(channel)
        if assembly.state not in {AssemblyState.EXPECT_METHOD, AssemblyState.DISCARD}:
            self._out_of_order(assembly, frame, events)
            return
        assembly.state = AssemblyState.EXPECT_METHOD
        arguments = split_publish(payload) if payload.startswith(BASIC_PUBLISH) else None
        assembly.delivery = split_delivery(payload) if self.is_client and channel != 0 else None
        if assembly.delivery is not None:
            assembly.route_key, assembly.flags = assembly.delivery.route_key, 0
            assembly.state = AssemblyState.EXPECT_HEADER
        elif arguments is not None and channel != 0:
            assembly.route_key, assembly.flags = arguments
            assembly.state = AssemblyState.EXPECT_HEADER
        elif payload.startswith(BASIC_ACK) and len(payload) == ACK_BYTES and channel != 0:
            tag = int.from_bytes(payload[4:12], "big")
            events.append(Ack(channel, tag, bool(payload[12] & 1)))
        else:
            if self.is_client and channel != 0 and payload.startswith(BASIC_RETURN):
                assembly.state = AssemblyState.DISCARD
            events.append(MethodFrame(channel, payload))

    def _header(self, frame: Frame, events: list[Event]) -> None:
        assembly = self._assembly(frame.channel)
        class_id, weight, body_size = _CONTENT_START.unpack_from(frame.payload)
        if frame.channel == 0:
            self._fault(FaultKind.STRAY_FRAME, frame, events)
        elif assembly.state is AssemblyState.DISCARD:
            pass
        elif assembly.state is not AssemblyState.EXPECT_HEADER or weight != 0:
            self._out_of_order(assembly, frame, events)
        elif class_id != CLASS_BASIC:
            assembly.state = AssemblyState.EXPECT_METHOD
            self._fault(FaultKind.WRONG_CLASS, frame, events, class_id)
        else:
            self._begin_body(assembly, frame, body_size, events)

    def _begin_body(
        self, assembly: Assembly, frame: Frame, body_size: int, events: list[Event]
    ) -> None:
        assembly.state = AssemblyState.DISCARD
        properties = PropertyBlock(frame.payload[CONTENT_HEADER_FIXED_BYTES:])
        if properties.is_malformed:
            self._fault(FaultKind.MALFORMED_PROPERTIES, frame, events)
            return
        if body_size > self.message_size_max:
            self._fault(FaultKind.MESSAGE_TOO_LARGE, frame, events, body_size)
            return
        assembly.properties = properties
        assembly.missing = body_size
        assembly.state = AssemblyState.EXPECT_BODY
        if body_size == 0:
            self._finish(assembly, frame.channel, events)

    def _unwanted_body(self, frame: Frame, events: list[Event]) -> None:
        """A body frame there is no room for; one that fits was streamed."""
        assembly = self._assembly(frame.channel)
        if frame.channel == 0:
            self._fault(FaultKind.STRAY_FRAME, frame, events)
        elif assembly.state is AssemblyState.EXPECT_BODY:
            # RabbitMQ waits for a body that can no longer end; so do we, keeping nothing.
            assembly.state = AssemblyState.OVERRUN
            assembly.body = []
        elif assembly.state not in {AssemblyState.DISCARD, AssemblyState.OVERRUN}:
            self._out_of_order(assembly, frame, events)

    def _finish(self, assembly: Assembly, channel: int, events: list[Event]) -> None:
        body = b"".join(assembly.body)
        message = Message(assembly.route_key, assembly.properties, body, assembly.flags)
        message.channel = channel
        assembly.body = []
        assembly.state = AssemblyState.EXPECT_METHOD
        events.append(_delivered(assembly.delivery, message) if assembly.delivery else message)

    def _assembly(self, channel: int) -> Assembly:
        return self._assemblies.setdefault(channel, Assembly())

    def _out_of_order(self, assembly: Assembly, frame: Frame, events: list[Event]) -> None:
        self._fault(_FAULT_OF_STATE[assembly.state], frame, events)
        assembly.state = AssemblyState.EXPECT_METHOD
        assembly.body = []

    def _fault(self, kind: FaultKind, frame: Frame, events: list[Event], detail: int = 0) -> None:
        events.append(Fault(kind, frame.channel, frame.type, frame.payload, detail))
        self.has_stopped = kind in {FaultKind.FRAME_END, FaultKind.FRAME_TOO_LARGE}


def split_publish(payload: bytes) -> tuple[bytes, int] | None:
    """Route key and flags of a basic.publish; None if they do not fill the payload exactly."""
    start = position = 6  # behind class, method and a ticket of old
    for _ in ("exchange", "routing key"):
        if position >= len(payload):
            return None
        position += 1 + payload[position]
    if position + 1 != len(payload):
        return None
    return payload[start:position], payload[position] & 3


def split_delivery(payload: bytes) -> DeliveryArguments | None:
    """What a basic.deliver or basic.get-ok says; None if it is neither, or does not fit."""
    is_got = payload.startswith(BASIC_GET_OK)
    if (not is_got and not payload.startswith(BASIC_DELIVER)) or len(payload) < 5:
        return None
    start = 4 if is_got else 5 + payload[4]
    end = len(payload) - (4 if is_got else 0)
    position = start + 9
    for _ in ("exchange", "routing key"):
        if position >= end:
            return None
        position += 1 + payload[position]
    if position != end:
        return None
    return DeliveryArguments(
        consumer_tag=b"" if is_got else payload[5:start],
        delivery_tag=int.from_bytes(payload[start : start + 8], "big"),
        redelivered=bool(payload[start + 8] & 1),
        messages_left=int.from_bytes(payload[end:], "big") if is_got else 0,
        route_key=payload[start + 9 : end],
    )


def _delivered(arguments: DeliveryArguments, message: Message) -> Delivery:
    tag, number, redelivered, left, _ = arguments
    return Delivery(message.channel, tag, number, redelivered, left, message)
