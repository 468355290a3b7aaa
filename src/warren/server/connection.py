"""One client's socket: bytes to events, events to the handshake or the session, and back.

    HANDSHAKE --open-ok--> OPEN --our connection.close--> CLOSING --close-ok or time--> CLOSED
                             \\--client's close: close-ok, then the socket-------------/

Reading goes into the node's one read buffer (or, for a large body, straight into the message);
the reader makes events of it, the session works through them. While a method of the client waits
for something outside, later events wait in `_events`, and after one more read the socket is not
read at all. Writing happens once per turn; a client that does not read what it is sent is
`congested`: consumers stop until it does, and everybody else does not notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from enum import Enum
from typing import Any, Final, cast

from pamqp import commands

from warren.auth.access import AccessControl
from warren.auth.users import User
from warren.broker.vhost import VirtualHost
from warren.channels.confirms import Confirms
from warren.channels.reply_to import ReplyRegistry
from warren.channels.session import Session
from warren.model.errors import AmqpError, HardError, connection_forced, internal_error
from warren.protocol.capabilities import ClientCapabilities
from warren.protocol.handshake import Handshake
from warren.protocol.heartbeat import Heartbeat, PeerIsGone
from warren.protocol.negotiation import (
    PROTOCOL_HEADER,
    Action,
    CloseConnection,
    CloseSilently,
    Event,
    MethodReceived,
    Negotiated,
    Opened,
    ProtocolHeader,
    SendMethod,
    SendProtocolHeaderAndClose,
    StrayFrame,
    Timeout,
    UnreadableFrame,
)
from warren.queues.delivery import TurnClock
from warren.server.context import READ_BUFFER_BYTES, ConnectionContext, new_token
from warren.server.listener import format_peer
from warren.server.logs import EventLog
from warren.server.sockets import is_loopback
from warren.server.socket_writer import write_now
from warren.server.timer_wheel import WheelTimer
from warren.wire.codec import Fault, FrameReader, MethodFrame, OutputBuffer
from warren.wire.fault_kinds import FaultKind
from warren.wire.faults import FRAME_MAX_MIN, error_of
from warren.wire.methods import decode_method, encode_method, method_ids

# What is written to a client before the turn ends, and what may wait beyond the socket's own room.
CONGESTION_BYTES: Final = 131_072
WRITE_BUFFER_HIGH_BYTES: Final = 262_144
WRITE_BUFFER_LOW_BYTES: Final = 65_536
CLOSE_TIMEOUT_S_MAX: Final = 30
FRAME_MAX_UNLIMITED: Final = 0x7FFFFFFF
FRAME_MAX_SENT: Final = 131_072

_log = EventLog("connection")


class State(Enum):
    HANDSHAKE = "handshake"
    OPEN = "running"
    CLOSING = "closing"
    CLOSED = "closed"


class AmqpConnection(asyncio.BufferedProtocol):
    __slots__ = (
        "_closing_reason", "_confirms_due", "_context", "_events", "_handshake", "_header",
        "_heartbeat", "_is_paused", "_is_reading", "_landing", "_position", "_session", "_socket_fd",
        "_state", "_timer", "_transport", "capabilities", "channel_max", "connection_id", "name", "output",
        "peer", "reader", "user", "vhost",
    )  # fmt: skip

    def __init__(self, context: ConnectionContext) -> None:
        self._context = context
        self._state = State.HANDSHAKE
        self._header = b""
        self._handshake: Handshake[User] | None = None
        self._session: Session | None = None
        self._heartbeat: Heartbeat | None = None
        self._timer: WheelTimer | None = None
        self._confirms_due: list[Confirms] = []
        self._events: list[Any] = []
        self._position = 0
        self._landing: memoryview | None = None
        self._is_reading = True
        self._is_paused = False
        self._closing_reason = ""
        self.name: str | None = None
        self.channel_max = 0
        self.capabilities = ClientCapabilities()
        self.reader = FrameReader(FRAME_MAX_MIN, context.config.max_message_size)
        self.reader.stepwise = True
        self.output = OutputBuffer(
            FRAME_MAX_MIN, CONGESTION_BYTES, self._schedule_flush, self._write_early
        )

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        context = self._context
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER_HIGH_BYTES, WRITE_BUFFER_LOW_BYTES)
        self._socket_fd = transport.get_extra_info("socket").fileno()
        peername = transport.get_extra_info("peername")
        self.peer = format_peer(peername)
        self.connection_id = f"{self.peer} {new_token()}"
        local = isinstance(peername, tuple) and is_loopback(str(peername[0]))

        def authenticate(mechanism: str, username: str, password: bytes) -> User:
            return context.admission.authenticate(username, password, local)

        self._handshake = Handshake(
            context.handshake_settings, authenticate, context.admission.open_vhost
        )
        timeout_ms = context.config.handshake_timeout_ms
        self._timer = context.timers.call_later(timeout_ms, lambda: self._negotiate(Timeout()))
        context.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        reason = self._closing_reason or (str(exc) if exc else "the client closed the socket")
        facts = {"peer": self.peer, "reason": reason}
        if self._session is not None:
            facts |= {"user": self.user.name, "vhost": self.vhost.name}
            if self._state is State.OPEN:
                self._leave()
            self._context.admission.leave(self.user, self.vhost.name)
        _log.info("connection closed", **facts)
        self._state = State.CLOSED
        self._stop_timer()
        self._events.clear()
        self.output.take()
        self.output.waiting.clear()
        self._handshake = None
        self._context.connections.remove(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        self._landing = self.reader.landing()
        return self._landing if self._landing is not None else self._context.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        context = self._context
        context.turn_clock.now_ms = context.clock.now_ms()
        if self._landing is not None:
            self._landing = None
            self.reader.landed(nbytes)
            return
        if nbytes == READ_BUFFER_BYTES:
            self._yield_turn()
        data = context.read_buffer[:nbytes]
        if self._state is State.OPEN:
            self._take(self.reader.feed(data))
        elif self._state is State.HANDSHAKE:
            self._receive_handshake(bytes(data))
        elif self._state is State.CLOSING and not self.reader.has_stopped:
            self._receive_closing(self.reader.feed(data))

    def pause_writing(self) -> None:
        self._is_paused = True
        self.output.is_congested = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._wake_consumers()

    # What the session asks for.

    @property
    def access(self) -> AccessControl:
        return self._context.broker.access

    @property
    def turn_clock(self) -> TurnClock:
        return self._context.turn_clock

    @property
    def reply_registry(self) -> ReplyRegistry:
        return self._context.reply_registry

    @property
    def consumer_timeout_ms(self) -> int:
        return self._context.config.consumer_timeout_ms

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self._context.spawn(self._run(work))

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._crash(error)
        self._take([])

    def confirms_due(self, confirms: Confirms) -> None:
        if not self._confirms_due and self.output.size == 0:
            self._schedule_flush()
        self._confirms_due.append(confirms)

    def random_name(self, prefix: str) -> str:
        return prefix + new_token()

    def admit_channel(self) -> None:
        self._context.admission.open_channel(self.user)

    def release_channel(self) -> None:
        self._context.admission.close_channel(self.user)

    async def deletions_done(self) -> None:
        await self._context.queue_factory.removals_done()

    def close_by_error(self, error: HardError, ids: tuple[int, int]) -> None:
        _log.error(
            "connection error", peer=self.peer, user=self.user.name, vhost=self.vhost.name,
            error=error, method=f"{ids[0]}.{ids[1]}",
        )  # fmt: skip
        self._closing_reason = str(error)
        self._leave()
        self._send_close(error, ids)

    def close_by_client(self) -> None:
        assert self._session is not None, "the session is asking"
        self._closing_reason = "connection.close from the client"
        self._session.end()
        self._state = State.CLOSING
        self._context.spawn(self._finish_client_close())

    # What the node asks for.

    @property
    def is_open(self) -> bool:
        return self._state is State.OPEN

    @property
    def channel_count(self) -> int:
        return len(self._session.channels) if self._session is not None else 0

    def shut_down(self, reason: str) -> None:
        if self._state is State.OPEN:
            self.close_by_error(connection_forced(reason), (0, 0))
        elif self._state is State.HANDSHAKE:
            self.abort()

    def abort(self) -> None:
        self._transport.abort()

    def flush(self) -> None:
        """Write what this turn produced, confirms last, in one go."""
        if self._confirms_due:
            due, self._confirms_due = self._confirms_due, []
            for confirms in due:
                confirms.flush()
        self._write()
        if not self._is_paused and (self.output.is_congested or self.output.waiting):
            self._wake_consumers()

    # Negotiation.

    def _receive_handshake(self, data: bytes) -> None:
        missing = len(PROTOCOL_HEADER) - len(self._header)
        if missing > 0:
            self._header += data[:missing]
            data = data[missing:]
            if len(self._header) < len(PROTOCOL_HEADER):
                return
            self._negotiate(ProtocolHeader(self._header))
        events = self.reader.feed(data)
        while events and not self.is_open:
            self._negotiate(_handshake_event(events[0], self.reader))
            events = self.reader.feed(b"")
        self._take(events)

    def _negotiate(self, event: Event) -> None:
        if self._handshake is not None:
            for action in self._handshake.handle(event):
                self._perform(action)

    def _perform(self, action: Action[User]) -> None:
        match action:
            case SendMethod(method):
                self.output.method(0, encode_method(method))
            case Negotiated():
                self._tuned(action)
            case Opened():
                self._opened(action)
            case SendProtocolHeaderAndClose(reason, header):
                self._refuse(reason)
                self.output.raw(header)
                self.flush()
                self._transport.close()
            case CloseSilently(after_s, reason):
                self._refuse(reason)
                self._transport.pause_reading()
                self._restart_timer(after_s * 1000)
            case CloseConnection(error, class_id, method_id, reason):
                self._refuse(reason)
                self._send_close(error, (class_id, method_id))

    def _refuse(self, reason: str) -> None:
        self._state = State.CLOSING
        self._closing_reason = reason
        _log.warning("connection refused", peer=self.peer, reason=reason)

    def _tuned(self, limits: Negotiated) -> None:
        self.reader.frame_max = limits.frame_max or FRAME_MAX_UNLIMITED
        self.output.frame_max = limits.frame_max or FRAME_MAX_SENT
        self.channel_max = limits.channel_max
        if limits.heartbeat_s:
            self._heartbeat = Heartbeat(limits.heartbeat_s, self._context.clock.now_ms())

    def _opened(self, opened: Opened[User]) -> None:
        context = self._context
        self.user = opened.user
        self.vhost: VirtualHost = context.broker.vhosts[opened.vhost]
        self.capabilities = opened.capabilities
        self.name = opened.connection_name
        self._session = Session(self)
        self._state = State.OPEN
        self.reader.stepwise = False
        self._stop_timer()
        if self._heartbeat is not None:
            self._timer = context.timers.call_later(self._heartbeat.period_ms, self._beat)
        context.admission.enter(self.user, self.vhost.name)
        _log.info(
            "connection opened", peer=self.peer, user=self.user.name, vhost=self.vhost.name,
            name=self.name or "",
        )  # fmt: skip

    # Work.

    def _take(self, events: list[Any]) -> None:
        """Hand events to the session; those it cannot take yet wait here."""
        session = self._session
        if session is None or self._state is not State.OPEN:
            return
        if self._events:
            self._events.extend(events)
            events = self._events
        intake = session.intake
        try:
            self._position = intake.process(events, self._position)
        except Exception as error:
            self._crash(error)
            return
        if self._position < len(events) and self._state is State.OPEN:
            if self._events is not events:
                self._events = events
            elif self._is_reading:
                self._is_reading = False
                self._transport.pause_reading()
            return
        self._events = []
        self._position = 0
        if not self._is_reading and not intake.is_suspended:
            self._is_reading = True
            self._transport.resume_reading()

    def _yield_turn(self) -> None:
        """There is more to read, and the loop would go on reading: let the others have a turn."""
        self._transport.pause_reading()
        self._context.loop.call_soon(self._continue_reading)

    def _continue_reading(self) -> None:
        if self._is_reading and not self._transport.is_closing():
            self._transport.resume_reading()

    def _wake_consumers(self) -> None:
        self.output.is_congested = False
        waiting, self.output.waiting = self.output.waiting, []
        for consumer in waiting:
            consumer.wake()

    def _write_early(self) -> None:
        """Enough for a write although the turn is not over: keeps a fast consumer busy."""
        self._write()
        self.output.is_congested = self._is_paused

    def _write(self) -> None:
        pieces = self.output.take()
        if pieces and self._state is not State.CLOSED:
            write_now(self._transport, self._socket_fd, pieces)

    def _schedule_flush(self) -> None:
        self._context.flush_turn.add(self)

    def _beat(self) -> None:
        if self._heartbeat is None:
            return
        actions = self._heartbeat.tick(
            self._context.clock.now_ms(), self.reader.octets, self.output.octets, self._is_reading
        )
        for action in actions:
            if isinstance(action, PeerIsGone):
                self._closing_reason = action.reason
                self._transport.abort()
                return
            self.output.heartbeat()
        self._timer = self._context.timers.call_later(self._heartbeat.period_ms, self._beat)

    def close_overdue_channels(self) -> None:
        if self._session is not None and self._state is State.OPEN:
            self._session.close_overdue_channels(self._context.clock.now_ms())

    # Endings.

    def _crash(self, error: Exception) -> None:
        """A bug of ours: this connection ends, with a trace in the log; no other one does."""
        _log.exception("connection crashed", error, peer=self.peer)
        if self._state is State.OPEN:
            self.close_by_error(internal_error("see the broker's log"), (0, 0))

    def _leave(self) -> None:
        """Give back what the session holds: channels now, exclusive queues in the background."""
        if self._session is not None:
            self._session.end()
            self._context.spawn(self.vhost.drop_exclusive(self.connection_id))

    async def _finish_client_close(self) -> None:
        """Close-ok means that nothing of the connection is left."""
        await self.vhost.drop_exclusive(self.connection_id)
        await self.deletions_done()
        if self._state is State.CLOSING:
            self.output.method(0, encode_method(commands.Connection.CloseOk()))
            self.flush()
            self._transport.close()

    def _send_close(self, error: AmqpError, ids: tuple[int, int]) -> None:
        close = commands.Connection.Close(error.code, error.reply_text, *ids)
        self.output.method(0, encode_method(close))
        self.flush()
        self._state = State.CLOSING
        heartbeat_s = self._heartbeat.period_ms // 500 if self._heartbeat else CLOSE_TIMEOUT_S_MAX
        self._restart_timer(1000 * min(heartbeat_s, CLOSE_TIMEOUT_S_MAX))
        if not self._is_reading:
            self._is_reading = True
            self._transport.resume_reading()

    def _receive_closing(self, events: list[Any]) -> None:
        """Only the end of closing matters now."""
        for event in events:
            if not isinstance(event, MethodFrame) or event.channel != 0:
                continue
            ids = method_ids(event.payload)
            if ids == (10, 51):
                self._transport.close()
            elif ids == (10, 50):
                self.output.method(0, encode_method(commands.Connection.CloseOk()))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _restart_timer(self, delay_ms: int) -> None:
        self._stop_timer()
        self._timer = self._context.timers.call_later(delay_ms, self._transport.abort)


def _handshake_event(event: Any, reader: FrameReader) -> Event:
    if isinstance(event, Fault):
        if event.kind in (FaultKind.STRAY_FRAME, FaultKind.EXPECTED_METHOD):
            return StrayFrame(event.frame_type, event.payload)
        error = error_of(event, reader.frame_max, reader.message_size_max)
        return UnreadableFrame(error if isinstance(error, HardError) else internal_error(str(error)))
    if not isinstance(event, MethodFrame) or event.channel != 0:
        return StrayFrame(1, getattr(event, "payload", b""))
    try:
        return MethodReceived(decode_method(event.payload))
    except HardError as error:
        return UnreadableFrame(error, *(error.method_ids or method_ids(event.payload)))


