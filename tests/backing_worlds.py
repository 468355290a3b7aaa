"""Backing queues of every kind, each with what it takes to make its messages safe."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from faulty_disk import FaultyDisk
from index_world import LoopWorkers
from replica_world import ReplicaWorld
from stream_copies_world import StreamCopies
from stream_world import StreamWorld
from warren.queues.backing import BackingQueue, Level
from warren.queues.id_keeping import IdKeepingBacking
from warren.queues.memory_backing import MemoryBacking
from warren.queues.priority_backing import PriorityBacking
from warren.storage.disk.committer import ThreadCommitter
from warren.storage.disk.layout import vhost_directory
from warren.storage.index.index_host import IndexHost
from warren.storage.vhost_storage import VhostStorage
from warren.wire.codec import Message, PropertyBlock

WAIT_S = 60.0
PERSISTENT = PropertyBlock(b"\x10\x00\x02")
TRANSIENT = PropertyBlock(b"\x10\x00\x01")
PRIORITY_MAX = 3


def message(body: bytes, properties: PropertyBlock = PERSISTENT) -> Message:
    return Message(b"\x00\x01q", properties, body)


def urgent(body: bytes, priority: int) -> Message:
    """Persistent, too: the delivery mode comes before the priority."""
    return message(body, PropertyBlock(bytes([0x18, 0, 2, priority])))


class Client:
    """A publisher that notes what it is told, and whether that was too early."""

    origin = None

    def __init__(self) -> None:
        self.confirms: list[int] = []
        self.refusals: list[int] = []
        self.too_early: list[int] = []
        self._publishing = 0

    def publish(self, call: Callable[[Client, int], int], sequence: int) -> int:
        self._publishing = sequence
        outcome = call(self, sequence)
        self._publishing = 0
        return outcome

    def confirmed(self, sequence: int) -> None:
        self.confirms.append(sequence)
        if sequence == self._publishing:
            self.too_early.append(sequence)

    def rejected(self, sequence: int) -> None:
        self.refusals.append(sequence)
        if sequence == self._publishing:
            self.too_early.append(sequence)


class BackingWorld(Protocol):
    """`pass_time` lets disks and mirrors come one step further."""

    backing: BackingQueue
    is_pending: bool
    """Whether a persistent message with a publisher has to wait for something."""
    is_transient_pending: bool
    """The same of a transient message."""

    async def open(self) -> None: ...

    async def pass_time(self) -> None: ...

    def fill_disk(self) -> None:
        """From now on the disk of this node takes nothing more."""
        ...

    def empty_disk(self) -> None: ...

    async def close(self) -> None: ...


async def until(world: BackingWorld, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await world.pass_time()


class InMemory:
    is_pending = is_transient_pending = False

    def __init__(self, directory: Path) -> None:
        self.backing: BackingQueue = self.made()

    def made(self) -> BackingQueue:
        return MemoryBacking()

    async def open(self) -> None: ...

    async def pass_time(self) -> None:
        await asyncio.sleep(0)

    def fill_disk(self) -> None:
        raise AssertionError("there is none")

    def empty_disk(self) -> None:
        raise AssertionError("there is none")

    async def close(self) -> None: ...


class PriorityInMemory(InMemory):
    def made(self) -> BackingQueue:
        return PriorityBacking(PRIORITY_MAX, lambda number: MemoryBacking())


class OnDisk:
    """The storage of a virtual host, on a disk."""

    is_pending, is_transient_pending = True, False

    def __init__(self, directory: Path) -> None:
        self.backing: BackingQueue
        self.workers = LoopWorkers()
        loop = asyncio.get_running_loop()
        self.disk = FaultyDisk()
        self.committer = ThreadCommitter(self.disk, loop)
        host = IndexHost(
            self.disk,
            self.committer,
            self.workers,
            loop.call_soon,
            loop.create_future,
            secrets.randbits,
        )
        vhost_directory(directory, "/").mkdir(parents=True)
        self.storage = VhostStorage(directory, "/", host)

    async def open(self) -> None:
        await self.storage.open()
        self.backing = self.made()

    def made(self) -> BackingQueue:
        return self.level(0)

    def level(self, number: int) -> Level:
        return self.storage.backing(f"q{number}", True)

    async def pass_time(self) -> None:
        await asyncio.sleep(0.001)

    def fill_disk(self) -> None:
        self.disk.room_bytes = 100

    def empty_disk(self) -> None:
        self.disk.room_bytes = None

    async def close(self) -> None:
        await self.storage.close()
        await self.committer.close()
        await self.workers.settle()


class LazyOnDisk(OnDisk):
    """All that the disk has leaves memory."""

    def made(self) -> BackingQueue:
        backing = self.level(0)
        backing.set_lazy(True)
        return backing


class PriorityOnDisk(OnDisk):
    def made(self) -> BackingQueue:
        return PriorityBacking(PRIORITY_MAX, self.level)


class IdsOnDisk(OnDisk):
    def made(self) -> BackingQueue:
        return IdKeepingBacking(PRIORITY_MAX, self.level)


class Mirrored:
    """A master with one mirror in sync; their disks sync as time passes."""

    is_pending = is_transient_pending = True
    priority_max: int | None = None
    kind: type[PriorityBacking] = PriorityBacking

    def __init__(self, directory: Path) -> None:
        self.world = ReplicaWorld(self.priority_max, backing=self.kind)
        self.backing: BackingQueue = self.world.master
        self.is_full = False

    async def open(self) -> None:
        self.world.join("b")
        self.world.deliver()
        self.world.sync_all()
        self.world.master.set_in_sync({"b"})

    async def pass_time(self) -> None:
        self.world.deliver()
        if self.is_full:
            for index in self.world.here.indexes.values():
                index.refuse()
            for replica in self.world.replicas.values():
                replica.sync()
        else:
            self.world.sync_all()
        self.world.step()
        await asyncio.sleep(0)

    def fill_disk(self) -> None:
        self.is_full = True

    def empty_disk(self) -> None:
        self.is_full = False

    async def close(self) -> None:
        assert self.world.failed == []


class MirroredAlone(Mirrored):
    """A master whose mirrors are all gone."""

    async def open(self) -> None: ...


class MirroredPriority(Mirrored):
    priority_max = PRIORITY_MAX


class MirroredIds(Mirrored):
    priority_max = PRIORITY_MAX
    kind = IdKeepingBacking


class Stream:
    is_pending = is_transient_pending = True

    def __init__(self, directory: Path) -> None:
        self.disk = FaultyDisk()
        self.world = StreamWorld(directory, self.disk)
        self.backing: BackingQueue

    async def open(self) -> None:
        self.backing = (await self.world.log()).backing

    async def pass_time(self) -> None:
        await asyncio.sleep(0.001)

    def fill_disk(self) -> None:
        self.disk.room_bytes = 100

    def empty_disk(self) -> None:
        self.disk.room_bytes = None

    async def close(self) -> None:
        await self.world.store.close()


class MirroredStream:
    """A stream with one mirror in sync."""

    is_pending = is_transient_pending = True

    def __init__(self, directory: Path) -> None:
        self.disk = FaultyDisk()
        self.world = StreamCopies(directory)
        self.backing: BackingQueue

    async def open(self) -> None:
        await self.world.begin(self.disk)
        await self.world.join_in_sync("b")
        self.backing = self.world.master

    async def pass_time(self) -> None:
        self.world.deliver()
        await asyncio.sleep(0.001)

    def fill_disk(self) -> None:
        self.disk.room_bytes = 100

    def empty_disk(self) -> None:
        self.disk.room_bytes = None

    async def close(self) -> None:
        await self.world.close()


KINDS: dict[str, Callable[[Path], BackingWorld]] = {
    "memory": InMemory,
    "memory by priority": PriorityInMemory,
    "disk": OnDisk,
    "disk, lazy": LazyOnDisk,
    "disk by priority": PriorityOnDisk,
    "disk with ids": IdsOnDisk,
    "master": Mirrored,
    "master without mirrors": MirroredAlone,
    "master by priority": MirroredPriority,
    "master with ids": MirroredIds,
    "stream": Stream,
    "master of a stream": MirroredStream,
}
