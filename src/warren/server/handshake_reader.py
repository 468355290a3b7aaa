"""Feeds a connection's first bytes to the handshake, one event at a time.

One at a time because each may change the rules for the next: frames may be larger after tune-ok,
and after open they are not the handshake's business any more. After a refusal nothing changes any
more, and the client, whom nobody knows, has to say close-ok and nothing else: so frames are read at
once, without contents, and only so many bytes of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from warren.auth.questions import AnswerPending
from warren.auth.users import User
from warren.model.errors import HardError, internal_error
from warren.protocol.handshake import Handshake, State
from warren.protocol.negotiation import (
    PROTOCOL_HEADER,
    Action,
    Event,
    MethodReceived,
    ProtocolHeader,
    StrayFrame,
    Timeout,
    UnreadableFrame,
)
from warren.wire.codec import Fault, FrameReader, MethodFrame
from warren.wire.fault_kinds import FaultKind
from warren.wire.faults import error_of
from warren.wire.methods import decode_method, method_ids

REFUSED_BYTES_MAX: Final = 16_384
"""A client that is refused may have sent the next methods of its handshake, and no more."""
_METHOD_FRAME = 1


class HandshakeReader:
    """Reads a handshake; with `pending` set it waits for a backend, and for `go_on` after that."""

    def __init__(self, handshake: Handshake[User], reader: FrameReader) -> None:
        self._handshake = handshake
        self._reader = reader
        self._header = b""
        self._refused_bytes = 0
        self.pending: AnswerPending | None = None
        self._held: Event | None = None
        self._late = b""
        reader.stepwise = True

    @property
    def is_waiting(self) -> bool:
        return self._held is not None

    def receive(self, data: bytes) -> Iterator[Action[User]]:
        """What to do about these bytes; to be done while iterating, in this order."""
        if self.is_waiting:
            self._late += data
            return
        missing = len(PROTOCOL_HEADER) - len(self._header)
        if missing > 0:
            self._header += data[:missing]
            data = data[missing:]
            if len(self._header) < len(PROTOCOL_HEADER):
                return
            yield from self._handshake.handle(ProtocolHeader(self._header))
        yield from self._work_through(data)

    def go_on(self) -> Iterator[Action[User]]:
        """Try again what had to wait for an answer, and then what came after it."""
        held, self._held, self.pending = self._held, None, None
        late, self._late = self._late, b""
        if held is None:
            return
        yield from self._handle(held)
        if self.is_waiting:
            self._late = late
        elif self._handshake.state is not State.RUNNING:
            yield from self._work_through(late)

    def _work_through(self, data: bytes) -> Iterator[Action[User]]:
        events = self._reader.feed(data)
        while events and self._handshake.state is not State.CLOSED:
            yield from self._handle(self._event_of(events[0]))
            if self._handshake.state is State.RUNNING or self.is_waiting:
                return
            events = self._reader.feed(b"")

    def after_refusal(self, data: bytes) -> list[Any] | None:
        """Return the events of bytes that came after the refusal; None if they are too many."""
        self._refused_bytes += len(data)
        if self._refused_bytes > REFUSED_BYTES_MAX:
            return None
        self._reader.stepwise = False
        self._reader.message_size_max = 0  # else contents would be collected
        return [] if self._reader.has_stopped else self._reader.feed(data)

    def _handle(self, event: Event) -> Iterator[Action[User]]:
        try:
            actions = self._handshake.handle(event)
        except AnswerPending as pending:
            self._held, self.pending = event, pending
            return
        yield from actions

    def time_out(self) -> list[Action[User]]:
        return self._handshake.handle(Timeout())

    def _event_of(self, event: Any) -> Event:
        reader = self._reader
        if isinstance(event, Fault):
            if event.kind in (FaultKind.STRAY_FRAME, FaultKind.EXPECTED_METHOD):
                return StrayFrame(event.frame_type, event.payload)
            error = error_of(event, reader.frame_max, reader.message_size_max)
            if not isinstance(error, HardError):
                error = internal_error(str(error))
            return UnreadableFrame(error)
        if not isinstance(event, MethodFrame) or event.channel != 0:
            return StrayFrame(_METHOD_FRAME, getattr(event, "payload", b""))
        try:
            return MethodReceived(decode_method(event.payload))
        except HardError as error:
            return UnreadableFrame(error, *(error.method_ids or method_ids(event.payload)))
