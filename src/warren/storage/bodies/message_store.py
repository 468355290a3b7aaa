"""The message store: bodies too large for the index, once each however many queues have them.

There are two per virtual host: a persistent one, whose records outlive the process, and a transient
one for messages that merely do not fit in memory, wiped at every start.

    write, cancel ->  WriteBuffer  -> take_writes -> commit batch of the index -> batch_done
    died          ->  StoreFile    -> dead files are deleted, half dead ones compacted
    read          ->  the batch in flight, or a thread

**Order.** The index takes the store's writes first and then encodes its own entries, which hold the
locations. Both go in one batch; neither is safe before the other, and a body without an entry is
found and dropped by recovery. An entry without a body is the index's to drop (`seen`).

**Deletion.** Garbage is made by acknowledgements. Until these are safe, a power cut would bring the
messages back, so a dead file is deleted only when the batch that was being gathered when it died
is done. `take_writes` is therefore called for every batch, also for those that only have acks.

**Failure.** If a batch fails, all files it touched are left as they were before it, and never
appended to again: after a failed sync nobody knows what is in them. The messages of the batch are
in no file; whoever has them writes them again, or says no to the publisher.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from warren.model.logs import EventLog
from warren.storage.bodies.compactor import Compactor
from warren.storage.bodies.file_table import PATIENCE_FILES, FileTable
from warren.storage.bodies.housekeeping import Housekeeping
from warren.storage.bodies.record_format import CorruptRecord
from warren.storage.bodies.store_counters import StoreCounters
from warren.storage.bodies.store_files import FILE_BYTES, StoreDirectory, StoreFile
from warren.storage.bodies.store_reading import Location, ReadWindow
from warren.storage.bodies.store_recovery import Recovery
from warren.storage.bodies.store_state import StoreState, UnreadableState, decode_state
from warren.storage.bodies.store_survey import Survey, survey, survey_transient, tidy
from warren.storage.bodies.write_buffer import WriteBuffer
from warren.storage.disk.files import Buffer, Disk
from warren.storage.disk.read_retry import ReadRetry
from warren.storage.disk.workers import Workers
from warren.wire.codec import Message, QueuedMessage

Writes: TypeAlias = list[tuple[int, Sequence[Buffer]]]

_log = EventLog("storage")


class MessageStore:
    """One per virtual host and kind. Everything but what is `async` is called on the loop."""

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        workers: Workers,
        *,
        is_transient: bool = False,
        salt: int = 0,
    ) -> None:
        """`salt` is any number that clients cannot guess (see record_format.py)."""
        self.counters: Final = StoreCounters()
        self.is_transient: Final = is_transient
        self.file_bytes = FILE_BYTES
        self._directory = StoreDirectory(directory, disk, is_transient, salt)
        self._workers = workers
        self._buffer = WriteBuffer()
        self._table = FileTable(is_transient)
        self._housekeeping = Housekeeping(self._directory, self._table, workers, self.counters)
        self._compactor = Compactor(
            self._directory, self._table, workers, self._housekeeping, self.counters
        )
        self._patience = ReadRetry(workers)
        self._recovery: Recovery | None = None

    # Opening: open, then seen and died for what the journal tells, then recovered.

    async def open(self, state: bytes | None = None) -> None:
        """`state` is what `checkpoint_state` gave; without it every file is walked.

        Nothing is changed yet. Raises NewerStoreFormat, and OSError.
        """
        self._compactor.file_bytes = self.file_bytes
        if self.is_transient:
            found = await self._workers.run_in_thread(partial(survey_transient, self._directory))
        else:
            known = None if state is None else self._decode(state)
            found = await self._workers.run_in_thread(partial(survey, self._directory, known))
        self._recovery = Recovery(found)

    def seen(self, file: int, offset: int) -> bool:
        """While recovering: a queue has an entry for this message. False: drop it, it is lost."""
        assert self._recovery is not None
        return self._recovery.seen(file, offset)

    def missed(self, file: int) -> None:
        """While recovering: a message is lost that was in this file."""
        assert self._recovery is not None
        self._recovery.missed(file)

    async def missing_files(self) -> list[Path]:
        """All entries and deaths are told: the files that should be there, for what is in them."""
        assert self._recovery is not None
        await self._workers.run_in_thread(self._recovery.finish)
        return [self._directory.file(number) for number in self._recovery.lost]

    async def recovered(self) -> None:
        """Go on with what there is; what nobody named is garbage. Only now files are changed."""
        recovery = self._recovery
        assert recovery is not None
        await self._workers.run_in_thread(recovery.finish)
        found = recovery.survey
        await self._workers.run_in_thread(partial(tidy, self._directory, found))
        self._recovery = None
        self._report(found)
        table = self._table
        table.files = found.files
        table.forwarding = found.forwarding
        table.next_number = found.next_number
        for file in [file for file in table.files.values() if file.is_dead]:
            table.discard(file)
        if not recovery.has_loose_ends:
            await self._resume(found.current)
        await self._housekeeping.make_spares()

    def begin_chores(self) -> None:
        """The node has started for good: from now on garbage may be deleted."""
        self._table.wants_compaction = True
        self._wake()

    # Writing.

    def write(self, queued: QueuedMessage) -> None:
        """Have it in the next batch. Queues that have the same Message share one record."""
        self._buffer.write(queued)

    def cancel(self, queued: QueuedMessage) -> bool:
        """It is not needed any more. True: it had no place yet, and never will; else it `died`."""
        return self._buffer.cancel(queued)

    @property
    def waiting_bytes(self) -> int:
        """Bodies that the next batch will write."""
        return self._buffer.waiting_bytes

    def take_writes(self) -> tuple[Writes, list[int]]:
        """What to write, and then to sync; every message of it has its location now.

        Raises OSError when there is no file to write to. Then nothing was taken.
        """
        table = self._table
        if not self._buffer.waiting:
            table.batch_taken()
            return [], []
        self._have_current()
        assert table.current is not None
        self._buffer.take(table.current, self.file_bytes, self._successor)
        table.batch_taken()
        if table.current.size >= self.file_bytes:
            self._successor(table.current)
        for stretch in self._buffer.stretches:
            stretch.file.users += 1
            stretch.file.is_being_written = True
        self._wake()
        writes: Writes = [(s.file.descriptor, s.pieces) for s in self._buffer.stretches]
        return writes, [] if self.is_transient else [descriptor for descriptor, _ in writes]

    def batch_done(self, error: OSError | None) -> None:
        """What was taken last is safe, or none of it is."""
        if error is not None:
            self._give_back()
        count = len(self._buffer.flight)
        for stretch in self._buffer.land():
            stretch.file.users -= 1
            stretch.file.is_being_written = False
            if error is None:
                self.counters.bytes_written += stretch.file.size - stretch.start
            if stretch.file.is_sealed:
                self._housekeeping.finished(stretch.file)
                self._table.wants_compaction = True
        if error is None:
            self.counters.records_written += count
            if count:
                self._compactor.space_came_back()
        self._table.batch_done(error is None)
        self._wake()

    def died(self, file: int, offset: int, size: int) -> None:
        """A queue has no use any more for the message there, whose body has `size` bytes."""
        if self._recovery is not None:
            self._recovery.died(file, offset, size)
            return
        self._table.bury(file, offset, size)
        if self._table.wants_compaction or self._table.doomed:
            self._wake()

    # Reading.

    async def read(self, file: int, offset: int, size: int) -> Message:
        """Raises CorruptRecord, and OSError."""
        (found,) = await self.read_many([(file, offset, size)])
        if isinstance(found, CorruptRecord):
            raise found
        return found

    async def read_many(self, locations: Sequence[Location]) -> list[Message | CorruptRecord]:
        """All of them, in order, by one visit to a thread.

        A disk that will not read is asked again, until it does (patience.py) or the store is
        closed: then this raises OSError.
        """
        window = ReadWindow(self._table, self._buffer, locations)
        if window.groups:
            try:
                read = partial(window.read, self._directory)
                if await self._patience.read(read, _always) is None:
                    raise OSError(errno.EIO, "the store is being closed")
            finally:
                window.release()
                if self._table.doomed:
                    self._wake()
        self.counters.records_read += len(locations)
        for message in window.found:
            if isinstance(message, CorruptRecord):
                self._corrupt(message)
        return window.found

    # Checkpoints, and the end.

    def checkpoint_state(self) -> bytes:
        """The store as of the batch taken last; true if that one is done well.

        To be called right after `take_writes`, before anything else has `died`: a replay of the
        journal begins where the state ends.
        """
        return self._table.to_state()

    async def close(self) -> None:
        """After the last batch is done."""
        assert not self._buffer.flight
        self._patience.end()
        await self._compactor.close()
        await self._housekeeping.close()

    async def abandon(self) -> None:
        """The node could not start: let go of the files, and leave them as they are."""
        self._patience.end()
        await self._housekeeping.abandon()

    # What is behind it.

    def _wake(self) -> None:
        if self._recovery is None:
            self._housekeeping.wake()
            self._compactor.wake()

    def _decode(self, state: bytes) -> StoreState | None:
        try:
            return decode_state(state)
        except UnreadableState as error:
            _log.error(
                "message store state cannot be used: reading every file",
                path=self._directory.path, error=error,
            )  # fmt: skip
            return None

    async def _resume(self, number: int) -> None:
        """Go on with the file of before, which nothing can have been appended to in vain."""
        table = self._table
        file = table.files.get(number)
        if file is None or file.size >= self.file_bytes:
            return
        path = self._directory.file(number)
        file.descriptor = await self._workers.run_in_thread(
            partial(self._directory.disk.open, path)
        )
        file.is_sealed = False
        table.current = file

    def _have_current(self) -> None:
        table = self._table
        if table.current is None:
            if table.spares:
                table.advance(table.spares.popleft())
            else:
                table.advance(self._directory.create(table.new_number()))

    def _successor(self, file: StoreFile) -> StoreFile:
        """The file to go on with when this one is full."""
        table = self._table
        if table.spares:
            table.advance(table.spares.popleft())
        elif file.size >= self.file_bytes * PATIENCE_FILES:
            with suppress(OSError):  # this one has room for more
                table.advance(self._directory.create(table.new_number()))
        assert table.current is not None
        return table.current

    def _give_back(self) -> None:
        """Nothing of the batch counts: its records are dead, its files closed as they were."""
        self.counters.batches_failed += 1
        table = self._table
        deaths = {s.file.number: Counter(s.file.deaths) for s in self._buffer.stretches}
        for number, offset, references, size in self._buffer.give_back():
            file = table.files.get(number)
            if file is not None:
                for _ in range(references - deaths[number][offset]):
                    file.bury(offset, size)
        for stretch in self._buffer.stretches:
            file = stretch.file
            file.size = stretch.start
            self._housekeeping.cut(file, stretch.start)
            if not file.is_sealed:
                table.seal(file)
            elif file.is_dead and file.number in table.files:
                table.die(file)

    def _report(self, found: Survey) -> None:
        self.counters.records_corrupt += found.corrupt
        for problem in found.problems:
            _log.error("message store damaged", path=self._directory.path, problem=problem)

    def _corrupt(self, corrupt: CorruptRecord) -> None:
        self.counters.records_corrupt += 1
        _log.error("message store damaged", path=self._directory.path, problem=corrupt)


def _always() -> bool:
    return True
