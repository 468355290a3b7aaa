"""Drives compactions: chooses, copies portion by portion with pauses, installs; one at a time."""

from __future__ import annotations

import errno
from collections.abc import Awaitable
from functools import partial
from typing import Final

from warren.model.logs import EventLog
from warren.storage.bodies.compaction import Compaction, choose
from warren.storage.bodies.file_table import FileTable
from warren.storage.bodies.housekeeping import Housekeeping
from warren.storage.bodies.store_counters import StoreCounters
from warren.storage.bodies.store_files import StoreDirectory, StoreFile
from warren.storage.disk.workers import Workers

BYTES_PER_SECOND: Final = 128 * 1_048_576
"""What compaction may copy; clients have the rest of what the disk can do."""

_log = EventLog("storage")


class Compactor:
    def __init__(
        self,
        directory: StoreDirectory,
        table: FileTable,
        workers: Workers,
        housekeeping: Housekeeping,
        counters: StoreCounters,
    ) -> None:
        self.file_bytes = 0
        self._directory = directory
        self._table = table
        self._workers = workers
        self._housekeeping = housekeeping
        self._counters = counters
        self._work: Awaitable[None] | None = None
        self._is_closing = False
        self._is_out_of_space = False

    def wake(self) -> None:
        table = self._table
        if self._work is not None or self._is_closing or self._is_out_of_space:
            return
        if table.wants_compaction:
            table.wants_compaction = False
            if choose(table.files.values(), self.file_bytes):
                self._work = self._workers.spawn(self._compact_all())

    def space_came_back(self) -> None:
        if self._is_out_of_space:
            self._is_out_of_space = False
            self._table.wants_compaction = True

    async def close(self) -> None:
        self._is_closing = True
        if self._work is not None:
            await self._work

    async def _compact_all(self) -> None:
        try:
            while not self._is_closing and not self._is_out_of_space:
                files = choose(self._table.files.values(), self.file_bytes)
                if not files:
                    break
                await self._compact(files)
                self._housekeeping.wake()
        finally:
            self._work = None

    async def _compact(self, files: list[StoreFile]) -> None:
        path = self._directory.path
        _log.debug("compaction started", path=path, files=len(files))
        for file in files:
            file.users += 1
        run = Compaction(self._directory, files)
        output: StoreFile | None = None
        try:
            await self._workers.run_in_thread(run.measure)
            run.drop_the_full(self.file_bytes)
            if run.sources:
                output = await self._housekeeping.new_file()
                self._table.files[output.number] = output
                if await self._copy(run, output):
                    installed, output = output, None
                    await self._install(run, installed)
        except OSError as error:
            self._failed(files, error)
        finally:
            for file in files:
                file.users -= 1
            if output is not None:
                self._table.discard(output)
            _log.debug("compaction finished", path=path)

    async def _copy(self, run: Compaction, output: StoreFile) -> bool:
        """Whether it was finished: closing comes first."""
        portions = run.copy(output)
        while (
            size := await self._workers.run_in_thread(partial(next, portions, None))
        ) is not None:
            self._counters.bytes_compacted += size
            await self._workers.pause(size / BYTES_PER_SECOND)
            if self._is_closing:
                portions.close()
                return False
        await self._workers.run_in_thread(partial(run.sync, output))
        return True

    async def _install(self, run: Compaction, output: StoreFile) -> None:
        for source in run.sources:
            run.install(source, output, self._table.forwarding)
            if source.file.number in self._table.files:
                self._table.retire(source.file)
            await self._workers.pause(0)
        self._table.seal(output)
        self._housekeeping.finished(output)
        self._counters.compactions += 1
        self._counters.records_corrupt += len(run.corrupt)
        for corrupt in run.corrupt:
            _log.error("message store damaged", path=self._directory.path, problem=corrupt)

    def _failed(self, files: list[StoreFile], error: OSError) -> None:
        """Nothing is lost; without room wait until there is some, else leave these files alone."""
        _log.warning("compaction failed", path=self._directory.path, error=error)
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            self._is_out_of_space = True
        else:
            for file in files:
                file.is_unreadable = True
