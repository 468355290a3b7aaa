"""One AMQP connection with one channel that publishes: blocking, and small.

Reader of frames and encoding of tables are the broker's own (warren/wire, warren/client); methods
are those of `amqp_methods`. Heartbeats are off: a task either sends, or waits for confirms with a
bound.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final, Self, TypeVar

from pyspark_warren.amqp_handshake import PROTOCOL_HEADER, Handshake
from pyspark_warren.amqp_methods import (
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    MalformedMethod,
    Method,
    decode_method,
    encode_method,
)
from pyspark_warren.endpoints import Endpoint
from pyspark_warren.errors import InvalidOption, NotAuthorised, PublishFailed
from warren.client.errors import BrokenStream, ConnectionLost
from warren.client.reader import ClientReader
from warren.wire.codec import Ack, Message, MethodFrame, OutputBuffer

CONNECT_S: Final = 10.0
# A broker that is short of memory or disk makes publishers wait.
STALLED_S: Final = 600.0
CHANNEL: Final = 1
FRAME_BYTES_MAX: Final = 131_072
SEND_BYTES: Final = 262_144
RECEIVE_BYTES: Final = 65_536
_UNBOUNDED: Final = 1 << 62
_ACCESS_REFUSED: Final = 403
_NOT_ALLOWED: Final = 530
# Closed for reasons of the broker's own, so that another node may do.
_TRANSIENT: Final = frozenset({320, 506, 541})
# How the first answer begins where the port is not that of AMQP, and what to do about it.
_OTHER_PORTS: Final = (
    (
        b"HTTP",
        "speaks HTTP: the sink needs the port of AMQP, as a rule 5672 (or 5671 for amqps://)",
    ),
    (b"\x15\x03", "speaks TLS: write amqps:// for it"),
)

MethodT = TypeVar("MethodT", bound=Method)


class AmqpConnection:
    """Open once made, with confirms on."""

    def __init__(self, endpoint: Endpoint, vhost: str) -> None:
        self._endpoint = endpoint
        self._reader = ClientReader(FRAME_BYTES_MAX)
        self._events: list[Ack | Method] = []
        self._has_heard = False
        self._failure: Exception | None = None
        self.frame_max = FRAME_BYTES_MAX
        self._output = OutputBuffer(FRAME_BYTES_MAX, _UNBOUNDED, lambda: None)
        try:
            self._socket = self._connect()
        except ssl.SSLCertVerificationError as error:
            raise endpoint.untrusted(error) from error
        except ssl.SSLError as error:
            if error.reason == "WRONG_VERSION_NUMBER":
                raise InvalidOption(
                    f"option url: {endpoint} does not speak TLS: the port of amqps:// is as a rule "
                    "5671"
                ) from error
            raise ConnectionLost(f"{endpoint}: {error}") from error
        except OSError as error:
            raise ConnectionLost(f"{endpoint}: {error}") from error
        try:
            self._negotiate(vhost)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def _connect(self) -> socket.socket:
        endpoint = self._endpoint
        plain = socket.create_connection((endpoint.host, endpoint.port), CONNECT_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.settimeout(STALLED_S)
        if not endpoint.is_secure:
            return plain
        return endpoint.tls_context().wrap_socket(plain, server_hostname=endpoint.host)

    def _negotiate(self, vhost: str) -> None:
        handshake = Handshake(self._endpoint, vhost, FRAME_BYTES_MAX)
        self._output.raw(PROTOCOL_HEADER)
        while not handshake.is_open:
            self.send()
            for event in self.receive():
                self._answer(handshake, event)
        self.frame_max = self._output.frame_max = handshake.frame_max
        self._call(ChannelOpen(), ChannelOpenOk)
        self._call(ConfirmSelect(), ConfirmSelectOk)

    def _answer(self, handshake: Handshake, event: Ack | Method) -> None:
        if isinstance(event, Ack):
            raise ConnectionLost(f"{self._endpoint}: a confirm in place of a handshake")
        try:
            for answer in handshake.answer(event):
                self._method(answer, 0)
        except BrokenStream as error:
            raise ConnectionLost(f"{self._endpoint}: {error}") from error

    def _call(self, method: Method, answer: type[MethodT], channel: int = CHANNEL) -> MethodT:
        self._method(method, channel)
        return self._answer_of(answer)

    def _method(self, method: Method, channel: int) -> None:
        self._output.method(channel, encode_method(method))

    def _answer_of(self, answer: type[MethodT]) -> MethodT:
        """Of nothing else: there is nothing under way while one is awaited."""
        self.send()
        while not self._events:
            self._events += self._received()
        event = self._events.pop(0)
        if not isinstance(event, answer):
            raise ConnectionLost(f"{self._endpoint}: {event!r} instead of {answer.__name__}")
        return event

    # Publishing

    def publish(self, method: bytes, message: Message) -> None:
        """Is sent when enough has gathered, or by `send`."""
        self._output.content(CHANNEL, method, message)
        if self._output.size >= SEND_BYTES:
            self.send()

    def send(self) -> None:
        if not self._output.size:
            return
        self.send_frames(b"".join(self._output.take()))

    def send_frames(self, frames: bytes | memoryview) -> None:
        """Of messages, as `frame_max` allows; nothing else waits to be sent."""
        try:
            self._socket.sendall(frames)
        except OSError as error:
            self._say_why()
            raise ConnectionLost(f"{self._endpoint}: {error}") from error

    def receive(self) -> list[Ack | Method]:
        """Waits for what the broker says. Raises ConnectionLost, or what it closes with."""
        events, self._events = self._events, []
        return events or self._received()

    def _received(self) -> list[Ack | Method]:
        """What came before the broker closed is heard first: it may confirm something."""
        if self._failure is not None:
            raise self._failure
        try:
            data = self._socket.recv(RECEIVE_BYTES)
            self._check_first(data)
            came = self._reader.feed(data)
        except (OSError, BrokenStream) as error:
            raise ConnectionLost(f"{self._endpoint}: {error}") from error
        if not data:
            raise ConnectionLost(f"{self._endpoint}: closed without a word")
        events = self._before_close(came)
        if not events and self._failure is not None:
            raise self._failure
        return events

    def _check_first(self, data: bytes) -> None:
        """Raise InvalidOption if the first answer shows that the port is another protocol's.

        No other try would help, so nobody has to wait for the failover timeout to be told.
        """
        if self._has_heard:
            return
        self._has_heard = True
        for start, problem in _OTHER_PORTS:
            if data.startswith(start):
                raise InvalidOption(f"option url: {self._endpoint} {problem}")

    def _before_close(self, came: list[MethodFrame | Ack]) -> list[Ack | Method]:
        events: list[Ack | Method] = []
        for event in came:
            if isinstance(event, Ack):
                events.append(event)
                continue
            try:
                method = decode_method(event.payload)
            except MalformedMethod as error:
                self._failure = ConnectionLost(f"{self._endpoint}: {error}")
                break
            if isinstance(method, ConnectionClose | ChannelClose):
                self._failure = self._closed(method)
                break
            if isinstance(method, ConnectionBlocked | ConnectionUnblocked):
                continue  # the broker reads no more for a while, and then does again
            events.append(method)
        return events

    def _closed(self, close: ConnectionClose | ChannelClose) -> Exception:
        code = close.reply_code
        text = f"{self._endpoint}: {code} {close.reply_text}"
        if code in _TRANSIENT:
            return ConnectionLost(text)
        if code in {_ACCESS_REFUSED, _NOT_ALLOWED}:
            return NotAuthorised(f"{text} ({self._endpoint.who})")
        return PublishFailed(text)

    def _say_why(self) -> None:
        """What the broker said before it closed is the reason, not that it did."""
        try:
            self._socket.settimeout(1.0)
            while True:
                self._received()
        except ConnectionLost:
            return

    def abort(self) -> None:
        self._socket.close()

    def close(self) -> None:
        """Politely, since all is confirmed."""
        try:
            self._call(ConnectionClose(200, "done", 0, 0), ConnectionCloseOk, 0)
        except ConnectionLost:
            pass  # it is as closed as it gets
        finally:
            self.abort()
