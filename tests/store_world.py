"""A message store with the smallest index that could use it: a journal in memory, and checkpoints.

The index writes down, per batch, what was published and acknowledged. What it has written down
survives a crash if its batch did; of the batch that the crash interrupted, any beginning may.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from faulty_disk import FaultyDisk
from warren.storage.bodies.message_store import MessageStore
from warren.storage.bodies.record_format import CorruptRecord
from warren.storage.disk.files import Disk, RealDisk, append_all
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

T = TypeVar("T")

FILE_BYTES: Final = 4_096
"""Small files make many."""


class Turn:
    """Where something else may happen before a coroutine goes on."""

    def __await__(self) -> Iterator[None]:
        yield


class Job:
    def __init__(self, work: Coroutine[object, object, None]) -> None:
        self.work = work
        self.is_done = False

    def step(self) -> None:
        """Go on to the next turn."""
        try:
            self.work.send(None)
        except BaseException as end:
            self.is_done = True
            if not isinstance(end, StopIteration):
                raise

    def __await__(self) -> Iterator[None]:
        while not self.is_done:
            self.step()
            yield


class StepWorkers:
    """Threads and tasks that run when the test says so, step by step."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.paused_s = 0.0

    async def run_in_thread(self, function: Callable[[], T]) -> T:
        await Turn()
        result = function()
        await Turn()
        return result

    def spawn(self, work: Coroutine[object, object, None]) -> Awaitable[None]:
        self.jobs.append(Job(work))
        return self.jobs[-1]

    async def pause(self, seconds: float) -> None:
        self.paused_s += seconds
        await Turn()

    def step(self, dice: random.Random) -> None:
        """Let one of the jobs go on."""
        self.jobs = [job for job in self.jobs if not job.is_done]
        if self.jobs:
            dice.choice(self.jobs).step()

    def settle(self) -> None:
        """Let all jobs come to their end."""
        while self.jobs:
            job = self.jobs.pop(0)
            while not job.is_done:
                job.step()

    def abandon(self) -> None:
        """The process is gone."""
        for job in self.jobs:
            job.work.close()
        self.jobs.clear()


def run(work: Coroutine[object, object, T]) -> T:
    """Run one thing to its end and nothing else."""
    while True:
        try:
            work.send(None)
        except StopIteration as stop:
            value: T = stop.value
            return value


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
    doubtful: set[int] = field(default_factory=set)  # published in a batch that a crash ended

    def checkpoint(self, state: bytes, entries: dict[int, Entry]) -> None:
        """True for the batch that was written last."""
        self.state = state
        self.entries = entries
        self.position = len(self.records)

    def alive(self) -> set[int]:
        names = set(self.entries)
        for what, entry in self.records[self.position :]:
            if what == "publish":
                names.add(entry.name)
            else:
                names.discard(entry.name)
        return names


