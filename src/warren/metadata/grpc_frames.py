"""gRPC over HTTP/2, the client's side, as little of it as etcd needs. Pure: octets in, octets out.

A general gRPC library costs more than what it carries here: with grpc.aio a write to etcd takes
1.3 ms of which etcd takes 0.3, since every call crosses to a thread of its own and back. A topology
change is one call and one watch event on every node, so that was most of a queue.declare.

What makes it small: we ask the server for a header table of no size, so every block of headers
means the same whenever it comes, and those that a server sends all the time are decoded once. Our
own headers are literals. Windows of what we receive are opened wide; what we send keeps to those of
the server.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from hpack import Decoder
from hpack.exceptions import HPACKError

MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
FRAME_BYTES_MAX: Final = 16_384
HEADER_BYTES_MAX: Final = 65_536
# Stream numbers are odd and are not given twice; a connection that has used them up has to go.
STREAM_MAX: Final = 2**31 - 1
WINDOW_MAX: Final = 2**31 - 1
WINDOW_DEFAULT: Final = 65_535
# So much received is reported at a time, long before the window is used up.
WINDOW_STEP: Final = 1_048_576
HEADERS_KNOWN_MAX: Final = 256

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9  # fmt: skip  # noqa: E501
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
SETTING_TABLE_SIZE, SETTING_WINDOW, SETTING_FRAME_BYTES = 1, 4, 5
CANCEL: Final = 8

_HEAD: Final = Struct(">HBBBI")
_SETTING: Final = Struct(">HI")
_LENGTH: Final = Struct(">BI")
_NUMBER: Final = Struct(">I")


class Status(IntEnum):
    """How a gRPC call ended; the numbers are the protocol's."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16

    @classmethod
    def _missing_(cls, value: object) -> Status:
        return cls.UNKNOWN


class BrokenConnection(Exception):
    """The other side does not speak HTTP/2 as a gRPC server does."""


class Message(NamedTuple):
    stream: int
    octets: bytes


class Ended(NamedTuple):
    stream: int
    status: Status
    text: str


Event: TypeAlias = Message | Ended


@dataclass(slots=True)
class _Stream:
    window: int
    unsent: bytearray = field(default_factory=bytearray)
    is_half_closed: bool = False
    received: bytearray = field(default_factory=bytearray)
    unreported: int = 0
    text: str = ""


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def literal(name: str, value: str) -> bytes:
    """A header that is not to be remembered, not even squeezed."""
    return b"\x00" + _short(name.encode()) + _short(value.encode())


def _short(octets: bytes) -> bytes:
    """A string with HPACK's length before it: seven bits, and what is above in steps of seven."""
    size = len(octets)
    if size < 127:
        return bytes([size]) + octets
    head = bytearray([127])
    size -= 127
    while size > 127:
        head.append(size % 128 + 128)
        size //= 128
    head.append(size)
    return bytes(head) + octets


