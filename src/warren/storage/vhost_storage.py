"""All that a virtual host keeps on disk for its queues: the index and two message stores.

Queues know a `VariableQueue` each, and nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from warren.storage.bodies.message_store import MessageStore
from warren.storage.bodies.store_counters import StorageCounts
from warren.storage.disk.layout import IndexLayout, vhost_directory
from warren.storage.disk.sizes import DEFAULT_SIZES, StorageSizes
from warren.storage.index.adoption import merge_runs
from warren.storage.index.index import IndexStore, RecoveredQueue
from warren.storage.index.index_host import IndexHost
from warren.storage.index.index_records import EMBEDDED
from warren.storage.index.queue_index import QueueIndex
from warren.storage.index.segment_entry import embedded_of, messages_of
from warren.storage.index.states import TRANSIENT_FILE_MIN
from warren.storage.queue.browsing import Browser
from warren.storage.queue.variable_queue import VariableQueue
from warren.wire.codec import Message, QueuedMessage

_SALT_BITS: Final = 32
LEVEL_SEPARATOR: Final = "\0"
"""Between a queue and one of its priorities, in names of the index."""


class VhostStorage:
    def __init__(
        self, data_directory: Path, vhost: str, host: IndexHost, sizes: StorageSizes = DEFAULT_SIZES
    ) -> None:
        directory = vhost_directory(data_directory, vhost)
        salt = host.random_bits(_SALT_BITS)
        self._host = host
        self.credit = host.paging_credit
        self.call_soon = host.call_soon
        self._bodies = MessageStore(
            directory / "msg_store_persistent", host.disk, host.workers, salt=salt
        )
        self._transient_bodies = MessageStore(
            directory / "msg_store_transient",
            host.disk,
            host.workers,
            is_transient=True,
            salt=salt,
        )
        layout = IndexLayout(directory, vhost)
        self.index = IndexStore(layout, host, self._bodies, self._transient_bodies)
        self._bodies.file_bytes = self._transient_bodies.file_bytes = sizes.store_file
        self.index.embed_below = sizes.embed_below
        self.index.journal_file_bytes = sizes.journal_file
        self._browser = Browser(self.index, self._bodies, self._transient_bodies)
        self._recovered: dict[str, RecoveredQueue] = {}
        self._recovered_levels: dict[str, list[int]] = {}
        self.backings: dict[str, VariableQueue] = {}
        """By name, those of a priority queue one by one."""
        self.lazy: set[VariableQueue] = set()

    async def open(self) -> None:
        """Find what is there. Raises NewerFormat, FilesMissing and OSError; then all is closed."""
        try:
            recovered = await self.index.open()
        except BaseException:
            await self.index.abandon()
            await self._bodies.abandon()
            await self._transient_bodies.abandon()
            raise
        self._recovered = {queue.name: queue for queue in recovered}
        for name in self._recovered:
            queue, separator, priority = name.rpartition(LEVEL_SEPARATOR)
            if separator and priority.isdecimal():  # else a queue has such a name itself
                self._recovered_levels.setdefault(queue, []).append(int(priority))

    def backing(self, name: str, is_durable: bool) -> VariableQueue:
        """For a queue, or one priority of it; with what it had before the start, if it had."""
        backing = VariableQueue(lambda: self.index.queue(name), is_durable, self)
        backing.on_deleted = lambda: self._delete(name)
        recovered = self._recovered.pop(name, None)
        if recovered is not None:
            _restore(backing, recovered)
        self.backings[name] = backing
        return backing

    def used_below(self, name: str) -> int:
        """Before it is asked for: above all numbers that a queue, or priority, ever had here."""
        recovered = self._recovered.get(name)
        return 0 if recovered is None else recovered.used_below

    def used_from(self, name: str) -> int:
        """Before it is asked for: the disk has no trace of lower numbers of the queue."""
        recovered = self._recovered.get(name)
        return 0 if recovered is None else recovered.used_from

    @property
    def recovered_queues(self) -> list[RecoveredQueue]:
        """What was found at the start and has not been asked for yet."""
        return list(self._recovered.values())

    async def forget_unclaimed(self) -> int:
        """After all queues were made: delete what belongs to none of them; says how many."""
        unclaimed, self._recovered, self._recovered_levels = list(self._recovered), {}, {}
        for name in unclaimed:
            await self.index.delete_queue(name)
        return len(unclaimed)

    def counts(self) -> StorageCounts:
        stores = self._bodies.counters, self._transient_bodies.counters
        return StorageCounts(
            messages_read=self.index.messages_read,
            messages_written=self.index.messages_written,
            store_reads=sum(counters.records_read for counters in stores),
            store_writes=sum(counters.records_written for counters in stores),
            commits=self.index.commits,
            bytes_written=self.index.bytes_written + sum(c.bytes_written for c in stores),
        )

    async def close(self) -> None:
        for backing in self.backings.values():
            backing.discarding.finish()
        delivered = {name: backing.delivered_runs() for name, backing in self.backings.items()}
        await self.index.close({name: runs for name, runs in delivered.items() if runs})
        await self._bodies.close()
        await self._transient_bodies.close()

    def _delete(self, name: str) -> None:
        backing = self.backings.pop(name, None)
        if backing is not None:
            self.lazy.discard(backing)
        self.index.drop_queue(name)

    def recovered_levels(self, name: str) -> list[int]:
        """Priorities of which a queue had messages before the start."""
        levels = self._recovered_levels.get(name, ())
        return [level for level in levels if level_name(name, level) in self._recovered]

    def read(
        self,
        index: QueueIndex,
        span: tuple[int, int],
        bytes_max: int,
        done: Callable[[list[QueuedMessage]], None],
    ) -> None:
        self.index.read(index, span, bytes_max, done)

    async def browse(
        self, index: QueueIndex, span: tuple[int, int], window: tuple[int, int], bytes_max: int
    ) -> list[QueuedMessage]:
        return await self._browser.read(index, span, window, bytes_max)

    async def fill(self, index: QueueIndex, entries: list[QueuedMessage]) -> None:
        await self._browser.fill(index, entries, lambda queued: True)

    def note_delivered(self, index: QueueIndex, runs: list[tuple[int, int]]) -> None:
        index.delivered = merge_runs(index, runs)

    def mode_changed(self, queue: VariableQueue, is_lazy: bool) -> None:
        if is_lazy:
            self.lazy.add(queue)
        else:
            self.lazy.discard(queue)

    def scatter_soon(self) -> None:
        """If it is worth it."""
        self.index.scatter_soon()

    def scatter_now(self) -> None:
        self.index.want_checkpoint()

    def read_bodies(
        self,
        index: QueueIndex,
        entries: list[QueuedMessage],
        done: Callable[[list[Message | None]], None],
    ) -> None:
        def have(messages: list[Message | None]) -> None:
            self.index.count_read(index, len(messages) - messages.count(None))
            done(messages)

        self._host.workers.spawn(self._read_bodies(index, entries, have))

    async def _read_bodies(
        self,
        index: QueueIndex,
        entries: list[QueuedMessage],
        done: Callable[[list[Message | None]], None],
    ) -> None:
        """Tell `done` of all at once: nobody sees a queue of which some have come. Store and index
        have reported what is lost."""
        embedded = embedded_of(entries)
        stored: dict[int, Message] | None = {}
        if len(embedded) < len(entries):
            # First: a compaction moves bodies of a store, while segments are never rewritten.
            stored = await self._read_stored(entries)
        found = await self.index.read_messages(index, embedded) if embedded else {}
        if found is None or stored is None:  # the queue or the node is going
            return
        found.update(stored)
        done(messages_of(entries, found))

    async def _read_stored(self, entries: list[QueuedMessage]) -> dict[int, Message] | None:
        """Messages that stores have, by sequence number; None at the end of a stop."""
        messages: dict[int, Message] = {}
        for store, is_transient in ((self._bodies, False), (self._transient_bodies, True)):
            mine = [
                queued
                for queued in entries
                if queued.store_file != EMBEDDED
                and (queued.store_file >= TRANSIENT_FILE_MIN) is is_transient
            ]
            if not mine:
                continue
            locations = [(q.store_file, q.store_offset, q.size) for q in mine]
            try:
                read = await store.read_many(locations)
            except OSError:
                return None
            for queued, found in zip(mine, read, strict=True):
                if isinstance(found, Message):
                    messages[queued.sequence] = found
        return messages


def level_name(queue: str, priority: object) -> str:
    """What the index calls one priority of a queue."""
    return f"{queue}{LEVEL_SEPARATOR}{priority}"


def _restore(backing: VariableQueue, recovered: RecoveredQueue) -> None:
    segments = recovered.segments
    if segments:
        count = sum(segment.count for segment in segments)
        body_bytes = sum(segment.body_bytes for segment in segments)
        # The newest segment ends somewhere; what the journal has comes after that.
        newer = [queued.sequence for queued in recovered.journaled[:1]]
        end = min([segments[-1].end, *newer])
        backing.recover(segments[0].start, end, count, body_bytes)
    backing.recover_recent(recovered.journaled, recovered.next_sequence)
