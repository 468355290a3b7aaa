"""Queues of every kind as a channel sees them, each with what it takes to get answers from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from backing_worlds import OnDisk
from broker_world import BrokerWorld, RecordingHost
from link_world import LinkWorld
from stream_world import StreamWorld
from warren.channels.reply_registry import ReplyConsumer, ReplyDesk, ReplyRegistry
from warren.model.counters import MessageCounters
from warren.model.records import QueueRecord
from warren.queues.boundary import AbstractQueue, Answer
from warren.queues.consumers import Consumer
from warren.queues.deduplicating_queue import DeduplicatingQueue
from warren.queues.delivery import Deliveries, TurnClock
from warren.queues.id_keeping import IdKeepingBacking
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings, QueueType
from warren.server.forgetting_offline import StoredQueue
from warren.streams.queue import StreamQueue
from warren.wire.codec import FrameReader, Message, OutputBuffer, PropertyBlock

WAIT_S = 60.0
FRAME_MAX = 1 << 20
RECORD = QueueRecord("/", "q")


class Channel:
    """A client's channel: what it is sent, and what it holds."""

    vhost = SimpleNamespace(name="/")
    is_closing = False

    def __init__(self) -> None:
        self.output = OutputBuffer(FRAME_MAX, 1 << 30, lambda: None)
        self.deliveries = Deliveries(1, self.output, TurnClock(), MessageCounters())
        self._reader = FrameReader(FRAME_MAX, FRAME_MAX)
        self._reader.is_client = True

    def consumer(self, queue: AbstractQueue, prefetch: int = 0, no_ack: bool = False) -> Consumer:
        return Consumer(queue, self.deliveries, "tag", no_ack, prefetch)

    def read(self) -> list[tuple[bytes, bool]]:
        """Bodies, and whether they are marked as redelivered, since the last look."""
        events = self._reader.feed(b"".join(self.output.take()))
        return [(bytes(event.message.body), event.redelivered) for event in events]


async def until(register: Callable[[Callable[[], None]], None]) -> None:
    """What a connection's `until` does."""
    done = asyncio.Event()
    register(done.set)
    await done.wait()


class QueueWorld(Protocol):
    queue: AbstractQueue

    async def open(self) -> None: ...

    async def pass_time(self) -> None: ...

    async def remove(self) -> None:
        """Take the queue out of the topology, as this node does it."""
        ...

    async def close(self) -> None: ...


async def answer(world: QueueWorld, asked: Answer[Any]) -> Any:
    """The answer, however long it takes."""
    if not isinstance(asked, Coroutine):
        return asked
    task = asyncio.ensure_future(asked)
    async with asyncio.timeout(WAIT_S):
        while not task.done():
            await world.pass_time()
    return task.result()


async def eventually(world: QueueWorld, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await world.pass_time()


class Classic:
    """A queue whose messages are on disk."""

    settings = QueueSettings()

    def __init__(self, directory: Path) -> None:
        self.disk = OnDisk(directory)
        self.host = RecordingHost()
        self.queue: AbstractQueue

    async def open(self) -> None:
        await self.disk.storage.open()
        self.queue = self.made()

    def made(self) -> Queue:
        backing = self.disk.storage.backing("q", True)
        queue = Queue(RECORD, self.settings, backing, self.host)
        backing.on_loaded = queue.loaded
        return queue

    async def pass_time(self) -> None:
        await asyncio.sleep(0.001)

    async def remove(self) -> None:
        self.queue.delete()

    async def close(self) -> None:
        await self.disk.close()


class Lazy(Classic):
    """Its head has to be read from the disk."""

    def made(self) -> Queue:
        queue = super().made()
        queue.backing.set_lazy(True)
        return queue


class Deduplicating(Classic):
    settings = QueueSettings(deduplicates=True, window_size=100)

    def made(self) -> Queue:
        backing = IdKeepingBacking(0, self.disk.level)
        return DeduplicatingQueue(
            RECORD, self.settings, backing, self.host, self.disk.workers.spawn
        )


class Stream:
    def __init__(self, directory: Path) -> None:
        self.world = StreamWorld(directory)
        self.queue: AbstractQueue

    async def open(self) -> None:
        log = await self.world.log()
        settings = QueueSettings(queue_type=QueueType.STREAM)
        self.queue = StreamQueue(RECORD, settings, log, RecordingHost(), self.world.workers)

    async def pass_time(self) -> None:
        await asyncio.sleep(0.001)

    async def remove(self) -> None:
        self.queue.delete()

    async def close(self) -> None:
        await self.world.workers.settle()
        await self.world.store.close()


class Remote:
    """A queue of another node, over the two ends of a link."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.queue: AbstractQueue
        self.master: Queue

    async def open(self) -> None:
        self.directory.mkdir(exist_ok=True)
        self.broker = await BrokerWorld(self.directory).__aenter__()
        self.link = LinkWorld(self.broker)
        self.master, self.queue = await self.link.declared()

    async def pass_time(self) -> None:
        self.link.move()
        await asyncio.sleep(0.001)

    async def remove(self) -> None:
        raise AssertionError("the node that is its master removes it")

    async def close(self) -> None:
        self.link.move()
        await self.broker.__aexit__()


class Replies:
    """The desk at which other nodes leave answers for channels of this one."""

    def __init__(self, directory: Path) -> None:
        self.channel = Channel()
        registry = ReplyRegistry()
        self.consumer = ReplyConsumer(self.channel, "tag", registry.address("token"))  # type: ignore[arg-type]
        registry.add(self.consumer)
        self.queue: AbstractQueue = ReplyDesk(registry)

    def reply(self, body: bytes) -> Message:
        """Published to the address, by way of the default exchange."""
        address = self.consumer.address.encode()
        return Message(b"\0" + bytes([len(address)]) + address, PropertyBlock(b"\0\0"), body)

    async def open(self) -> None: ...

    async def pass_time(self) -> None:
        await asyncio.sleep(0)

    async def remove(self) -> None:
        raise AssertionError("it is in no topology")

    async def close(self) -> None: ...


class ReplyAddress(Replies):
    """The address itself, on the node of the channel that waits."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.queue = self.consumer


class Stored:
    """A queue of a cluster that has no node running."""

    def __init__(self, directory: Path) -> None:
        self.queue: AbstractQueue = StoredQueue(RECORD, QueueSettings())

    async def open(self) -> None: ...

    async def pass_time(self) -> None:
        await asyncio.sleep(0)

    async def remove(self) -> None:
        self.queue.delete()

    async def close(self) -> None: ...


KINDS: dict[str, Callable[[Path], QueueWorld]] = {
    "classic": Classic,
    "lazy": Lazy,
    "deduplicating": Deduplicating,
    "stream": Stream,
    "remote": Remote,
    "reply desk": Replies,
    "reply consumer": ReplyAddress,
    "stored": Stored,
}