class GrpcConnection:
    """`take` what is to be sent after every call of anything else."""

    def __init__(self, authority: str, is_tls: bool) -> None:
        # :method POST and :scheme, by their numbers in HPACK's table
        self._head = b"\x83" + (b"\x87" if is_tls else b"\x86") + literal(":authority", authority)
        self._tail = literal("content-type", "application/grpc") + literal("te", "trailers")
        self._outgoing = [PREFACE, _our_settings()]
        self._pings_answered: list[bytes] = []
        self._streams: dict[int, _Stream] = {}
        self._next_stream = 1
        self._window = WINDOW_DEFAULT
        self._stream_window = WINDOW_DEFAULT
        self._frame_bytes = FRAME_BYTES_MAX
        self._unreported = 0
        self._incoming = bytearray()
        self._block: tuple[int, int, bytearray] | None = None
        self._decoder = Decoder()
        self._decoder.max_allowed_table_size = 0
        self._known: dict[bytes, dict[str, str]] = {}
        self._events: list[Event] = []
        self.is_leaving = False
        """The server takes no more calls over this connection."""

    # What goes out.

    def take(self) -> bytes:
        octets = b"".join(self._outgoing + self._pings_answered)
        self._outgoing.clear()
        self._pings_answered.clear()
        return octets

    @property
    def has_urgent(self) -> bool:
        """Something that somebody waits for; answers to pings may go along with what comes next."""
        return bool(self._outgoing)

    @property
    def has_leisurely(self) -> bool:
        return bool(self._pings_answered)

    def begin(self, path: str, metadata: Iterable[tuple[str, str]] = ()) -> int:
        number = self._next_stream
        self._next_stream += 2
        self.is_leaving |= self._next_stream > STREAM_MAX
        self._streams[number] = _Stream(self._stream_window)
        named = b"".join(literal(name, value) for name, value in metadata)
        block = self._head + literal(":path", path) + self._tail + named
        self._outgoing.append(frame(HEADERS, END_HEADERS, number, block))
        return number

    def send(self, number: int, message: bytes, is_last: bool) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return  # it has ended, which is told by an event
        stream.unsent += _LENGTH.pack(0, len(message)) + message
        stream.is_half_closed = is_last
        self._send_more(number, stream)

    def cancel(self, number: int) -> None:
        if self._streams.pop(number, None) is not None:
            self._outgoing.append(frame(RST_STREAM, 0, number, _NUMBER.pack(CANCEL)))

    def ping(self) -> None:
        self._outgoing.append(frame(PING, 0, 0, bytes(8)))

    def _send_more(self, number: int, stream: _Stream) -> None:
        unsent = stream.unsent
        while unsent:
            size = min(len(unsent), self._window, stream.window, self._frame_bytes)
            if size <= 0:
                return
            piece = bytes(unsent[:size])
            del unsent[:size]
            self._window -= size
            stream.window -= size
            flags = END_STREAM if stream.is_half_closed and not unsent else 0
            self._outgoing.append(frame(DATA, flags, number, piece))

    # What comes in.

    def feed(self, octets: bytes) -> list[Event]:
        """Raises BrokenConnection."""
        incoming = self._incoming
        incoming += octets
        position = 0
        while len(incoming) - position >= _HEAD.size:
            high, low, kind, flags, number = _HEAD.unpack_from(incoming, position)
            size = high << 8 | low
            if size > FRAME_BYTES_MAX:
                raise BrokenConnection(f"a frame of {size} bytes")
            start = position + _HEAD.size
            if len(incoming) < start + size:
                break
            position = start + size
            self._frame(kind, flags, number & STREAM_MAX, bytes(incoming[start:position]))
        del incoming[:position]
        events, self._events = self._events, []
        return events

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block is not None and kind != CONTINUATION:
            raise BrokenConnection("headers without an end")
        if kind == DATA:
            self._data(flags, number, payload)
        elif kind == HEADERS:
            self._block = (number, flags, bytearray(_unpadded(flags, payload, is_headers=True)))
            self._continue(flags)
        elif kind == CONTINUATION:
            if self._block is None or self._block[0] != number:
                raise BrokenConnection("headers that continue nothing")
            self._block[2].extend(payload)
            self._continue(flags)
        elif kind == SETTINGS and not flags & ACK:
            self._settings(payload)
        elif kind == PING and not flags & ACK:
            self._pings_answered.append(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            self._widen(number, _number(payload))
        elif kind == RST_STREAM:
            self._end(number, Status.UNAVAILABLE, f"stream reset, code {_number(payload)}")
        elif kind == GOAWAY:
            self._go_away(payload)

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        self._unreported = self._report(0, self._unreported + len(payload))
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.unreported = self._report(number, stream.unreported + len(payload))
        stream.received += _unpadded(flags, payload, is_headers=False)
        self._take_messages(number, stream)
        if flags & END_STREAM:
            self._end(number, Status.INTERNAL, "an answer without a status")

    def _take_messages(self, number: int, stream: _Stream) -> None:
        received = stream.received
        while len(received) >= _LENGTH.size:
            is_squeezed, size = _LENGTH.unpack_from(received)
            if is_squeezed or size > MESSAGE_BYTES_MAX:
                raise BrokenConnection(f"a message of {size} bytes, compressed: {is_squeezed}")
            end = _LENGTH.size + size
            if len(received) < end:
                return
            self._events.append(Message(number, bytes(received[_LENGTH.size : end])))
            del received[:end]

    def _report(self, number: int, received: int) -> int:
        """Open the window again by what was received, now or when it is worth it."""
        if received < WINDOW_STEP:
            return received
        self._outgoing.append(frame(WINDOW_UPDATE, 0, number, _NUMBER.pack(received)))
        return 0

    def _continue(self, flags: int) -> None:
        assert self._block is not None, "set by who calls"
        number, first_flags, block = self._block
        if len(block) > HEADER_BYTES_MAX:
            raise BrokenConnection(f"headers of {len(block)} bytes")
        if not flags & END_HEADERS:
            return
        self._block = None
        headers = self._decode(bytes(block))
        if not first_flags & END_STREAM:
            return
        # The last headers of a call; or the only ones, of a call that failed at once.
        if headers.get(":status", "200") != "200":
            self._end(number, Status.UNKNOWN, f"HTTP status {headers[':status']}")
        elif not headers.get("grpc-status", "").isdecimal():
            self._end(number, Status.UNKNOWN, "an answer without a status")
        else:
            text = unquote(headers.get("grpc-message", ""), errors="replace")
            self._end(number, Status(int(headers["grpc-status"])), text)

    def _decode(self, block: bytes) -> dict[str, str]:
        headers = self._known.get(block)
        if headers is None:
            try:
                pairs = self._decoder.decode(block, raw=True)
            except (HPACKError, UnicodeDecodeError) as error:
                raise BrokenConnection(f"headers that cannot be read: {error}") from None
            headers = {str(n, "latin-1"): str(v, "latin-1") for n, v in pairs}
            if len(self._known) < HEADERS_KNOWN_MAX:
                self._known[block] = headers
        return headers

    def _settings(self, payload: bytes) -> None:
        if len(payload) % _SETTING.size:
            raise BrokenConnection("settings cut short")
        for name, value in _SETTING.iter_unpack(payload):
            if name == SETTING_WINDOW:
                for stream in self._streams.values():
                    stream.window += value - self._stream_window
                self._stream_window = value
            elif name == SETTING_FRAME_BYTES:
                self._frame_bytes = value
        self._outgoing.append(frame(SETTINGS, ACK, 0, b""))
        self._send_all()

    def _widen(self, number: int, by: int) -> None:
        if number == 0:
            self._window += by
            self._send_all()
        elif number in self._streams:
            self._streams[number].window += by
            self._send_more(number, self._streams[number])

    def _send_all(self) -> None:
        for number, stream in self._streams.items():
            self._send_more(number, stream)

    def _go_away(self, payload: bytes) -> None:
        """What it has begun it will finish; the rest it has not looked at."""
        self.is_leaving = True
        last = _number(payload) & STREAM_MAX
        for number in [n for n in self._streams if n > last]:
            self._end(number, Status.UNAVAILABLE, "the server is going away")

    def _end(self, number: int, status: Status, text: str) -> None:
        if self._streams.pop(number, None) is not None:
            self._events.append(Ended(number, status, text))


def _our_settings() -> bytes:
    values = ((SETTING_TABLE_SIZE, 0), (SETTING_WINDOW, WINDOW_MAX))
    settings = b"".join(_SETTING.pack(*value) for value in values)
    wide = _NUMBER.pack(WINDOW_MAX - WINDOW_DEFAULT)
    return frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, wide)


def _number(payload: bytes) -> int:
    if len(payload) < _NUMBER.size:
        raise BrokenConnection("a frame cut short")
    return int(_NUMBER.unpack_from(payload)[0])


def _unpadded(flags: int, payload: bytes, is_headers: bool) -> bytes:
    padding = 0
    if flags & PADDED:
        if not payload or payload[0] >= len(payload):
            raise BrokenConnection("more padding than frame")
        padding, payload = payload[0], payload[1:]
    if is_headers and flags & PRIORITY:
        payload = payload[5:]
    return payload[: len(payload) - padding]
