"""Feeds a connection's first bytes to the handshake, one event at a time.

One at a time because each may change the rules for the next: frames may be larger after tune-ok,
and after open they are not the handshake's business any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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

_METHOD_FRAME = 1


class HandshakeReader:
    def __init__(self, handshake: Handshake[User], reader: FrameReader) -> None:
        self._handshake = handshake
        self._reader = reader
        self._header = b""
        reader.stepwise = True

    def receive(self, data: bytes) -> Iterator[Action[User]]:
        """What to do about these bytes; to be done while iterating, in this order."""
        missing = len(PROTOCOL_HEADER) - len(self._header)
        if missing > 0:
            self._header += data[:missing]
            data = data[missing:]
            if len(self._header) < len(PROTOCOL_HEADER):
                return
            yield from self._handshake.handle(ProtocolHeader(self._header))
        events = self._reader.feed(data)
        while events and self._handshake.state is not State.CLOSED:
            yield from self._handshake.handle(self._event_of(events[0]))
            if self._handshake.state is State.RUNNING:
                return
            events = self._reader.feed(b"")

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
