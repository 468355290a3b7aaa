"""What happens once per turn of the event loop, for all connections together.

Everything a connection has to say in one turn goes out in one write: deliveries, replies and one
coalesced confirm. A connection that has something registers here, and one callback serves all.

All that leaves the node leaves through here, so this is also where it is stopped when the node may
not act any more (`flow/tenure.py`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from warren.flow.tenure import Tenure, unlimited

if TYPE_CHECKING:
    from warren.server.outgoing import Outgoing


class FlushScheduler:
    def __init__(self, loop: asyncio.AbstractEventLoop, tenure: Tenure | None = None) -> None:
        self.tenure = tenure or unlimited()
        self.tenure.followers.append(self)
        self.open: set[Outgoing] = set()
        """All who have a socket."""
        self._loop = loop
        self._waiting: list[Outgoing] = []

    def add(self, outgoing: Outgoing) -> None:
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(outgoing)

    def flush(self) -> None:
        """Write what there is; the turn's own callback finds nothing left to do."""
        waiting, self._waiting = self._waiting, []
        for outgoing in waiting:
            outgoing.flush()

    def frozen(self) -> None:
        for outgoing in self.open:
            outgoing.freeze()

    def thawed(self) -> None:
        for outgoing in tuple(self.open):
            outgoing.thaw()

    def forfeit(self) -> None:
        """What was withheld is to be said no more: it was promised in a life that is over."""
        for outgoing in tuple(self.open):
            outgoing.forfeit()
