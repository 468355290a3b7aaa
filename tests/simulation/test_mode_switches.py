"""Queues that become lazy and default again under load, on a real disk, against a plain list.

The list knows nothing of modes. Whatever moved to disk and back, both must give the same messages
in the same order.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from index_world import LoopWorkers
from warren.queues.backing import BackingQueue
from warren.queues.priority_backing import PriorityBacking
from warren.storage.disk.committer import ThreadCommitter
from warren.storage.disk.files import RealDisk
from warren.storage.index.index_host import IndexHost
from warren.storage.queue.variable_queue import VariableQueue
from warren.storage.vhost_storage import VhostStorage, level_name
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

STEPS = 4_000
# A slow disk needs more of them, and is waited for, until so many messages have been on it alone.
STEPS_MAX = 40_000
PAGED_OUT_MIN = 20
JOURNAL_BYTES = 64 * 1_024
BODY_BYTES = (0, 10, 1_000, 5_000)
PRIORITIES = 3
WAIT_S_MAX = 120.0

# Priority flag and value, with and without delivery mode 2.
_LEVELS = {
    (priority, persistent): PropertyBlock(bytes([0x18, 0, 2 if persistent else 1, priority]))
    for priority in range(PRIORITIES)
    for persistent in (False, True)
}


class World:
    def __init__(self, directory: Path) -> None:
        loop = asyncio.get_running_loop()
        disk = RealDisk()
        self.workers = LoopWorkers()
        self.committer = ThreadCommitter(disk, loop)
        host = IndexHost(
            disk, self.committer, self.workers, loop.call_soon, loop.create_future, _random_bits
        )
        self.storage = VhostStorage(directory, "/", host)
        self.storage.index.journal_file_bytes = JOURNAL_BYTES
        self.loaded = asyncio.Event()
        self.backings: list[VariableQueue] = []

    @property
    def on_disk_only(self) -> int:
        return sum(backing.delta_count for backing in self.backings)

    def backing(self, name: str, is_durable: bool) -> BackingQueue:
        backing = self.storage.backing(name, is_durable)
        backing.on_loaded = self.loaded.set
        self.backings.append(backing)
        return backing

    def by_priority(self, is_durable: bool) -> BackingQueue:
        return PriorityBacking(
            PRIORITIES, lambda level: self.backing(level_name("q", level), is_durable)
        )

    async def close(self) -> None:
        await self.storage.close()
        await self.committer.close()
        await self.workers.settle()


def _random_bits(bits: int) -> int:
    return random.Random(bits).getrandbits(bits)


class Load:
    """`ready` maps what is served first to lists of numbers; without priorities there is one."""

    def __init__(self, world: World, queue: BackingQueue, seed: int, priorities: int) -> None:
        self.world = world
        self.queue = queue
        self.rng = random.Random(seed)
        self.priorities = priorities
        self.ready: dict[int, list[int]] = {level: [] for level in range(priorities)}
        self.unacked: list[tuple[int, int, QueuedMessage]] = []
        self.published = 0
        self.switches = 0
        self.paged_out_most = 0
        self.is_disk_slow = False

    async def step(self) -> None:
        action = self.rng.choices(
            (self.publish, self.fetch, self.settle, self.switch, self.purge, self.rest),
            (50, 30, 20, 1, 0.05, 3),
        )[0]
        await action()

    async def publish(self) -> None:
        level = self.rng.randrange(self.priorities)
        body = b"%d" % self.published + b"." * self.rng.choice(BODY_BYTES)
        properties = _LEVELS[level, self.rng.random() < 0.5]
        self.queue.publish(Message(b"\0\x01q", properties, body), 0, None, 0)
        self.ready[level].append(self.published)
        self.published += 1

    async def fetch(self) -> None:
        level = max((level for level, ready in self.ready.items() if ready), default=None)
        if level is None:
            assert self.queue.length == 0
            return
        queued = await self._fetch()
        number = int(queued.message.body.partition(b".")[0])
        assert number == self.ready[level].pop(0)
        self.unacked.append((level, number, queued))

    async def _fetch(self) -> QueuedMessage:
        async with asyncio.timeout(WAIT_S_MAX):
            while True:
                self.world.loaded.clear()
                queued = self.queue.fetch(True)
                if queued is not None:
                    return queued
                await self.world.loaded.wait()

    async def settle(self) -> None:
        if not self.unacked:
            return
        count = self.rng.randrange(1, len(self.unacked) + 1)
        batch = self.rng.sample(self.unacked, count)
        self.unacked = [held for held in self.unacked if held not in batch]
        run = [queued for _, _, queued in batch]
        if self.rng.random() < 0.7:
            self.queue.ack(run)
            return
        self.queue.requeue(run)
        for level, number, _ in batch:
            self.ready[level].append(number)
            self.ready[level].sort()

    async def switch(self) -> None:
        self.queue.set_lazy(self.rng.random() < 0.5)
        self.switches += 1

    async def purge(self) -> None:
        assert self.queue.purge() == sum(map(len, self.ready.values()))
        self.ready = {level: [] for level in self.ready}

    async def rest(self) -> None:
        if self.is_disk_slow:
            await self.world.storage.index.flush()
        await asyncio.sleep(0.002)
        self.paged_out_most = max(self.paged_out_most, self.world.on_disk_only)

    async def drain(self) -> None:
        while any(self.ready.values()):
            await self.fetch()
        self.queue.ack([queued for _, _, queued in self.unacked])
        self.unacked = []
        assert (self.queue.length, self.queue.ready_bytes) == (0, 0)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "non-durable"])
@pytest.mark.parametrize("priorities", [1, PRIORITIES])
def test_mode_switches_under_load_lose_nothing_and_keep_the_order(
    tmp_path: Path, seed: int, is_durable: bool, priorities: int
) -> None:
    async def run() -> None:
        world = World(tmp_path)
        await world.storage.open()
        queue = world.by_priority(is_durable) if priorities > 1 else world.backing("q", is_durable)
        load = Load(world, queue, seed, priorities)
        steps = 0
        while steps < STEPS or (load.paged_out_most <= PAGED_OUT_MIN and steps < STEPS_MAX):
            load.is_disk_slow = steps >= STEPS
            await load.step()
            steps += 1
        assert load.switches > 10
        assert load.paged_out_most > PAGED_OUT_MIN
        await load.drain()
        await world.close()

    asyncio.run(run())
