"""Tells other nodes how far this one's topology has come: at once who waits for it, others later.

Only the node that made a change waits for it to be applied everywhere, and the store says which
one that was. Telling all of everything would be most of what nodes have to do when a queue is
declared; the others hear now and then, so that nobody's picture is old for long.
"""

from __future__ import annotations

import asyncio
from typing import Final

from warren.metadata.etcd import EtcdStore
from warren.server.links import Links

LEISURE_S: Final = 0.2


class TopologyReports:
    def __init__(self, links: Links, store: EtcdStore) -> None:
        self._links = links
        self._store = store
        self._waiting: dict[str, None] = {}
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._store.on_applied(self._applied)
        self._links.revision = self._store.revision
        self._tell_all()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _applied(self, revision: int, writer: str) -> None:
        """Once per turn is enough; whoever has no link is told when there is one."""
        self._links.revision = revision
        if writer in self._links.nodes:
            self._waiting[writer] = None
            if not self._is_due:
                self._is_due = True
                asyncio.get_running_loop().call_soon(self._tell_waiting)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LEISURE_S, self._tell_all)

    def _tell_waiting(self) -> None:
        self._is_due = False
        waiting, self._waiting = self._waiting, {}
        self._links.tell_applied(waiting)

    def _tell_all(self) -> None:
        self._timer = None
        self._links.tell_applied(tuple(self._links.nodes))