class StoreWorld:
    def __init__(
        self,
        directory: Path,
        disk: Disk | None = None,
        journal: Journal | None = None,
        workers: StepWorkers | None = None,
        file_bytes: int = FILE_BYTES,
    ) -> None:
        self.directory = directory
        self.disk: Disk = RealDisk() if disk is None else disk
        self.workers = StepWorkers() if workers is None else workers
        self.journal = Journal() if journal is None else journal
        self.store = MessageStore(directory, self.disk, self.workers, salt=77)
        self.store.file_bytes = file_bytes
        self.entries: dict[int, Entry] = {}
        self.lost: dict[int, Entry] = {}  # named by the journal, and not there
        self.next_name = 0
        self.waiting: dict[int, QueuedMessage] = {}
        self.acks: list[Entry] = []
        self.batch: list[tuple[str, Entry]] = []  # in flight
        self.refused: set[int] = set()

    def open(self) -> StoreWorld:
        journal = self.journal
        run(self.store.open(journal.state))
        self.entries = {}
        self.lost = {}
        known = [("publish", entry) for entry in journal.entries.values()]
        for what, entry in known + journal.records[journal.position :]:
            if what == "publish" and self.store.seen(entry.file, entry.offset):
                self.entries[entry.name] = entry
            elif what == "publish":
                self.lost[entry.name] = entry
            else:
                self.store.died(*entry.location)
                if self.lost.pop(entry.name, None) is None:
                    del self.entries[entry.name]
        run(self.store.recovered())
        self.store.begin_chores()
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
        self.take()
        state = self.store.checkpoint_state() if checkpoint else None
        entries = dict(self.entries)
        self.finish()
        if state is not None:
            self.journal.checkpoint(state, entries)

    def finish(self) -> None:
        """Write the batch that was taken."""
        try:
            for descriptor, pieces in self.writes:
                append_all(self.disk, descriptor, pieces)
            for descriptor in self.syncs:
                self.disk.sync(descriptor)
        except OSError as error:
            if not (isinstance(self.disk, FaultyDisk) and self.disk.is_crashed):
                self._fail(error)
            raise
        self.journal.records += self.batch
        self.batch = []
        self.store.batch_done(None)

    def take(self) -> None:
        assert not self.batch
        self.writes, self.syncs = self.store.take_writes()
        for name, queued in self.waiting.items():
            entry = Entry(name, queued.message.body, queued.store_file, queued.store_offset)
            self.batch.append(("publish", entry))
            self.entries[name] = entry
        self.waiting.clear()
        self.batch += [("ack", entry) for entry in self.acks]
        self.acks = []

    def _fail(self, error: OSError) -> None:
        """The batch is void: its publishes are refused, its acks go into the next one."""
        self.store.batch_done(error)
        refused = {entry.name for what, entry in self.batch if what == "publish"}
        self.acks = [entry for what, entry in self.batch if what == "ack"] + self.acks
        self.acks = [entry for entry in self.acks if entry.name not in refused]
        for name in refused:
            self.entries.pop(name, None)
        self.refused |= refused
        self.batch = []

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
        if isinstance(self.disk, FaultyDisk):
            assert not self.disk._open, "every file is closed"

    def crash(self, dice: random.Random) -> None:
        """The power goes. Of the batch in flight the journal may have had any beginning."""
        assert isinstance(self.disk, FaultyDisk)
        if self.batch and dice.random() < 0.7:
            self._write_some_of_the_batch(dice)
        self.disk.crash()
        self.workers.abandon()
        for descriptor in list(self.disk._open):
            self.disk.close(descriptor)
        self.journal.doubtful |= {entry.name for what, entry in self.batch if what == "publish"}
        self.journal.records += self.batch[: dice.randint(0, len(self.batch))]
        self.batch = []

    def _write_some_of_the_batch(self, dice: random.Random) -> None:
        """As far as the commit thread came before the power went."""
        with suppress(OSError):
            for descriptor, pieces in self.writes:
                append_all(self.disk, descriptor, pieces)
            for descriptor in self.syncs:
                if dice.random() < 0.5:
                    self.disk.sync(descriptor)

    def reopened(self, disk: Disk | None = None) -> StoreWorld:
        """The same files, after a crash or a stop: all that was promised is there."""
        self.workers.abandon()
        journal = self.journal
        file_bytes = self.store.file_bytes
        world = StoreWorld(self.directory, disk, journal, self.workers, file_bytes).open()
        assert set(world.lost) <= journal.doubtful, "what was promised is not lost"
        assert set(world.entries) == journal.alive() - set(world.lost)
        journal.doubtful = set(world.lost)
        world.check()
        return world

    def check_that_nothing_stays(self) -> None:
        """When everything is acknowledged, so are the files."""
        for name in [*self.entries, *self.waiting]:
            self.ack(name)
        for _ in range(2):  # the second deletes what the first made garbage of
            self.publish(bytes(self.store.file_bytes))
            self.commit()
            self.settle()
        for name in list(self.entries):
            self.ack(name)
        for _ in range(2):
            self.commit()
            self.settle()
        assert self.files() == {}
        assert len(self.store._table.forwarding) == 0
