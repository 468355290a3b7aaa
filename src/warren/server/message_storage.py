"""The message storage of a node: one `VhostStorage` for each virtual host, opened and closed.

Beside it, a `StreamStore` for the virtual host's streams.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from warren.flow.credit import Credit
from warren.flow.states import Stage
from warren.model.logs import EventLog
from warren.server.data_directory import NO_ROOM, DataDirectoryError, advice
from warren.server.workers import LoopWorkers
from warren.storage.bodies.record_format import NewerStoreFormat
from warren.storage.bodies.store_counters import StorageCounts
from warren.storage.disk.committer import Committer, make_committer
from warren.storage.disk.credits import (
    INDEX_BYTES_MAX,
    JOURNAL_BYTES_MAX,
    PAGING_BYTES_MAX,
    STORE_BYTES_MAX,
    fitting,
    index_credit,
    journal_credit,
    paging_credit,
    store_credit,
)
from warren.storage.disk.files import Disk, RealDisk
from warren.storage.disk.layout import vhost_directory
from warren.storage.disk.sizes import DEFAULT_SIZES, StorageSizes
from warren.storage.index.completeness import FilesMissing
from warren.storage.index.index_format import NewerFormat
from warren.storage.index.index_host import IndexHost
from warren.storage.vhost_storage import VhostStorage
from warren.streams.host import StreamHost
from warren.streams.store import StreamStore

CLOSE_S_MAX: Final = 10.0
PROGRESS_S: Final = 2.0

_log: Final = EventLog("storage")


class MessageStorage:
    def __init__(
        self,
        data_directory: Path,
        disk: Disk | None = None,
        sizes: StorageSizes = DEFAULT_SIZES,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._data_directory = data_directory
        self._disk = disk or RealDisk()
        self._sizes = sizes
        self._workers = LoopWorkers()
        self.journal_credit = journal_credit()
        self.store_credit = store_credit()
        self.index_credit = index_credit()
        self.paging_credit = paging_credit()
        self._committers: dict[str, Committer] = {}
        self._last_error: int | None = None
        self._opening: dict[str, asyncio.Future[None]] = {}
        self._is_closing = False
        self.vhosts: dict[str, VhostStorage] = {}
        self.streams: dict[str, StreamStore] = {}
        # Told when the disk does not take what is written.
        self.on_failure: Callable[[OSError], None] | None = None

    def report_faults(self, on_fault: Callable[[BaseException], None]) -> None:
        """Have it told when a task of the storage ends by a fault that is not the disk's."""
        self._workers.on_fault = on_fault

    @property
    def credits(self) -> tuple[Credit, ...]:
        """Who overdraws one of these has to wait."""
        return (self.journal_credit, self.store_credit, self.index_credit, self.paging_credit)

    def fit_credits(self, memory_limit_bytes: int) -> None:
        """Whatever the limit is, what waits for the disk must not take much of it."""
        self.journal_credit.resize(fitting(JOURNAL_BYTES_MAX, memory_limit_bytes))
        self.store_credit.resize(fitting(STORE_BYTES_MAX, memory_limit_bytes))
        self.index_credit.resize(fitting(INDEX_BYTES_MAX, memory_limit_bytes))
        self.paging_credit.resize(fitting(PAGING_BYTES_MAX, memory_limit_bytes))

    @property
    def is_full(self) -> bool:
        """Whether nothing can be written for want of room."""
        is_failing = any(storage.index.is_failing for storage in self.vhosts.values())
        is_failing = is_failing or any(each.is_failing for each in self.streams.values())
        return is_failing and self._last_error in NO_ROOM

    def counts(self) -> StorageCounts:
        total = StorageCounts()
        for storage in self.vhosts.values():
            total.add(storage.counts())
        return total

    def mark_storing_queues(self, now_ms: int) -> None:
        """Show queues with bodies on their way to the message store as in flow, for a while."""
        for storage in self.vhosts.values():
            for backing in storage.backings.values():
                index, flow = backing.index, backing.flow
                is_storing = index and (index.stored_weight or index.writing_stored_weight)
                if is_storing and not flow.is_held:
                    flow.hold(Stage.STORE)
                    flow.release(now_ms)

    def is_missing(self, vhost: str) -> bool:
        """Whether there is no sign of a virtual host on the disk; asked before it is opened."""
        return not vhost_directory(self._data_directory, vhost).exists()

    def refuse(self, vhost: str, durable_queues: int) -> NoReturn:
        """It is missing, and should not be."""
        path = vhost_directory(self._data_directory, vhost)
        raise DataDirectoryError(
            f"the messages of virtual host '{vhost}', which has {durable_queues} durable queues, "
            f"are missing: there is no {path}; copy it to its place, or, to start without "
            "messages, make that directory, empty"
        )

    async def open(self, vhost: str) -> None:
        """Find what a virtual host has on disk, or make room for it; once, however often asked."""
        if vhost in self.vhosts or self._is_closing:
            return
        opening = self._opening.get(vhost)
        if opening is None:
            opening = asyncio.ensure_future(self._open(vhost))
            self._opening[vhost] = opening
        try:
            await opening
        finally:
            self._opening.pop(vhost, None)

    async def forget_unclaimed(self) -> None:
        for vhost, storage in tuple(self.vhosts.items()):
            count = await storage.forget_unclaimed()
            count += await self.streams[vhost].forget_unclaimed()
            if count:
                _log.warning("messages of unknown queues deleted", vhost=vhost, queues=count)

    async def close(self) -> None:
        """A cluster may make another virtual host meanwhile: nothing is opened any more."""
        self._is_closing = True
        if self._opening:
            await asyncio.wait([*self._opening.values()])
        for vhost, storage in self.vhosts.items():
            try:
                async with asyncio.timeout(CLOSE_S_MAX):
                    await storage.close()
                    await self.streams[vhost].close()
            except TimeoutError:
                # What was confirmed is safe all the same; the next start takes a little longer.
                _log.error("storage could not be closed cleanly", vhost=vhost, after_s=CLOSE_S_MAX)
            await self._committers[vhost].close()
        self.vhosts.clear()
        self.streams.clear()
        self._workers.close()

    async def _open(self, vhost: str) -> None:
        committer = make_committer(self._disk, self._loop)
        host = IndexHost(
            disk=self._disk,
            committer=committer,
            workers=self._workers,
            call_soon=self._loop.call_soon,
            new_promise=self._loop.create_future,
            random_bits=secrets.randbits,
            credit=self.index_credit,
            journal_credit=self.journal_credit,
            store_credit=self.store_credit,
            paging_credit=self.paging_credit,
            call_later=self._loop.call_later,
        )
        storage = VhostStorage(self._data_directory, vhost, host, self._sizes)
        storage.index.on_failure = self._failed
        streams = self._stream_store(vhost)
        began = self._loop.time()
        progress = asyncio.ensure_future(_report_progress(storage))
        try:
            await self._recover(storage, streams)
        except DataDirectoryError:
            await committer.close()
            raise
        finally:
            progress.cancel()
        _report_end(storage, self._loop.time() - began)
        self._committers[vhost] = committer
        self.streams[vhost] = streams
        self.vhosts[vhost] = storage

    def _stream_store(self, vhost: str) -> StreamStore:
        host = StreamHost(
            disk=self._disk,
            workers=self._workers,
            call_soon=self._loop.call_soon,
            now_ms=lambda: time.time_ns() // 1_000_000,
            credit=self.store_credit,
            make_committer=lambda: make_committer(self._disk, self._loop),
            on_failure=self._failed,
        )
        return StreamStore(self._data_directory, vhost, host)

    async def _recover(self, storage: VhostStorage, streams: StreamStore) -> None:
        try:
            await streams.open()
            await storage.open()
        except (NewerFormat, NewerStoreFormat) as error:
            raise DataDirectoryError(
                f"{error}; start the version that wrote it, or choose another with --data-dir"
            ) from error
        except FilesMissing as error:
            raise DataDirectoryError(str(error)) from error
        except OSError as error:
            raise DataDirectoryError(
                f"cannot use the messages in {self._data_directory / 'msg_stores'}: {error}; "
                f"{advice(error)}"
            ) from error

    def _failed(self, error: OSError) -> None:
        self._last_error = error.errno
        if self.on_failure is not None:
            self.on_failure(error)


async def _report_progress(storage: VhostStorage) -> None:
    """A start that takes long says what it is at."""
    while True:
        await asyncio.sleep(PROGRESS_S)
        found = storage.index.findings
        _log.info(
            "recovering messages",
            vhost=storage.index.layout.vhost,
            reading=found.phase,
            segments=f"{found.segments_read}/{found.segments_total}",
            journal_files=f"{found.journal_files}/{found.journal_files_total}",
            records=found.records,
        )


def _report_end(storage: VhostStorage, took_s: float) -> None:
    queues = storage.recovered_queues
    if queues:
        found = storage.index.findings
        _log.info(
            "messages recovered",
            vhost=storage.index.layout.vhost,
            after="a clean stop" if found.is_clean else "a crash",
            queues=len(queues),
            messages=sum(queue.count for queue in queues),
            damaged=found.damaged_stretches,
            lost=found.lost_bodies,
            took_ms=round(took_s * 1000),
        )
