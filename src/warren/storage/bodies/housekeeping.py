"""What a store does beside its work, in a thread: one round at a time, when there is a reason.

Spare files are made, full ones closed, failed ones cut, dead ones deleted. `wake` is called
whenever something may have changed, and is cheap if nothing has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from warren.model.logs import EventLog
from warren.storage.bodies.file_table import FileTable
from warren.storage.bodies.store_counters import StoreCounters
from warren.storage.bodies.store_files import StoreDirectory, StoreFile
from warren.storage.disk.workers import Workers

SPARES: Final = 2

_log = EventLog("storage")


class Housekeeping:
    def __init__(
        self,
        directory: StoreDirectory,
        table: FileTable,
        workers: Workers,
        counters: StoreCounters,
    ) -> None:
        self._directory = directory
        self._table = table
        self._workers = workers
        self._counters = counters
        self._round: Awaitable[None] | None = None
        self._cuts: list[tuple[StoreFile, int]] = []
        self._full: list[StoreFile] = []
        self._is_closing = False
        self._is_complaining = False

    def wake(self) -> None:
        if self._round is None and not self._is_closing and self._has_work():
            self._round = self._workers.spawn(self._work())

    def finished(self, file: StoreFile) -> None:
        """Nothing is being appended to it, and nothing will be."""
        self._full.append(file)

    def cut(self, file: StoreFile, size: int) -> None:
        """A batch failed: take away what it may have left."""
        self._cuts.append((file, size))

    async def new_file(self) -> StoreFile:
        """A spare one if there is any; raises OSError."""
        if self._table.spares:
            return self._table.spares.popleft()
        return await self._create()

    async def make_spares(self) -> None:
        """Raises OSError."""
        while len(self._table.spares) < SPARES and not self._is_closing:
            file = await self._create()
            self._table.spares.append(file)

    async def close(self) -> None:
        self._is_closing = True
        if self._round is not None:
            await self._round
        table = self._table
        table.doomed += table.spares
        table.spares.clear()
        self._full += [file for file in table.files.values() if file.descriptor >= 0]
        await self._workers.run_in_thread(self._chores())

    async def abandon(self) -> None:
        """Close what is open; nothing is deleted."""
        self._is_closing = True
        files = [*self._table.files.values(), *self._table.spares]
        await self._workers.run_in_thread(partial(self._tidy, [], files, []))

    def _has_work(self) -> bool:
        table = self._table
        return bool(
            self._cuts
            or self._full
            or len(table.spares) < SPARES
            or any(file.users == 0 for file in table.doomed)
        )

    async def _work(self) -> None:
        try:
            while not self._is_closing and self._has_work():
                await self._workers.run_in_thread(self._chores())
                await self.make_spares()
            self._is_complaining = False
        except OSError as error:
            if not self._is_complaining:
                _log.warning(
                    "message store cannot create a file", path=self._directory.path, error=error
                )
            self._is_complaining = True
        finally:
            self._round = None

    def _chores(self) -> partial[None]:
        """What is to be done now, to be called in a thread."""
        table = self._table
        dead = [file for file in table.doomed if file.users == 0]
        table.doomed = [file for file in table.doomed if file.users]
        cuts, self._cuts = self._cuts, []
        full, self._full = self._full, []
        return partial(self._tidy, cuts, full, dead)

    def _tidy(
        self, cuts: list[tuple[StoreFile, int]], full: list[StoreFile], dead: list[StoreFile]
    ) -> None:
        for file, size in cuts:
            with self._told("truncate", file):
                self._directory.cut(file.number, size)
        for file in full:
            with self._told("close", file):
                self._directory.close(file)
        for file in dead:
            with self._told("delete", file):
                self._directory.remove(file)
                self._counters.files_deleted += 1

    @contextmanager
    def _told(self, operation: str, file: StoreFile) -> Iterator[None]:
        """Log an OSError and go on: recovery repairs what is left behind."""
        try:
            yield
        except OSError as error:
            path = self._directory.file(file.number)
            _log.warning(
                "message store file operation failed", operation=operation, path=path, error=error
            )

    async def _create(self) -> StoreFile:
        number = self._table.new_number()
        self._table.in_making[number] = StoreFile(number)
        try:
            return await self._workers.run_in_thread(partial(self._directory.create, number))
        finally:
            del self._table.in_making[number]
