"""Whether a client's socket is read from: not while it must wait, and never twice in a turn."""

from __future__ import annotations

import asyncio

from warren.flow.states import FlowRecord
from warren.server.sockets import unread_bytes


class ReadGate:
    __slots__ = ("_loop", "_transport", "behind", "is_on")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self.is_on = True
        self.behind: FlowRecord | None = None
        """When the loop was behind with what the client sent, and why; None if it never was."""

    def pause(self) -> None:
        if self.is_on:
            self.is_on = False
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self.is_on and not self._transport.is_closing():
            self.is_on = True
            self._transport.resume_reading()

    @property
    def backlog_bytes(self) -> int:
        """What the client has sent and the loop, which wants it, has not got round to reading."""
        return unread_bytes(self._transport) if self.is_on else 0

    def yield_turn(self) -> None:
        """There is more to read, and the loop would go on reading: let the others have a turn."""
        self._transport.pause_reading()
        self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        if self.is_on and not self._transport.is_closing():
            self._transport.resume_reading()
