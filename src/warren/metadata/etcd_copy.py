"""A node's copy of what is in etcd, its watchers, and those who wait for it to know something.

A transaction is told when the copy has applied it, and it may only return then. So whoever sent
one waits for its revision here. Who got no answer waits for a later revision instead and asks
whether what it wanted has been seen meanwhile: that is what an `Expectation` notices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from warren.metadata.etcd_feed import Listing
from warren.metadata.store import CancelWatch, MetadataUnavailable, Put, WatchCallback
from warren.metadata.view import Effects, Entry, Transaction, View
from warren.metadata.watchers import OnFault, Watchers

WAIT_S_MAX: Final = 10.0


@dataclass(slots=True)
class Expectation:
    """A transaction under way, and whether one just like it has been told."""

    transaction: Transaction
    is_fulfilled: bool = False

    def look_at(self, told: Mapping[str, Entry | None]) -> None:
        """What was told may be of several transactions, and deleting nothing is not told."""
        for change in self.transaction.changes:
            entry = told.get(change.key)
            if isinstance(change, Put):
                if entry is None or entry.record.value != change.value:
                    return
            elif entry is not None:
                return
        self.is_fulfilled = True


class EtcdCopy:
    def __init__(self, on_fault: OnFault) -> None:
        self.view = View()
        self.revision = 0
        self.on_applied: Callable[[int, str], None] = lambda revision, writer: None
        self._watchers = Watchers(on_fault)
        self._expected: dict[str, Expectation] = {}
        self._waiting: dict[object, tuple[Callable[[], bool], asyncio.Future[None]]] = {}

    # What the feed tells.

    def apply(self, revision: int, effects: Effects, writer: str = "") -> None:
        for key, entry in effects:
            self.view.store(key, entry)
        self.revision = revision
        self._tell(effects)
        self._wake()
        self.on_applied(revision, writer)

    def replace(self, revision: int, listing: Listing) -> None:
        """Everything as it is now; what differs is told as one transaction."""
        gone: Effects = [(r.key, None) for r in self.view.range("") if r.key not in listing]
        changed: Effects = [
            (key, entry)
            for key, entry in listing.items()
            if (old := self.view.get(key)) is None or old.version < entry.record.version
        ]
        self.apply(revision, gone + changed)

    # Watchers.

    def watch(self, callback: WatchCallback) -> CancelWatch:
        return self._watchers.add(callback)

    def _tell(self, effects: Effects) -> None:
        if not effects:
            return
        if self._expected:
            told = dict(effects)
            for key in told:
                if key in self._expected:
                    self._expected[key].look_at(told)
        self._watchers.tell(effects)

    # Waiting.

    def expect(self, transaction: Transaction) -> Expectation:
        """Writers of one key go one after another, so one expectation per key is enough."""
        expectation = Expectation(transaction)
        for change in transaction.changes[:1]:
            self._expected[change.key] = expectation
        return expectation

    def expect_no_more(self, expectation: Expectation) -> None:
        for change in expectation.transaction.changes[:1]:
            if self._expected.get(change.key) is expectation:
                del self._expected[change.key]

    async def reached(self, revision: int) -> None:
        await self.until(lambda: self.revision >= revision)

    async def agrees(self, found: dict[str, int], revision: int) -> None:
        """Wait until the copy shows, of each key, the version found at a revision, or a later."""
        await self.until(
            lambda: (
                self.revision >= revision
                or all(self._is_as_new(key, version) for key, version in found.items())
            )
        )

    def _is_as_new(self, key: str, version: int) -> bool:
        record = self.view.get(key)
        if version == 0:
            return record is None
        return record is not None and record.version >= version

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Raises MetadataUnavailable if etcd tells nothing for too long."""
        if is_so():
            return
        token, future = object(), asyncio.get_running_loop().create_future()
        self._waiting[token] = (is_so, future)
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                await future
        except TimeoutError:
            raise MetadataUnavailable(
                f"etcd has told nothing for {WAIT_S_MAX:g} s; the change may be done yet"
            ) from None
        finally:
            del self._waiting[token]

    def _wake(self) -> None:
        for is_so, future in self._waiting.values():
            if not future.done() and is_so():
                future.set_result(None)
