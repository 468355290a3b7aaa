"""Whether a client's socket is read from: not while it must wait, and never twice in a turn."""

from __future__ import annotations

import asyncio


class Reading:
    __slots__ = ("_loop", "_transport", "full_reads", "is_on")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self.is_on = True
        self.full_reads = 0
        """How often there was more than one turn takes."""

    def pause(self) -> None:
        if self.is_on:
            self.is_on = False
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self.is_on and not self._transport.is_closing():
            self.is_on = True
            self._transport.resume_reading()

    def yield_turn(self) -> None:
        """There is more to read, and the loop would go on reading: let the others have a turn."""
        self.full_reads += 1
        self._transport.pause_reading()
        self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        if self.is_on and not self._transport.is_closing():
            self._transport.resume_reading()
