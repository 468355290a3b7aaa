"""The metadata engine of a single node: a copy in memory, SQLite behind it.

**What it gives.** The contract of `store.MetadataStore`, at many thousand transactions a second,
without ever making the event loop wait for a disk.

**The naive way** is a SQLite transaction per call. A commit costs an fdatasync, a quarter of a
millisecond on a good disk, so a thousand declares take a quarter of a second, one after another,
on the thread that should be moving messages.

**What is done.** Nobody else writes this file (a lock sees to it), so the loop thread holds the
whole state in memory (`View`), answers all reads from it, and *decides* every transaction; the
one writer thread only makes decisions durable. Transactions that come while the writer is busy
form the next batch:

    callers  transact(1)   transact(2)   transact(3)
    loop     judge 1 --+                             +-- apply 1, tell, answer; judge 2, 3 --+
    writer             +-- begin, write 1, commit ---+                                       +-- ...

**Why that is right.**
1. Members of a batch are judged in order against one `Draft`, each seeing those before it. So the
   batch is equivalent to its members run one by one.
2. A draft touches the view only after its commit returned. So a failed write leaves memory as it
   was, and every answer, also False, speaks of durable state: later transactions were not judged
   yet. Whether a failed commit reached the disk is unknown; its keys are *suspect* and are
   written anew, as the view has them, along with the next batch.
3. A transaction that needs no disk (its keys live on a lease) skips the queue only if it shares no
   key, checked or changed, with one that is queued or being written. So for each key the order
   of the calls is kept, and two transactions that pass each other could not have noticed.

Tested by the contract suite, by a random machine against a dict, and by killing the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from warren.metadata.backlog import Backlog, Submission
from warren.metadata.directory_lock import DirectoryLock
from warren.metadata.leases import LeaseBook
from warren.metadata.sqlite_file import MetadataFile
from warren.metadata.store import (
    CancelWatch,
    Check,
    Lease,
    MetadataUnavailable,
    Operation,
    Record,
    WatchCallback,
)
from warren.metadata.view import Draft, Effects, Transaction, View
from warren.metadata.watchers import OnFault, Watchers, tell_loop

# Callers beyond this many wait outside, before their transaction takes a place in the queue.
SUBMISSIONS_MAX: Final = 4_096


class SqliteStore:
    """Implements `store.MetadataStore` in one file; see there for the contract.

    `on_fault` hears of a watcher that failed.
    """

    def __init__(self, path: Path, on_fault: OnFault = tell_loop) -> None:
        self._lock = DirectoryLock(path.parent)
        self._file = MetadataFile(path)
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata")
        self._view = View()
        self._watchers = Watchers(on_fault)
        self._backlog = Backlog()
        self._room = asyncio.Semaphore(SUBMISSIONS_MAX)
        self._submissions = 0
        self._committer: asyncio.Task[None] | None = None
        self._expiring: set[asyncio.Task[None]] = set()
        # Keys that a failed commit may have left in the file with values nobody was promised.
        self._suspects: set[str] = set()
        # Set while open.
        self._leases: LeaseBook | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._lock.acquire()
        try:
            records, revision = await loop.run_in_executor(self._writer, self._file.open)
        except BaseException:
            self._let_go()
            raise
        self._view = View(records, revision)
        self._leases = LeaseBook(loop, self._on_lease_expiry)

    async def close(self) -> None:
        if self._leases is None:
            return
        self._leases.stop()
        self._leases = None
        for _ in range(SUBMISSIONS_MAX):  # first come, first served: behind everyone inside
            await self._room.acquire()
        if self._committer is not None:
            await self._committer
        try:
            if self._suspects:
                await self._write(*Draft(self._view).rows_of(self._suspects))
        finally:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._file.close)
            self._let_go()

    @property
    def submissions(self) -> int:
        """How many transactions have a place in the queue or are being written."""
        return self._submissions

    async def get(self, key: str) -> Record | None:
        return self._view.get(key)

    async def range(self, prefix: str) -> list[Record]:
        return self._view.range(prefix)

    async def transact(self, checks: Sequence[Check], changes: Sequence[Operation]) -> bool:
        transaction = Transaction.of(checks, changes)
        leases = self._require_open()
        for lease in transaction.leases:
            leases.require(lease)
        if self._view.needs_disk(transaction) or not self._backlog.is_free(transaction.keys):
            return await self._submit(transaction)
        effects = Draft(self._view).judge(transaction)
        self._apply(effects or [])
        return effects is not None

    def watch(self, callback: WatchCallback) -> CancelWatch:
        return self._watchers.add(callback)

    async def grant_lease(self, ttl_s: float) -> Lease:
        return self._require_open().grant(ttl_s)

    async def keep_alive(self, lease: Lease) -> None:
        self._require_open().keep_alive(lease)

    async def revoke(self, lease: Lease) -> None:
        if not self._require_open().end(lease):
            return
        if self._backlog.is_idle:
            self._apply(self._ending_of(lease))
        else:
            await self._submit(lease)

    def _require_open(self) -> LeaseBook:
        if self._leases is None:
            raise MetadataUnavailable(f"{self._file.path} is not open")
        return self._leases

    def _on_lease_expiry(self, lease: Lease) -> None:
        task = asyncio.get_running_loop().create_task(self._expire(lease))
        self._expiring.add(task)
        task.add_done_callback(self._expiring.discard)

    async def _expire(self, lease: Lease) -> None:
        with suppress(MetadataUnavailable):  # closed meanwhile, and the keys gone with the view
            await self.revoke(lease)

    def _ending_of(self, lease: Lease) -> Effects:
        return [(key, None) for key in self._view.keys_of_lease(lease.id)]

    async def _submit(self, work: Transaction | Lease) -> bool:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        submission = Submission(work, answer)
        self._backlog.hold(submission)
        try:
            await self._room.acquire()
        except asyncio.CancelledError:
            self._backlog.release(submission)
            raise
        self._submissions += 1
        self._backlog.append(submission)
        self._wake_committer()
        try:
            return await answer
        finally:
            self._submissions -= 1
            self._room.release()

    def _wake_committer(self) -> None:
        """A task and not a call, so that all who submit in this turn of the loop share a batch."""
        if self._committer is None:
            self._committer = asyncio.get_running_loop().create_task(self._commit_waiting())

    async def _commit_waiting(self) -> None:
        try:
            while self._backlog:
                await self._commit_batch(self._backlog.pop_batch())
        finally:
            self._committer = None
            while self._backlog:  # only if stopped or broken: nobody may wait for ever
                self._settle(self._backlog.pop_batch(), self._stopped())

    async def _commit_batch(self, batch: list[Submission]) -> None:
        draft = Draft(self._view)
        for submission in batch:
            if isinstance(submission.work, Lease):
                submission.effects = self._ending_of(submission.work)
            else:
                submission.effects = draft.judge(submission.work)
        failure: MetadataUnavailable | None = self._stopped()
        try:
            await self._write(*draft.disk_work(self._suspects))
            failure = None
        except MetadataUnavailable as error:
            failure = error
        finally:
            self._settle(batch, failure)

    async def _write(self, puts: list[Record], deletes: list[str]) -> None:
        if not puts and not deletes:
            return
        self._suspects.update(deletes, (record.key for record in puts))
        loop, revision = asyncio.get_running_loop(), self._view.revision
        await loop.run_in_executor(self._writer, self._file.write, puts, deletes, revision)
        self._suspects.clear()

    def _settle(self, batch: list[Submission], failure: MetadataUnavailable | None) -> None:
        for submission in batch:
            self._backlog.release(submission)
            if failure is None:
                self._apply(submission.effects or [])
            if submission.answer.done():
                continue  # the caller was cancelled; what was decided stands
            if failure is None:
                submission.answer.set_result(submission.effects is not None)
            else:
                submission.answer.set_exception(MetadataUnavailable(str(failure)))

    def _stopped(self) -> MetadataUnavailable:
        return MetadataUnavailable(f"the writer of {self._file.path} was stopped")

    def _apply(self, effects: Effects) -> None:
        if not effects:
            return
        for key, entry in effects:
            self._view.store(key, entry)
        self._watchers.tell(effects)

    def _let_go(self) -> None:
        self._writer.shutdown(wait=False)
        self._lock.release()
