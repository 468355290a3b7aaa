"""The watch over redundancy: looks every second at queues whose copies may have changed.

It keeps `Redundancy` up to date and has the log told, a slice of queues at a time. A cluster in
which nothing changes costs one comparison per second.
"""

from __future__ import annotations

import asyncio
from typing import Final

from warren.cluster.redundancy import Redundancy
from warren.cluster.redundancy_log import RedundancyLog
from warren.cluster.view import ClusterView
from warren.server.context import ConnectionContext

LOOK_MS: Final = 1_000


class RedundancyWatch:
    def __init__(
        self, view: ClusterView, redundancy: Redundancy, context: ConnectionContext
    ) -> None:
        self.redundancy = redundancy
        self._log = RedundancyLog(view, redundancy)
        self._context = context

    def start(self) -> None:
        """Look now, and every second from now on."""
        self._context.timers.call_later(LOOK_MS, self._look)

    def _look(self) -> None:
        if self.redundancy.look():
            self._log.look()
            self.start()
        else:
            asyncio.get_running_loop().call_soon(self._look)
