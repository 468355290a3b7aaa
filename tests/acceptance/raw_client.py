"""An AMQP client that does what a test says and nothing else.

No background reading, no heartbeats, no checks of its own: it can speak out of turn, send broken
frames and stay silent, and sees every frame the broker sends in the order it came. Each wait has a
deadline, so a broker that says nothing fails the test instead of hanging it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from acceptance.raw_methods import (
    Method,
    decode_method,
    decode_properties,
    encode_method,
    encode_properties,
)
from broker_process import Address

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END: Final = 0xCE
# Long, since waiting costs nothing when things go well, and machines may be slow and busy.
WAIT_S: Final = 30.0
QUIET_S: Final = 0.15

CAPABILITIES: Final = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}


class Frame(NamedTuple):
    type: int
    channel: int
    payload: bytes

    def __str__(self) -> str:
        shown = decode_method(self.payload) if self.type == METHOD else self.payload[:40]
        return f"frame type {self.type} channel {self.channel} {shown!r}"


@dataclass
class Content:
    """A method that carries a message, with the message."""

    method: Method
    body: bytes = b""
    property_block: bytes = b""
    frame_sizes: list[int] = field(default_factory=list)

    @property
    def properties(self) -> dict[str, Any]:
        return decode_properties(self.property_block)


@dataclass(frozen=True)
class Login:
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    channel_max: int = 2047
    frame_max: int = 131072
    heartbeat: int = 0
    capabilities: tuple[str, ...] = tuple(CAPABILITIES)

    @property
    def plain(self) -> bytes:
        return b"\0" + self.user.encode() + b"\0" + self.password.encode()

    @property
    def client_properties(self) -> dict[str, Any]:
        return {"capabilities": dict.fromkeys(self.capabilities, True), "product": "raw client"}


def frame_bytes(kind: int, channel: int, payload: bytes, end: int = FRAME_END) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])


def header_payload(body_size: int, properties: bytes, class_id: int = 60) -> bytes:
    return struct.pack(">HHQ", class_id, 0, body_size) + properties


class ConnectionEnded(Exception):
    """The broker closed the socket while a frame was awaited."""


class RawClient:
    def __init__(self, address: Address) -> None:
        self.socket = socket.create_connection(address, timeout=WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.start: Method | None = None
        self.tune: Method | None = None
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.drop()

    def drop(self) -> None:
        """Close the socket without a word to the broker."""
        self.socket.close()

    # Sending

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_frame(self, kind: int, channel: int, payload: bytes, end: int = FRAME_END) -> None:
        self.send_bytes(frame_bytes(kind, channel, payload, end))

    def send(self, channel: int, method: str, **fields: Any) -> None:
        self.send_frame(METHOD, channel, encode_method(method, **fields))

    def publish(self, channel: int, body: bytes, properties: bytes = b"\0\0", **to: Any) -> None:
        self.send_bytes(self.publish_frames(channel, body, properties, **to))

    def publish_all(self, channel: int, bodies: list[bytes], **to: Any) -> None:
        """Publish in one write."""
        self.send_bytes(b"".join(self.publish_frames(channel, body, **to) for body in bodies))

    def publish_frames(
        self, channel: int, body: bytes, properties: bytes = b"\0\0", **to: Any
    ) -> bytes:
        """One frame of each kind; `to` are the fields of basic.publish."""
        frames = frame_bytes(METHOD, channel, encode_method("basic.publish", **to))
        frames += frame_bytes(HEADER, channel, header_payload(len(body), properties))
        return frames + frame_bytes(BODY, channel, body) if body else frames

    # Receiving

    def _fill(self, size: int, deadline: float) -> None:
        patience_s = self.socket.gettimeout()
        try:
            while len(self._unread) < size:
                self.socket.settimeout(max(0.001, deadline - time.monotonic()))
                self._unread += self._receive_piece()
        finally:
            self.socket.settimeout(patience_s)  # which goes for sending too

    def _receive_piece(self) -> bytes:
        try:
            piece = self.socket.recv(65536)
        except ConnectionResetError:
            piece = b""
        if not piece:
            raise ConnectionEnded
        return piece

    def read_bytes(self, size: int, within_s: float = WAIT_S) -> bytes:
        self._fill(size, time.monotonic() + within_s)
        taken, self._unread = self._unread[:size], self._unread[size:]
        return taken

    def receive(self, within_s: float = WAIT_S) -> Frame:
        """The next frame; TimeoutError if none came, ConnectionEnded if the socket closed."""
        deadline = time.monotonic() + within_s
        self._fill(7, deadline)
        kind, channel, size = struct.unpack(">BHI", self._unread[:7])
        self._fill(size + 8, deadline)
        frame = Frame(kind, channel, self._unread[7 : 7 + size])
        assert self._unread[7 + size] == FRAME_END, f"bad end of {frame}"
        self._unread = self._unread[size + 8 :]
        return frame

    def expect(self, channel: int, method: str, within_s: float = WAIT_S) -> Method:
        """The next frame must be this method (heartbeats are passed over)."""
        frame = self.receive(within_s)
        while frame.type == HEARTBEAT:
            frame = self.receive(within_s)
        assert frame.type == METHOD, f"expected {method}, got {frame}"
        found = decode_method(frame.payload)
        assert (frame.channel, found.name) == (channel, method), f"wanted {method}, got {frame}"
        return found

    def call(self, channel: int, name: str, /, **fields: Any) -> Method:
        self.send(channel, name, **fields)
        return self.expect(channel, f"{name}-ok")

    def expect_content(self, channel: int, method: str, within_s: float = WAIT_S) -> Content:
        content = Content(self.expect(channel, method, within_s))
        header = self.receive(within_s)
        assert (header.type, header.channel) == (HEADER, channel), f"expected a header: {header}"
        class_id, weight, size = struct.unpack(">HHQ", header.payload[:12])
        assert (class_id, weight) == (60, 0)
        content.property_block = header.payload[12:]
        while len(content.body) < size:
            body = self.receive(within_s)
            assert (body.type, body.channel) == (BODY, channel), f"expected a body: {body}"
            content.body += body.payload
            content.frame_sizes.append(len(body.payload) + 8)
        assert len(content.body) == size
        return content

    def get(self, channel: int, queue: str, no_ack: bool = True) -> Content | None:
        self.send(channel, "basic.get", queue=queue, no_ack=no_ack)
        frame = self.receive()
        if decode_method(frame.payload).name == "basic.get-empty":
            return None
        self.put_back(frame)
        return self.expect_content(channel, "basic.get-ok")

    def put_back(self, frame: Frame) -> None:
        """To be received again."""
        self._unread = frame_bytes(*frame) + self._unread

    def expect_silence(self, seconds: float = QUIET_S) -> None:
        try:
            frame = self.receive(seconds)
        except TimeoutError:
            return
        raise AssertionError(f"expected nothing, got {frame}")

    def expect_end(self, within_s: float = WAIT_S) -> None:
        """The broker must close the socket and say nothing (more) before."""
        try:
            frame = self.receive(within_s)
        except ConnectionEnded:
            return
        raise AssertionError(f"expected the end of the connection, got {frame}")

    def expect_connection_close(self, code: int, within_s: float = WAIT_S) -> Method:
        """The broker must close with this code; answers close-ok."""
        close = self.expect(0, "connection.close", within_s)
        assert close.reply_code == code, f"wanted {code}, got {close}"
        with contextlib.suppress(ConnectionError):  # it may not wait for the answer
            self.send(0, "connection.close-ok")
        return close

    def expect_refusal(self, code: int, text: str) -> None:
        """During the handshake a broker may refuse with a reason, or just close the socket."""
        try:
            close = self.expect_connection_close(code)
        except ConnectionEnded:
            return
        assert text in close.reply_text

    def expect_channel_close(self, channel: int, code: int) -> Method:
        close = self.expect(channel, "channel.close")
        assert close.reply_code == code, f"wanted {code}, got {close}"
        self.send(channel, "channel.close-ok")
        return close

    # Longer conversations

    def greet(self) -> Method:
        self.send_bytes(PROTOCOL_HEADER)
        self.start = self.expect(0, "connection.start")
        return self.start

    def log_in(self, login: Login) -> Method:
        self.greet()
        self.send(
            0,
            "connection.start-ok",
            client_properties=login.client_properties,
            mechanism="PLAIN",
            response=login.plain,
            locale="en_US",
        )
        self.tune = self.expect(0, "connection.tune")
        return self.tune

    def accept_tuning(self, login: Login) -> None:
        self.send(
            0,
            "connection.tune-ok",
            channel_max=login.channel_max,
            frame_max=login.frame_max,
            heartbeat=login.heartbeat,
        )

    def open(self, login: Login | None = None, channels: int = 1) -> Self:
        """Log in, open the virtual host and channels 1 to `channels`."""
        login = login or Login()
        self.log_in(login)
        self.accept_tuning(login)
        self.call(0, "connection.open", virtual_host=login.vhost)
        for number in range(1, channels + 1):
            self.call(number, "channel.open")
        return self

    def close(self) -> None:
        self.call(0, "connection.close", reply_code=200, reply_text="done")
        self.drop()


__all__ = [
    "BODY", "HEADER", "HEARTBEAT", "METHOD", "PROTOCOL_HEADER", "ConnectionEnded", "Content",
    "Frame", "Login", "RawClient", "encode_properties", "frame_bytes", "header_payload",
]  # fmt: skip
