"""What happens once per turn of the event loop, for all connections together.

Everything a connection has to say in one turn goes out in one write: deliveries, replies and one
coalesced confirm. A connection that has something registers here, and one callback serves all.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.server.outgoing import Outgoing


class FlushTurn:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[Outgoing] = []

    def add(self, outgoing: Outgoing) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(outgoing)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for outgoing in waiting:
            outgoing.flush()
