"""An index on some disk, with a loop of its own around it, for tests."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TypeAlias, TypeVar

from warren.storage.bodies.message_store import MessageStore
from warren.storage.disk.committer import Committer, ThreadCommitter
from warren.storage.disk.files import Disk, RealDisk
from warren.storage.disk.layout import IndexLayout
from warren.storage.index.index import IndexStore, RecoveredQueue
from warren.storage.index.index_host import IndexHost
from warren.storage.index.queue_index import QueueIndex
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

T = TypeVar("T")
CallLater: TypeAlias = Callable[[float, Callable[[], None]], object]

PERSISTENT = PropertyBlock(b"\x10\x00\x02")
TRANSIENT = PropertyBlock(b"\x10\x00\x01")
ROUTE_KEY = b"\x00\x05queue"


class LoopWorkers:
    """Threads and tasks of the running loop."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    def run_in_thread(self, function: Callable[[], T]) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(None, function)

    def spawn(self, work: Coroutine[object, object, None]) -> Awaitable[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))

    async def settle(self) -> None:
        while self.tasks:
            await asyncio.gather(*self.tasks, return_exceptions=True)


class Publisher:
    """Remembers what it was told."""

    origin = None

    def __init__(self) -> None:
        self.told: list[int] = []
        self.refused: list[int] = []
        self.was_refused = asyncio.Event()

    def confirmed(self, sequence: int) -> None:
        self.told.append(sequence)

    def rejected(self, sequence: int) -> None:
        self.refused.append(sequence)
        self.was_refused.set()


class IndexWorld:
    def __init__(
        self, directory: Path, disk: Disk | None = None, call_later: CallLater | None = None
    ) -> None:
        self.directory = directory
        self.disk = disk if disk is not None else RealDisk()
        self.workers = LoopWorkers()
        loop = asyncio.get_running_loop()
        self.committer: Committer = ThreadCommitter(self.disk, loop)
        self.bodies = MessageStore(directory / "msg_store_persistent", self.disk, self.workers)
        self.transient_bodies = MessageStore(
            directory / "msg_store_transient", self.disk, self.workers, is_transient=True
        )
        host = IndexHost(
            self.disk,
            self.committer,
            self.workers,
            loop.call_soon,
            loop.create_future,
            secrets.randbits,
            call_later=call_later,
        )
        self.layout = IndexLayout(directory, "/")
        self.index = IndexStore(self.layout, host, self.bodies, self.transient_bodies)
        self.publisher = Publisher()
        self._sequences: dict[str, int] = {}

    async def open(self) -> dict[str, RecoveredQueue]:
        recovered = {queue.name: queue for queue in await self.index.open()}
        self._sequences = {name: queue.next_sequence for name, queue in recovered.items()}
        return recovered

    async def close(self) -> None:
        """An orderly stop."""
        await self.index.close()
        await self.bodies.close()
        await self.transient_bodies.close()
        await self.committer.close()
        await self.workers.settle()

    async def abandon(self) -> None:
        """Stop without a word, as a crash would; whatever is under way may still fail."""
        for task in list(self.workers.tasks):
            task.cancel()
        await self.workers.settle()
        await self.committer.close()

    def queue(self, name: str = "q") -> QueueIndex:
        return self.index.queue(name)

    def publish(
        self,
        name: str = "q",
        body: bytes = b"body",
        properties: PropertyBlock | None = None,
        expires_at_ms: int = 0,
    ) -> QueuedMessage:
        """Its sequence number in the queue is also what the publisher is told."""
        sequence = self._sequences.get(name, 0)
        self._sequences[name] = sequence + 1
        queued = QueuedMessage(
            Message(ROUTE_KEY, properties or PERSISTENT, body), sequence, expires_at_ms
        )
        queued.publisher = self.publisher
        queued.publisher_sequence = sequence
        self.queue(name).publish(queued)
        return queued

    def begin_at(self, sequence: int, name: str = "q") -> None:
        """Number what is published from now on from there on, as a master may want a mirror to."""
        self._sequences[name] = sequence

    async def read(
        self, name: str = "q", start: int = 0, end: int = 1 << 40, bytes_max: int = 1 << 30
    ) -> list[QueuedMessage]:
        future: asyncio.Future[list[QueuedMessage]] = asyncio.get_running_loop().create_future()
        self.queue(name).read(start, end, bytes_max, future.set_result)
        return await future

    async def shorten_journal(self) -> None:
        """What happens when the journal is long enough."""
        self.index.want_checkpoint()
        await self.house_is_kept()

    async def house_is_kept(self) -> None:
        await self.index.flush()
        await self.workers.settle()
