"""A connection to one gRPC server: calls and streams of octets; what they mean is the caller's.

A server that is silent is asked for a sign of life now and then while anything is under way, since
nothing else tells a dead machine from one that has no news.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol, cast

from warren.metadata.grpc_frames import (
    BrokenConnection,
    Ended,
    GrpcConnection,
    Message,
    Status,
)

# etcd takes more frequent pings for an attack: its own bound is five seconds.
KEEPALIVE_S: Final = 6.0
KEEPALIVE_TIMEOUT_S: Final = 3.0
# What nobody waits for goes along with the next call: etcd measures the line with a ping for every
# request, and each answer of its own would cost as much as a call.
LEISURE_S: Final = 0.02


class GrpcError(Exception):
    """The call failed; `text` is the server's or ours."""

    def __init__(self, code: Status, text: str) -> None:
        super().__init__(f"{code.name}: {text}")
        self.code = code
        self.text = text


class Call(Protocol):
    def answered(self, octets: bytes) -> None: ...
    def ended(self, error: GrpcError | None) -> None: ...


class _OneAnswer:
    def __init__(self, answer: asyncio.Future[bytes]) -> None:
        self._answer = answer
        self._octets: bytes | None = None

    def answered(self, octets: bytes) -> None:
        self._octets = octets

    def ended(self, error: GrpcError | None) -> None:
        if self._answer.done():
            return
        if error is not None:
            self._answer.set_exception(error)
        elif self._octets is None:
            self._answer.set_exception(GrpcError(Status.INTERNAL, "no answer in it"))
        else:
            self._answer.set_result(self._octets)


class GrpcStream:
    """Answers as they come, until there is a GrpcError or the server has no more."""

    def __init__(self, channel: GrpcChannel, number: int) -> None:
        self._channel = channel
        self._number = number
        self._answers: deque[bytes] = deque()
        self._is_ended = False
        self._error: GrpcError | None = None
        self._waiting: asyncio.Future[None] | None = None

    def write(self, message: bytes) -> None:
        self._channel.send(self._number, message, is_last=False)

    async def read(self) -> bytes | None:
        """The next answer; None when there are no more."""
        while not self._answers and not self._is_ended:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        if self._answers:
            return self._answers.popleft()
        if self._error is not None:
            raise self._error
        return None

    def cancel(self) -> None:
        self._channel.cancel(self._number)

    def answered(self, octets: bytes) -> None:
        self._answers.append(octets)
        self._wake()

    def ended(self, error: GrpcError | None) -> None:
        self._is_ended = True
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class GrpcChannel(asyncio.Protocol):
    def __init__(self, authority: str, is_tls: bool) -> None:
        self._connection = GrpcConnection(authority, is_tls)
        self._calls: dict[int, Call] = {}
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._leisurely: asyncio.TimerHandle | None = None
        self._is_heard = True
        self._error: GrpcError | None = None

    @staticmethod
    async def open(endpoint: str, tls: ssl.SSLContext | None) -> GrpcChannel:
        """Raises OSError; bounding the time is up to the caller."""
        host, _, port = endpoint.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        loop = asyncio.get_running_loop()
        channel = GrpcChannel(endpoint, tls is not None)
        await loop.create_connection(lambda: channel, host, int(port), ssl=tls)
        return channel

    # Calls.

    async def call(
        self, path: str, message: bytes, timeout_s: float, metadata: Iterable[tuple[str, str]] = ()
    ) -> bytes:
        """Raises GrpcError."""
        number = self._begin(path, metadata)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        self._calls[number] = call = _OneAnswer(answer)
        late = GrpcError(Status.DEADLINE_EXCEEDED, f"no answer in {timeout_s:g} s")
        timer = loop.call_later(timeout_s, call.ended, late)
        try:
            self.send(number, message, is_last=True)
            return await answer
        finally:
            timer.cancel()
            self.cancel(number)

    def stream(self, path: str, metadata: Iterable[tuple[str, str]] = ()) -> GrpcStream:
        """Raises GrpcError."""
        number = self._begin(path, metadata)
        self._calls[number] = stream = GrpcStream(self, number)
        return stream

    def close(self) -> None:
        self._lost("the connection was closed")
        if self._transport is not None:
            self._transport.abort()

    def _begin(self, path: str, metadata: Iterable[tuple[str, str]]) -> int:
        if self._error is not None:
            raise self._error
        if self._connection.is_leaving:
            raise GrpcError(Status.UNAVAILABLE, "the server is going away")
        return self._connection.begin(path, metadata)

    def send(self, number: int, message: bytes, is_last: bool) -> None:
        self._connection.send(number, message, is_last)
        self._flush()

    def cancel(self, number: int) -> None:
        """Nothing if it has ended."""
        if self._calls.pop(number, None) is not None:
            self._connection.cancel(number)
            self._flush()

    # The socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are, but not by class
        self._flush()
        self._beat()

    def data_received(self, data: bytes) -> None:
        self._is_heard = True
        try:
            events = self._connection.feed(data)
        except BrokenConnection as error:
            self._lost(str(error))
            if self._transport is not None:
                self._transport.abort()
            return
        if self._connection.has_urgent:
            self._flush()
        elif self._connection.has_leisurely and self._leisurely is None:
            loop = asyncio.get_running_loop()
            self._leisurely = loop.call_later(LEISURE_S, self._flush)
        for event in events:
            self._tell(event)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._lost(str(error) if error is not None else "the server closed the connection")

    def _tell(self, event: Message | Ended) -> None:
        if isinstance(event, Message):
            call = self._calls.get(event.stream)
            if call is not None:
                call.answered(event.octets)
            return
        call = self._calls.pop(event.stream, None)
        if call is not None:
            is_ok = event.status is Status.OK
            call.ended(None if is_ok else GrpcError(event.status, event.text))

    def _lost(self, reason: str) -> None:
        for timer in (self._timer, self._leisurely):
            if timer is not None:
                timer.cancel()
        if self._error is None:
            self._error = GrpcError(Status.UNAVAILABLE, reason)
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.ended(self._error)

    def _flush(self) -> None:
        if self._leisurely is not None:
            self._leisurely.cancel()
            self._leisurely = None
        octets = self._connection.take()
        if octets and self._transport is not None:
            self._transport.write(octets)

    def _beat(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(KEEPALIVE_S, self._ask)

    def _ask(self) -> None:
        if not self._calls:
            self._beat()
            return
        self._is_heard = False
        self._connection.ping()
        self._flush()
        self._timer = asyncio.get_running_loop().call_later(KEEPALIVE_TIMEOUT_S, self._look)

    def _look(self) -> None:
        if self._is_heard:
            self._beat()
            return
        self._lost(f"silent for {KEEPALIVE_TIMEOUT_S:g} s")
        if self._transport is not None:
            self._transport.abort()
