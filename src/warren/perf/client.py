"""A small AMQP client for putting load on a broker: one connection, one channel, few ways to fail.

Answers are awaited one at a time; deliveries and confirms go to whoever owns the connection by way
of `Receiver`. Everything to send is collected in the kernel's output buffer and written once per
turn of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeVar, cast

from pamqp.commands import Basic, Channel, Connection

from warren.client.errors import BrokenStream, ConnectionLost
from warren.client.handshake import PROTOCOL_HEADER, Handshake, Login
from warren.client.reader import ClientReader
from warren.model.errors import AmqpError
from warren.perf.options import Options
from warren.protocol.heartbeat import Heartbeat, SendHeartbeat
from warren.wire.codec import Ack, Delivery, MethodFrame, OutputBuffer
from warren.wire.methods import Method, decode_method, encode_method

CHANNEL: Final = 1
CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 60.0
CLOSE_SECONDS: Final = 3.0
CONGESTION_BYTES: Final = 1 << 20

MethodT = TypeVar("MethodT", bound=Method)


class Receiver:
    """Owner of a connection: overrides the events that it wants to hear of."""

    def on_deliveries(self, deliveries: list[Delivery]) -> None:
        pass

    def on_confirm(self, tag: int, multiple: bool, is_ack: bool) -> None:
        pass

    def on_return(self) -> None:
        pass

    def on_lost(self) -> None:
        pass


class Client(asyncio.Protocol):
    def __init__(self, options: Options, receiver: Receiver | None = None) -> None:
        self._handshake = Handshake(
            Login(
                user=options.user,
                password=options.password,
                vhost=options.vhost,
                product="warren perf",
                frame_max=options.frame_max,
                heartbeat_s=options.heartbeat,
            )
        )
        self._receiver = receiver or Receiver()
        self._loop = asyncio.get_running_loop()
        self._reader = ClientReader(options.frame_max)
        self.output = OutputBuffer(options.frame_max, CONGESTION_BYTES, self._schedule_flush)
        self._transport: asyncio.Transport | None = None
        self._heartbeat: Heartbeat | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answer: tuple[type[Method], asyncio.Future[Method]] | None = None
        self._lost: ConnectionLost | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.allowed = asyncio.Event()
        """Cleared while the broker says connection.blocked or channel.flow off."""
        self.allowed.set()
        self.times_blocked = 0
        self.flow_changes = 0

    # Opening and closing

    async def open(self, address: tuple[str, int], with_channel: bool = True) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._loop.create_connection(lambda: self, *address)
        except (OSError, TimeoutError) as error:
            raise ConnectionLost(f"connect {address[0]}:{address[1]}: {error}") from error
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._negotiate()
        except TimeoutError:
            self.abort()
            raise ConnectionLost(
                f"connect {address[0]}:{address[1]}: no broker spoke AMQP within "
                f"{CONNECT_SECONDS:g} s; is this its port for AMQP (default 5672)?"
            ) from None
        if with_channel:
            await self.call(Channel.Open(), Channel.OpenOk)

    def abort(self) -> None:
        """Drop the socket."""
        if self._transport is not None:
            self._transport.abort()

    async def _negotiate(self) -> None:
        self.output.raw(PROTOCOL_HEADER)
        await self._answer_of(Connection.OpenOk)
        self.output.frame_max = self._handshake.frame_max
        if self._handshake.heartbeat_s:
            self._heartbeat = Heartbeat(self._handshake.heartbeat_s, self._now_ms())
            self._beat()

    async def close(self) -> None:
        """Politely if the broker still listens."""
        transport = self._transport
        if transport is None:
            return
        try:
            if self._lost is None:
                async with asyncio.timeout(CLOSE_SECONDS):
                    close = Connection.Close(200, "bye", 0, 0)
                    await self.call(close, Connection.CloseOk, channel=0)
        except (ConnectionLost, TimeoutError):
            pass  # it is as closed as it gets
        transport.abort()

    # Sending

    def send(self, method: Method, channel: int = CHANNEL) -> None:
        self.output.method(channel, encode_method(method))

    async def call(self, method: Method, answer: type[MethodT], channel: int = CHANNEL) -> MethodT:
        self.send(method, channel)
        return await self._answer_of(answer)

    async def _answer_of(self, answer: type[MethodT]) -> MethodT:
        self.check()
        assert self._answer is None, "one question at a time"
        future: asyncio.Future[Method] = self._loop.create_future()
        self._answer = (answer, future)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return cast("MethodT", await future)
        except TimeoutError:
            raise ConnectionLost(f"no {answer.name} in {ANSWER_SECONDS:g} s") from None
        finally:
            self._answer = None

    def check(self) -> None:
        if self._lost is not None:
            raise self._lost

    async def drain(self) -> None:
        """Until the socket takes more."""
        await self._writable.wait()
        self.check()

    def _schedule_flush(self) -> None:
        self._loop.call_soon(self.flush)

    def flush(self) -> None:
        if self._transport is not None and self.output.size:
            self._transport.writelines(self.output.take())

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(ConnectionLost(f"connection lost: {exc or 'closed by the broker'}"))
        if self._timer is not None:
            self._timer.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        try:
            self._take(self._reader.feed(data))
        except (BrokenStream, AmqpError) as error:
            self._fail(ConnectionLost(f"the broker cannot be understood: {error}"))

    def _take(self, events: Sequence[MethodFrame | Ack]) -> None:
        for event in events:
            if isinstance(event, Ack):
                self._receiver.on_confirm(event.delivery_tag, event.multiple, True)
            else:
                self._method(decode_method(event.payload), event.channel)
        if self._reader.deliveries:
            deliveries, self._reader.deliveries = self._reader.deliveries, []
            self._receiver.on_deliveries(deliveries)

    def _method(self, method: Method, channel: int) -> None:
        if not self._handshake.is_open and not isinstance(method, Connection.Close):
            for answer in self._handshake.answer(method):
                self.send(answer, channel=0)
        if self._answer is not None and isinstance(method, self._answer[0]):
            if not self._answer[1].done():
                self._answer[1].set_result(method)
            return
        match method:
            case Connection.Close() | Channel.Close():
                is_whole = isinstance(method, Connection.Close)
                self.send(Connection.CloseOk() if is_whole else Channel.CloseOk(), channel)
                self.flush()
                text = f"{method.name.lower()} {method.reply_code} {method.reply_text}"
                self._fail(ConnectionLost(text, method.reply_code or 0))
            case Basic.Cancel():
                self._fail(ConnectionLost("the broker sent basic.cancel"))
            case Basic.Nack():
                self._receiver.on_confirm(method.delivery_tag, method.multiple, False)
            case Basic.Return():
                self._receiver.on_return()
            case Connection.Blocked():
                self.times_blocked += 1
                self.allowed.clear()
            case Connection.Unblocked():
                self.allowed.set()
            case Channel.Flow():
                self.flow_changes += 1
                self.send(Channel.FlowOk(method.active))
                (self.allowed.set if method.active else self.allowed.clear)()

    def _fail(self, lost: ConnectionLost) -> None:
        """Tell everybody who waits for something of this connection."""
        if self._lost is None:
            self._lost = lost
        if self._answer is not None and not self._answer[1].done():
            self._answer[1].set_exception(self._lost)
        self._writable.set()
        self.allowed.set()
        self._receiver.on_lost()

    # Heartbeats

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _beat(self) -> None:
        assert self._heartbeat is not None
        octets_in, octets_out = self._reader.octets, self.output.octets
        for action in self._heartbeat.tick(self._now_ms(), octets_in, octets_out):
            if isinstance(action, SendHeartbeat):
                self.output.heartbeat()
            else:
                self._fail(ConnectionLost("heartbeat timeout"))
        self._timer = self._loop.call_later(self._heartbeat.period_ms / 1000, self._beat)
