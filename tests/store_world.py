"""A message store with the smallest index that could use it: a journal in memory, and checkpoints.

The index writes down, per batch, which messages were published and acknowledged. What it has written
down survives a crash if its batch did; of the batch that the crash interrupted, any beginning may.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from warren.storage.disk import Disk, RealDisk, append_all
from warren.storage.message_store import MessageStore
from warren.storage.record_format import CorruptRecord
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

T = TypeVar("T")

FILE_BYTES: Final = 4_096
"""Small files make many."""


class StepWorkers:
    """Threads and tasks that run when the test says so, one after another."""

    def __init__(self) -> None:
        self.work: deque[Job] = deque()
        self.paused_s = 0.0

    async def run_in_thread(self, function: Callable[[], T]) -> T:
        return function()

    def spawn(self, work: Coroutine[object, object, None]) -> Awaitable[None]:
        self.work.append(Job(work))
        return self.work[-1]

    async def pause(self, seconds: float) -> None:
        self.paused_s += seconds

    def settle(self) -> None:
        while self.work:
            run(self.work[0].finish())
            self.work.popleft()


@dataclass(slots=True)
class Job:
    work: Coroutine[object, object, None]
    is_done: bool = False

    async def finish(self) -> None:
        if not self.is_done:
            self.is_done = True
            await self.work

    def __await__(self) -> Iterator[None]:
        return self.finish().__await__()


def run(work: Coroutine[object, object, T]) -> T:
    """Run what never has to wait."""
    try:
        work.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    raise AssertionError("it waits for something")


def make_message(body: bytes, key: bytes = b"\x00\x01q", properties: bytes = b"\0\0") -> Message:
    return Message(key, PropertyBlock(properties), body)


def make_queued(message: Message, sequence: int = 0) -> QueuedMessage:
    queued = QueuedMessage(message, sequence, 0)
    queued.size = len(message.body)
    return queued


@dataclass(frozen=True, slots=True)
class Entry:
    """One queue's hold on one message."""

    name: int
    body: bytes = field(repr=False)
    file: int
    offset: int

    @property
    def location(self) -> tuple[int, int, int]:
        return self.file, self.offset, len(self.body)


@dataclass(slots=True)
class Journal:
    """What survives of the index."""

    records: list[tuple[str, Entry]] = field(default_factory=list)
    state: bytes | None = None
    entries: dict[int, Entry] = field(default_factory=dict)  # at the checkpoint
    position: int = 0  # of the checkpoint in the records


class StoreWorld:
    def __init__(
        self,
        directory: Path,
        disk: Disk | None = None,
        journal: Journal | None = None,
        file_bytes: int = FILE_BYTES,
    ) -> None:
        self.directory = directory
        self.disk: Disk = RealDisk() if disk is None else disk
        self.workers = StepWorkers()
        self.journal = Journal() if journal is None else journal
        self.store = MessageStore(directory, self.disk, self.workers, salt=77)
        self.store.file_bytes = file_bytes
        self.entries: dict[int, Entry] = {}
        self.lost: dict[int, Entry] = {}  # named by the journal, and not there
        self.next_name = 0
        self.waiting: dict[int, QueuedMessage] = {}
        self.acks: list[Entry] = []
        self.interrupted: list[tuple[str, Entry]] = []

    def open(self) -> StoreWorld:
        journal = self.journal
        run(self.store.open(journal.state))
        replay = [("publish", entry) for entry in journal.entries.values()]
        self.entries = dict(journal.entries)
        self.lost = {}
        if journal.state is not None:
            replay = []
        for what, entry in replay + journal.records[journal.position :]:
            if what == "publish" and self.store.seen(entry.file, entry.offset):
                self.entries[entry.name] = entry
            elif what == "publish":
                self.lost[entry.name] = entry
            elif self.lost.pop(entry.name, None) is None:
                self.store.died(*entry.location)
                del self.entries[entry.name]
        run(self.store.recovered())
        names = [entry.name for _, entry in journal.records]
        self.next_name = max([*names, *journal.entries, -1]) + 1
        return self

    def publish(self, body: bytes, queues: int = 1) -> list[int]:
        message = make_message(body)
        return [self.publish_to_queue(message) for _ in range(queues)]

    def publish_to_queue(self, message: Message) -> int:
        name = self.next_name
        self.next_name += 1
        self.waiting[name] = make_queued(message, name)
        self.store.write(self.waiting[name])
        return name

    def ack(self, name: int) -> None:
        queued = self.waiting.get(name)
        if queued is not None:
            assert self.store.cancel(queued)
            del self.waiting[name]
        else:
            entry = self.entries.pop(name)
            self.store.died(*entry.location)
            self.acks.append(entry)

    def commit(self, checkpoint: bool = False) -> None:
        """Raises OSError when the disk does; then nothing of the batch counts."""
        records = self.take()
        state = self.store.checkpoint_state() if checkpoint else None
        self.interrupted = records
        try:
            for descriptor, pieces in self.writes:
                append_all(self.disk, descriptor, pieces)
            for descriptor in self.syncs:
                self.disk.sync(descriptor)
        except OSError as error:
            self.fail(records, error)
            raise
        self.interrupted = []
        self.store.batch_done(None)
        self.journal.records += records
        if state is not None:
            self.journal.state = state
            self.journal.entries = dict(self.entries)
            self.journal.position = len(self.journal.records)

    def take(self) -> list[tuple[str, Entry]]:
        self.writes, self.syncs = self.store.take_writes()
        records = []
        for name, queued in self.waiting.items():
            entry = Entry(name, queued.message.body, queued.store_file, queued.store_offset)
            records.append(("publish", entry))
            self.entries[name] = entry
        self.waiting.clear()
        records += [("ack", entry) for entry in self.acks]
        self.acks = []
        return records

    def fail(self, records: list[tuple[str, Entry]], error: OSError) -> None:
        """The batch is void: its publishes are refused, its acks go into the next one."""
        self.store.batch_done(error)
        for what, entry in records:
            if what == "publish":
                self.entries.pop(entry.name, None)
            else:
                self.acks.append(entry)

    def settle(self) -> None:
        self.workers.settle()

    def read(self, name: int) -> Message:
        entry = self.entries[name]
        return run(self.store.read(*entry.location))

    def check(self) -> None:
        """Everything that is there can be read."""
        names = list(self.entries)
        found = run(self.store.read_many([self.entries[name].location for name in names]))
        for name, message in zip(names, found, strict=True):
            assert not isinstance(message, CorruptRecord), message
            assert message.body == self.entries[name].body

    def files(self) -> dict[int, int]:
        """Numbers and sizes on disk, spare ones left out."""
        found = {int(p.stem): p.stat().st_size for p in self.directory.glob("*.rdq")}
        return {number: size for number, size in sorted(found.items()) if size > 20}

    def close(self) -> None:
        """A clean stop."""
        self.commit(checkpoint=True)
        run(self.store.close())

    def restarted(self, disk: Disk | None = None) -> StoreWorld:
        return StoreWorld(self.directory, disk, self.journal, self.store.file_bytes).open()

    def keep_some_of_the_interrupted(self, dice: random.Random) -> None:
        """The power went: the journal may have had any beginning of the batch."""
        self.journal.records += self.interrupted[: dice.randint(0, len(self.interrupted))]
