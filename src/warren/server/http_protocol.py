"""The HTTP protocol of one connection: uvicorn's, with limits for clients that hold connections.

uvicorn waits for ever for the rest of a request, and counts such connections against its limit, so
a thousand of them would shut out everybody. Here

- a request's head must be complete 10 s after it began, and a body must go on at 1 kB/s at least;
- one large piece is read per turn of the event loop: uvloop by itself reads 32 of them, 8 MB;
- a client that greets with AMQP is told at once that it has the wrong port, instead of waiting for
  an answer until its head is overdue;
- the rest of a body that has been answered (413, 401) is read without being parsed, so that the
  client gets to the answer, and not for ever;
- when there are too many connections, one that owes the rest of its request, or has none under
  way, is closed for each that comes: the one that has been waiting longest.

So clients that send their requests at once are served however many others do not. Requests that are
being answered count, and beyond the limit the answer is 503; but for the readiness check, by which
orchestrators decide whether to restart the node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Final

import h11
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from warren.model.logs import EventLog
from warren.server.sockets import format_peer
from warren.server.tls.failures import TLS_CLIENT, is_client_hello

CONNECTIONS_MAX: Final = 1_000
READY_PATH: Final = "/api/health/checks/ready"
HEAD_S_MAX: Final = 10.0
"""Also the period in which a body must bring BODY_BYTES_MIN."""
BODY_BYTES_MIN: Final = 10_000
LOOK_S: Final = 2.5
# After a piece of this size others have their turn before the next one is read.
LARGE_PIECE_BYTES: Final = 65_536
# What is parsed of a body after its answer, so that the connection can be used again, and what is
# read of it at all.
UNWANTED_PARSED_BYTES_MAX: Final = 100_000
UNWANTED_BYTES_MAX: Final = 16_000_000
# After each large piece of that, so that senders of nothing but large bodies get slow.
UNWANTED_PAUSE_S: Final = 0.01

_AMQP_GREETING: Final = b"AMQP"

_log = EventLog("management")


class HttpProtocol(H11Protocol):
    """`waits_since_s` is the monotonic time since which the client owes something, or None."""

    waits_since_s: float | None = None
    _is_body_awaited = False
    _received = 0
    _received_before = 0
    _unwanted = 0
    _is_lingering = False
    _look_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            self._make_room()
        self.waits_since_s = time.monotonic()
        self._look_timer = self.loop.call_later(LOOK_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look_timer is not None:
            self._look_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._received and data.startswith(_AMQP_GREETING):
            self.send_400_response("This is the management API: AMQP has another port.")
            return
        self._received += len(data)
        if self._is_lingering or self._is_answered_early():
            self._count_unwanted(len(data))
        if not self._is_lingering:
            super().data_received(data)
            self._note_progress()
        if len(data) >= LARGE_PIECE_BYTES:
            self._let_others_read()

    def _let_others_read(self) -> None:
        if not self.flow.read_paused and not self.transport.is_closing():
            self.transport.pause_reading()
            self.loop.call_later(UNWANTED_PAUSE_S if self._is_lingering else 0, self._read_on)

    def _read_on(self) -> None:
        if not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _is_answered_early(self) -> bool:
        return self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY

    def _count_unwanted(self, size: int) -> None:
        self._unwanted += size
        if self._unwanted > UNWANTED_BYTES_MAX:
            self._end("the rest of a body that was answered is too long")
        elif self._unwanted > UNWANTED_PARSED_BYTES_MAX and not self._is_lingering:
            self._linger()

    def _linger(self) -> None:
        """Say no more, and read on: a socket closed while bytes come would take the answer back."""
        self._is_lingering = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self._end("the rest of a body that was answered is long")

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unwanted = 0
        self._note_progress()

    def send_400_response(self, msg: str) -> None:
        if is_client_hello(bytes(self.conn.trailing_data[0][:2])):
            peer = format_peer(self.transport.get_extra_info("peername"))
            host = format_peer(self.transport.get_extra_info("sockname"))
            _log.warning("HTTP connection refused", peer=peer, port=host, reason=TLS_CLIENT)
        super().send_400_response(msg)

    def _note_progress(self) -> None:
        """Find out what the client is to send: a head, a body, or nothing until it is answered."""
        theirs = self.conn.their_state
        if theirs is not h11.IDLE and theirs is not h11.SEND_BODY:
            self.waits_since_s = None
            return
        is_body_awaited = theirs is h11.SEND_BODY
        if self.waits_since_s is None or is_body_awaited is not self._is_body_awaited:
            self.waits_since_s = time.monotonic()
            self._received_before = self._received
        self._is_body_awaited = is_body_awaited

    def _look(self) -> None:
        now_s = time.monotonic()
        if self.waits_since_s is not None and now_s - self.waits_since_s >= HEAD_S_MAX:
            if not self._is_body_under_way():
                self._end("the request was not complete in time")
                return
            self.waits_since_s, self._received_before = now_s, self._received
        self._look_timer = self.loop.call_later(LOOK_S, self._look)

    def _is_body_under_way(self) -> bool:
        """True if enough came of the body since the last period, or the node kept it waiting."""
        if not self._is_body_awaited:
            return False
        if self.flow.read_paused or self.conn.they_are_waiting_for_100_continue:
            return True
        return self._received - self._received_before >= BODY_BYTES_MIN

    def _make_room(self) -> None:
        waiting = [
            (each.waits_since_s, id(each), each)
            for each in self.connections
            if isinstance(each, HttpProtocol) and each.waits_since_s is not None
        ]
        if waiting:
            min(waiting)[2]._end("room is needed for others")

    def _end(self, reason: str) -> None:
        peer = format_peer(self.transport.get_extra_info("peername"))
        _log.debug("HTTP connection closed", peer=peer, reason=reason)
        self.connections.discard(self)
        self.transport.abort()


def limited(application: ASGIApp, connections: Collection[object]) -> ASGIApp:
    """Return the application; it answers 503 while too many requests are being answered."""

    async def part(scope: Scope, receive: Receive, send: Send) -> None:
        if len(connections) <= CONNECTIONS_MAX or scope["path"] == READY_PATH:
            await application(scope, receive, send)
            return
        _log.warning("HTTP request refused: too many are under way", limit=CONNECTIONS_MAX)
        response = Response("Service Unavailable", 503, {"connection": "close"}, "text/plain")
        await response(scope, receive, send)

    return part
