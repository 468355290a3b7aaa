"""A process's way to the store: the `MetadataStore` of one node, over a network that fails.

A request that is lost, or whose answer is, is given up after a while: it may have been done. What
the store tells comes in order, each change for itself; if the history has been compacted meanwhile,
the difference is told as one change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from cluster_simulation.loop import NodeLoop
from cluster_simulation.store import EtcdLike
from warren.metadata.store import (
    CancelWatch,
    Change,
    Check,
    Lease,
    MetadataError,
    MetadataUnavailable,
    Operation,
    Record,
    WatchCallback,
)

PATIENCE_S: Final = 1.0


class StoreClient:
    """`is_cut` says whether the node is cut off from the store at the moment."""

    def __init__(self, store: EtcdLike, loop: NodeLoop, is_cut: Callable[[], bool]) -> None:
        self.revision = 0
        """Revision of the store that the copy here has come to."""
        self.copy: dict[str, Record] = {}
        self._store = store
        self._loop = loop
        self._is_cut = is_cut
        self._watchers: list[WatchCallback] = []
        self._is_news_due = False
        store.watchers.append(self.news)

    def close(self) -> None:
        self._store.watchers.remove(self.news)

    @property
    def is_reachable(self) -> bool:
        return not self._is_cut() and not self._store.is_down

    # Requests.

    def _ask(self, do: Callable[[], Any]) -> asyncio.Future[Any]:
        answer = self._loop.create_future()
        schedule, store = self._store.schedule, self._store

        def give_up() -> None:
            if not answer.done():
                answer.set_exception(MetadataUnavailable("no answer from the store"))

        def told(result: Any, revision: int) -> None:
            if answer.done():
                return
            self.hear(revision)
            timer.cancel()
            if isinstance(result, MetadataError):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        def arrive() -> None:
            if self.is_reachable:
                try:
                    result = do()
                except MetadataError as error:
                    result = error
                schedule.soon(store.delay_us_max, lambda: come_back(result, store.revision))

        def come_back(result: Any, revision: int) -> None:
            if self.is_reachable:
                self._loop.run(told, result, revision)

        timer = self._loop.call_later(PATIENCE_S, give_up)
        schedule.soon(store.delay_us_max, arrive)
        return answer

    async def commit(self, checks: Sequence[Check], changes: Sequence[Operation]) -> int | None:
        """Return the revision of the change; None if it was refused."""
        revision: int | None = await self._ask(lambda: self._store.commit(checks, changes))
        return revision

    async def tell(self, change: Operation, *checks: Check) -> bool:
        return await self.commit(checks, [change]) is not None

    async def transact(self, checks: Sequence[Check], changes: Sequence[Operation]) -> bool:
        return await self.commit(checks, changes) is not None

    async def grant_lease(self, ttl_s: float) -> Lease:
        lease: Lease = await self._ask(lambda: self._store.grant(ttl_s))
        return lease

    async def keep_alive(self, lease: Lease) -> None:
        await self._ask(lambda: self._store.keep_alive(lease))

    async def revoke(self, lease: Lease) -> None:
        await self._ask(lambda: self._store.revoke(lease.id))

    # The copy.

    async def open(self) -> None:
        """Read everything there is."""
        await self._ask(lambda: None)

    async def close_store(self) -> None:
        self.close()

    async def get(self, key: str) -> Record | None:
        return self.copy.get(key)

    async def range(self, prefix: str) -> list[Record]:
        return [self.copy[key] for key in sorted(self.copy) if key.startswith(prefix)]

    def watch(self, callback: WatchCallback) -> CancelWatch:
        self._watchers.append(callback)
        return lambda: self._watchers.remove(callback)

    def news(self) -> None:
        """There is something that this node has not heard of."""
        if self._is_news_due:
            return
        self._is_news_due = True
        schedule, delay_us = self._store.schedule, self._store.delay_us_max

        def look() -> None:
            self._is_news_due = False
            if self.is_reachable:
                revision = self._store.revision
                schedule.soon(delay_us, lambda: self._loop.run(self._hear_late, revision))

        schedule.soon(delay_us, look)

    def _hear_late(self, revision: int) -> None:
        if self.is_reachable:
            self.hear(revision)
            if self.revision < self._store.revision:
                self.news()

    def hear(self, revision: int) -> None:
        """Take in all changes up to this revision."""
        if self.revision >= revision:
            return
        if self.revision < self._store.compacted:
            self._hear_difference()
        while self.revision < revision:
            changes = self._store.history[self.revision]
            self.revision += 1
            self._tell(changes)

    def _hear_difference(self) -> None:
        now = self._store.records
        self.revision = self._store.revision
        changed = [Change(k, now.get(k)) for k in sorted({*self.copy, *now}) if self._differs(k)]
        self._tell(tuple(changed))

    def _differs(self, key: str) -> bool:
        return self.copy.get(key) != self._store.records.get(key)

    def _tell(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            if change.record is None:
                self.copy.pop(change.key, None)
            else:
                self.copy[change.key] = change.record
        if changes:
            for tell in tuple(self._watchers):
                tell(changes)
