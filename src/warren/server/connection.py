"""One client's socket: bytes to events, events to the handshake or the session, and back.

    HANDSHAKE --open-ok--> OPEN --our connection.close--> CLOSING --close-ok or time--> CLOSED
                             \\--client's close: close-ok, then the socket-------------/

Reading goes into the node's one read buffer (or, for a large body, straight into the message);
the reader makes events of it, the session works through them. While a method of the client waits
for something outside, later events wait in `_events`, and after one more read the socket is not
read at all. While the node's brake is on (an alarm, a disk that is behind), the way to the session
is by a `Throttle`, which may have the socket wait, too. Writing is `Outgoing`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from enum import Enum
from typing import Any, Final, cast

from pamqp import commands

from warren.auth.users import User
from warren.broker.activity import Traffic
from warren.channels.channel import Channel
from warren.channels.confirms import Confirms
from warren.channels.intake import Intake
from warren.channels.session import Session
from warren.model.errors import AmqpError, HardError, connection_forced, internal_error
from warren.model.logs import EventLog
from warren.protocol.capabilities import ClientCapabilities
from warren.protocol.heartbeat import Heartbeat, PeerIsGone
from warren.protocol.negotiation import (
    Action,
    CloseConnection,
    CloseSilently,
    Negotiated,
    Opened,
    SendMethod,
    SendProtocolHeaderAndClose,
)
from warren.server.connection_details import ConnectionDetails
from warren.server.connection_events import connection_closed, connection_created
from warren.server.connection_flow import ConnectionFlow
from warren.server.connection_login import ConnectionLogin
from warren.server.context import READ_BUFFER_BYTES, ConnectionContext, new_token
from warren.server.handshake_reader import HandshakeReader
from warren.server.outgoing import Outgoing
from warren.server.read_gate import ReadGate
from warren.server.sockets import endpoint_of, format_peer, reset
from warren.server.throttle import Throttle
from warren.server.timer_wheel import WheelTimer
from warren.server.tls.peer import peer_of
from warren.wire.codec import FrameReader, MethodFrame
from warren.wire.faults import FRAME_MAX_MIN
from warren.wire.methods import Method, encode_method, method_ids
from warren.wire.tables import encode_table

CLOSE_TIMEOUT_S_MAX: Final = 30
FRAME_MAX_UNLIMITED: Final = 0x7FFFFFFF
FRAME_MAX_SENT: Final = 131_072
_CLOSE: Final = (10, 50)
_CLOSE_OK: Final = (10, 51)

_log = EventLog("connection")


class State(Enum):
    HANDSHAKE = "handshake"
    OPEN = "running"
    CLOSING = "closing"
    CLOSED = "closed"


class AmqpConnection(ConnectionFlow, ConnectionLogin, asyncio.BufferedProtocol):
    __slots__ = (
        "_closing_reason", "_details", "_events", "_heartbeat", "_landing",
        "_limits", "_outgoing", "_position", "_reading", "_session", "_state", "_throttle",
        "_timer", "_transport", "capabilities", "channel_max", "name", "output", "peer", "reader",
    )  # fmt: skip

    def __init__(self, context: ConnectionContext) -> None:
        super().__init__(context)
        self._state = State.HANDSHAKE
        self._greeting: HandshakeReader | None = None
        self._session: Session | None = None
        self._throttle: Throttle | None = None
        self._heartbeat: Heartbeat | None = None
        self._timer: WheelTimer | None = None
        self._expiry: WheelTimer | None = None
        self._events: list[Any] = []
        self._position = 0
        self._landing: memoryview | None = None
        self._closing_reason = ""
        self._limits: Negotiated | None = None
        self._details: ConnectionDetails | None = None
        self.name: str | None = None
        self.channel_max = 0
        self.capabilities = ClientCapabilities()
        self.reader = FrameReader(FRAME_MAX_MIN, context.config.max_message_size)
        self._outgoing = Outgoing(FRAME_MAX_MIN, context.flush_scheduler)
        self.output = self._outgoing.output

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        context = self._context
        self._transport = cast("asyncio.Transport", transport)
        self._reading = ReadGate(context.loop, self._transport)
        self._outgoing.attach(self._transport)
        peername = transport.get_extra_info("peername")
        self.peer = format_peer(peername)
        self.connection_id = f"{self.peer} {new_token()}"
        handshake = context.admission.handshake(
            context.handshake_settings_for(transport),
            endpoint_of(peername).host or "",
            self._login_tried,
        )
        self._greeting = HandshakeReader(handshake, self.reader)
        self._start_timer(context.config.handshake_timeout_ms, self._handshake_timed_out)
        context.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        context = self._context
        reason = self._closing_reason or (str(exc) if exc else "the client closed the socket")
        if self._session is not None:
            if self._state is State.OPEN:
                self._leave()
            context.admission.leave(self.user, self.vhost.name)
            context.broker.activity.connection_closed(self.traffic)
            _log.info(
                "connection closed", peer=self.peer, user=self.user.name, vhost=self.vhost.name,
                reason=reason,
            )  # fmt: skip
            connection_closed(context.broker.events, self)
        elif self._state is State.HANDSHAKE:
            # One that was refused has had its line.
            _log.info("connection closed", peer=self.peer, reason=reason)
        self._state = State.CLOSED
        self._stop_timer()
        self._stop_expiry()
        self._events.clear()
        self._end_throttle()
        self._greeting = None
        self._outgoing.detach()
        context.connections.remove(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        self._landing = self.reader.landing()
        return self._landing if self._landing is not None else self._context.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        context = self._context
        now_ms = context.turn_clock.now_ms = context.clock.now_ms()
        if now_ms >= context.look_at_tenure_ms:
            context.look_at_tenure()
        if self._landing is not None:
            self._landing = None
            self.reader.landed(nbytes)
            return
        if nbytes == READ_BUFFER_BYTES:
            self._reading.yield_turn()
        data = context.read_buffer[:nbytes]
        if self._state is State.OPEN:
            self._take(self.reader.feed(data))
        elif self._state is State.HANDSHAKE:
            self._greet(bytes(data))
        elif self._greeting is not None:
            self._receive_refused(bytes(data))
        elif self._state is State.CLOSING and not self.reader.has_stopped:
            self._receive_closing(self.reader.feed(data))

    def pause_writing(self) -> None:
        self._outgoing.pause()

    def resume_writing(self) -> None:
        self._outgoing.resume()
        self._take_up()

    # What the session asks for.

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self._context.spawn(self._run(work))

    def run_to_end(self, work: Coroutine[Any, Any, None]) -> None:
        self._context.spawn_to_end(work)

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - one connection's end, with its trace
            self._crash(error)
        self._take_up()

    def confirms_due(self, confirms: Confirms) -> None:
        self._outgoing.confirms_due(confirms)

    async def output_drained(self) -> None:
        await self._outgoing.drained()

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
    def state(self) -> str:
        return self.state_and_backlog() if self.is_open else str(self._state.value)

    @property
    def details(self) -> ConnectionDetails:
        assert self._details is not None, "a connection has details once it is open"
        return self._details

    @property
    def full_name(self) -> str:
        return self.details.name

    def pid(self, channel_number: int = 0) -> str:
        return self._context.pid(self.details.number, channel_number)

    @property
    def channels(self) -> list[Channel]:
        return [] if self._session is None else list(self._session.channels.values())

    def _has_published(self, number: int) -> bool:
        return any(each.number == number and each.counters.publish for each in self.channels)

    @property
    def traffic(self) -> Traffic:
        reader, outgoing = self.reader, self._outgoing
        return Traffic(reader.octets, self.output.octets, reader.frames, outgoing.writes)

    @property
    def unsent_bytes(self) -> int:
        return self._outgoing.unsent_bytes

    def shut_down(self, reason: str) -> None:
        if self._state is State.OPEN:
            self.close_by_error(connection_forced(reason), (0, 0))
        elif self._state is State.HANDSHAKE:
            self.abort()

    def abort(self) -> None:
        reset(self._transport)

    def close_overdue_channels(self) -> None:
        if self._session is not None and self._state is State.OPEN:
            self._session.close_overdue_channels(self._context.clock.now_ms())

    # Negotiation.

    def _perform(self, action: Action[User]) -> None:
        match action:
            case SendMethod(method):
                self._send(method)
            case Negotiated():
                self._tuned(action)
            case Opened():
                self._opened(action)
            case SendProtocolHeaderAndClose(reason, header):
                self._refuse(reason)
                self.output.raw(header)
                self._close_socket()
            case CloseSilently(after_s, reason):
                self._refuse(reason)
                self._start_timer(after_s * 1000, self.abort)
            case CloseConnection(error, class_id, method_id, reason):
                self._refuse(reason)
                self._send_close(error, (class_id, method_id))

    def _refuse(self, reason: str) -> None:
        self._state = State.CLOSING
        self._closing_reason = reason
        _log.warning("connection refused", peer=self.peer, reason=reason)

    def _receive_refused(self, data: bytes) -> None:
        events = None if self._greeting is None else self._greeting.after_refusal(data)
        if events is None:
            self.abort()
        else:
            self._receive_closing(events)

    def _tuned(self, limits: Negotiated) -> None:
        self.reader.frame_max = limits.frame_max or FRAME_MAX_UNLIMITED
        self.output.frame_max = limits.frame_max or FRAME_MAX_SENT
        self.channel_max = limits.channel_max
        self._limits = limits
        if limits.heartbeat_s:
            self._heartbeat = Heartbeat(limits.heartbeat_s, self._context.clock.now_ms())

    def _opened(self, opened: Opened[User]) -> None:
        context = self._context
        self.user = opened.user
        self.vhost = context.broker.vhosts[opened.vhost]
        self.capabilities = opened.capabilities
        self.name = opened.connection_name
        assert self._limits is not None, "limits come before the virtual host"
        self._details = ConnectionDetails(
            number=context.next_connection_number(),
            peer=endpoint_of(self._transport.get_extra_info("peername")),
            host=endpoint_of(self._transport.get_extra_info("sockname")),
            connected_at_ms=context.clock.now_ms(),
            mechanism=opened.mechanism,
            limits=self._limits,
            encoded_properties=encode_table(opened.client_properties),
            tls=peer_of(self._transport),
        )
        self._session = Session(self)
        self._state = State.OPEN
        self.reader.stepwise = False
        self._stop_timer()
        if self._heartbeat is not None:
            self._start_timer(self._heartbeat.period_ms, self._beat)
        context.admission.enter(self.user, self.vhost.name)
        context.broker.activity.churn.connection_created += 1
        _log.info(
            "connection opened", peer=self.peer, user=self.user.name, vhost=self.vhost.name,
            name=self.name or "",
        )  # fmt: skip
        connection_created(context.broker.events, self)
        self._watch_expiry()

    # Work.

    def _take(self, events: list[Any]) -> None:
        """Hand events to the session; those it cannot take yet wait here."""
        session = self._session
        if session is None or self._state is not State.OPEN:
            return
        if self._events:
            self._events.extend(events)
            events = self._events
        try:
            if self._context.brake.is_on:
                self._position = self._process_throttled(session.intake, events)
            else:
                self._position = session.intake.process(events, self._position)
        except Exception as error:  # noqa: BLE001 - one connection's end, with its trace
            self._crash(error)
            return
        if self._position < len(events):
            if self._events is events and not session.intake.is_closed:
                self._reading.pause()
            self._events = events
            return
        self._events = []
        self._position = 0
        if self._outgoing.is_unread:
            self._reading.pause()
        elif not session.intake.is_suspended:
            self._resume_reading()

    def _process_throttled(self, intake: Intake, events: list[Any]) -> int:
        throttle = self._made_throttle()
        position = throttle.process(intake, events, self._position)
        if throttle.is_stopped:
            self._reading.pause()
        return position

    def _made_throttle(self) -> Throttle:
        if self._throttle is None:
            tell = self._send if self.capabilities.connection_blocked else None
            timeout_ms = self._context.config.metadata_timeout_ms
            self._throttle = Throttle(
                self._context.brake, self.reader, tell, self._take_up, timeout_ms
            )
        return self._throttle

    def _end_throttle(self) -> None:
        if self._throttle is not None:
            self._throttle.end()
            self._throttle = None

    def _take_up(self) -> None:
        """Go on with what waits here, and with reading."""
        self._take([])

    def _resume_reading(self) -> None:
        if self._throttle is not None and self._throttle.is_stopped:
            return
        self._reading.resume()

    def _beat(self) -> None:
        if self._heartbeat is None:
            return
        actions = self._heartbeat.tick(
            self._context.clock.now_ms(),
            self.reader.octets,
            self.output.octets,
            self._reading.is_on,
        )
        for action in actions:
            if isinstance(action, PeerIsGone):
                self._closing_reason = action.reason
                self.abort()
                return
            self.output.heartbeat()
        self._start_timer(self._heartbeat.period_ms, self._beat)

    def _send(self, method: Method) -> None:
        self.output.method(0, encode_method(method))

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
            self._send(commands.Connection.CloseOk())
            self._outgoing.flush()
            # The client closes the socket, as with RabbitMQ: some take an end that follows
            # close-ok too soon for a failure.
            self._start_timer(1000 * CLOSE_TIMEOUT_S_MAX, self.abort)

    def _close_socket(self) -> None:
        """Once everything is written, which a client that does not read must not put off."""
        self._outgoing.flush()
        self._transport.close()
        self._start_timer(1000 * CLOSE_TIMEOUT_S_MAX, self.abort)

    def _send_close(self, error: AmqpError, ids: tuple[int, int]) -> None:
        self._end_throttle()
        self._send(commands.Connection.Close(error.code, error.reply_text, *ids))
        self._outgoing.flush()
        self._state = State.CLOSING
        heartbeat_s = self._heartbeat.period_ms // 500 if self._heartbeat else CLOSE_TIMEOUT_S_MAX
        self._start_timer(1000 * min(heartbeat_s, CLOSE_TIMEOUT_S_MAX), self.abort)
        self._resume_reading()

    def _receive_closing(self, events: list[Any]) -> None:
        """Only the end of closing matters now."""
        for event in events:
            if not isinstance(event, MethodFrame) or event.channel != 0:
                continue
            ids = method_ids(event.payload)
            if ids == _CLOSE_OK:
                self.abort()  # nothing is left to be said, and RabbitMQ resets here, too
            elif ids == _CLOSE:
                self._send(commands.Connection.CloseOk())

    def _start_timer(self, delay_ms: int, callback: Any) -> None:
        """The one thing this connection waits for; whatever it waited for before is off."""
        self._stop_timer()
        self._timer = self._context.timers.call_later(delay_ms, callback)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
