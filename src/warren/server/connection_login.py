"""Login of a client's connection: waiting for backends, and the end of a login that expires."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from warren.auth.questions import AnswerPending
from warren.auth.users import User
from warren.model.errors import HardError, connection_forced
from warren.protocol.negotiation import Action
from warren.server.admission import Login
from warren.server.connection_events import login_tried
from warren.server.handshake_reader import HandshakeReader
from warren.server.read_gate import ReadGate
from warren.server.session_services import SessionServices
from warren.server.sockets import endpoint_of
from warren.server.timer_wheel import WheelTimer
from warren.wire.codec import FrameReader

TIMER_MS_MAX: Final = 86_400_000
"""Longest wait of the timer for an expiring login; it is set again until the time has come."""


class ConnectionLogin(SessionServices):
    """A part of a connection: its negotiation, and whose it is."""

    __slots__ = ("_expiry", "_greeting")

    _greeting: HandshakeReader | None
    _transport: asyncio.Transport
    _reading: ReadGate
    _expiry: WheelTimer | None
    reader: FrameReader

    @property
    def is_open(self) -> bool:
        raise NotImplementedError

    def _perform(self, action: Action[User]) -> None:
        raise NotImplementedError

    def _take(self, events: list[Any]) -> None:
        raise NotImplementedError

    def close_by_error(self, error: HardError, ids: tuple[int, int]) -> None:
        raise NotImplementedError

    def _greet(self, data: bytes) -> None:
        if self._greeting is not None:
            for action in self._greeting.receive(data):
                self._perform(action)
        self._after_greeting()

    def _after_greeting(self) -> None:
        if self.is_open:
            self._greeting = None
            self._take(self.reader.feed(b""))
        elif self._greeting is not None and self._greeting.pending is not None:
            self._reading.pause()
            self._context.spawn(self._await_answer(self._greeting, self._greeting.pending))

    async def _await_answer(self, greeting: HandshakeReader, pending: AnswerPending) -> None:
        await pending.ask()
        if self._greeting is not greeting:
            return  # the client has gone
        for action in greeting.go_on():
            self._perform(action)
        self._after_greeting()
        if greeting.pending is None:
            self._reading.resume()

    def _handshake_timed_out(self) -> None:
        if self._greeting is not None:
            for action in self._greeting.time_out():
                self._perform(action)

    def _login_tried(self, login: Login) -> None:
        peer = endpoint_of(self._transport.get_extra_info("peername"))
        host = endpoint_of(self._transport.get_extra_info("sockname"))
        is_encrypted = self._transport.get_extra_info("ssl_object") is not None
        login_tried(self._context.broker.events, login, peer, host, is_encrypted)

    # A login that ends by itself.

    def user_changed(self, user: User) -> None:
        self.user = user
        self._watch_expiry()

    def _watch_expiry(self) -> None:
        """Close the connection when its login expires, unless a new secret comes before that."""
        self._stop_expiry()
        authorization = self.user.authorization
        ends_at_ms = None if authorization is None else authorization.expires_at_ms
        if ends_at_ms is None or not self.is_open:
            return
        left_ms = ends_at_ms - 1000 * self._context.clock.wall_seconds()
        if left_ms <= 0:
            self.close_by_error(connection_forced("credentials expired"), (0, 0))
            return
        wait_ms = min(left_ms, TIMER_MS_MAX)
        self._expiry = self._context.timers.call_later(wait_ms, self._watch_expiry)

    def _stop_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
