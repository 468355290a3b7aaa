"""Tells other nodes how far this one's topology has come: at once who waits for it, others later.

Only the node that made a change waits for it to be applied everywhere, and the store says which
one that was. Telling all of everything would be most of what nodes have to do when a queue is
declared; the others hear now and then, so that nobody's picture is old for long.

A change that removes queues is applied when they are gone from the disk of this node, too: another
queue of the same name may begin with copies that nobody looks at first (`cluster/founding`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from warren.cluster.removed_queues import RemovedQueues
from warren.metadata.store import Change
from warren.server.cluster_store import ClusterStore
from warren.server.context import ConnectionContext
from warren.server.links import Links

LEISURE_S: Final = 0.2


class TopologyReports:
    def __init__(self, context: ConnectionContext, links: Links, store: ClusterStore) -> None:
        self._context = context
        self._links = links
        self._store = store
        self._removed = RemovedQueues(0)
        self._held: dict[int, None] = {}
        """Revisions that removed queues which may still be on the disk of this node, in order."""
        self._waiting: dict[str, None] = {}
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._removed = RemovedQueues(self._store.revision)
        self._store.watch(self._note_removed)
        self._store.on_applied(self._applied)
        self._links.revision = self._store.revision
        self._tell_all()

    def are_clean(self, key: str, nodes: Iterable[str]) -> bool:
        """True if no disk of these nodes has anything of an earlier queue under this key."""
        revision = self._removed.revision_of(key)
        if revision is None or self._links.revision < revision:
            return False
        others = (node for node in nodes if node != self._context.config.name)
        return all(self._store.applied.has_applied(node, revision) for node in others)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _applied(self, revision: int, writer: str) -> None:
        """Once per turn is enough; whoever has no link is told when there is one."""
        self._links.revision = self._reached(revision)
        if writer in self._links.nodes:
            self._waiting[writer] = None
            if not self._is_due:
                self._is_due = True
                asyncio.get_running_loop().call_soon(self._tell_waiting)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LEISURE_S, self._tell_all)

    def _reached(self, revision: int) -> int:
        """Return the revision up to which everything is done here, if the store has got so far."""
        return next(iter(self._held)) - 1 if self._held else revision

    def _note_removed(self, changes: Sequence[Change]) -> None:
        revision = self._store.revision
        vhosts = self._removed.note(changes, revision)
        if vhosts:
            self._held[revision] = None
            self._context.spawn(self._forget_removed(revision, vhosts))

    async def _forget_removed(self, revision: int, vhosts: Iterable[str]) -> None:
        for vhost in vhosts:
            storage = self._context.queue_factory.storages.get(vhost)
            if storage is not None:
                await storage.index.deletions_safe()
        del self._held[revision]
        self._links.revision = self._reached(self._store.revision)
        self._links.tell_applied(tuple(self._links.nodes))

    def _tell_waiting(self) -> None:
        self._is_due = False
        waiting, self._waiting = self._waiting, {}
        self._links.tell_applied(waiting)

    def _tell_all(self) -> None:
        self._timer = None
        self._links.tell_applied(tuple(self._links.nodes))
