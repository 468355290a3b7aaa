"""Small messages whose bodies are in segments of the index while a queue keeps their places.

On a real disk: the queue, its index and its files are those of a broker.
"""

from __future__ import annotations

import asyncio
import errno
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from index_world import PERSISTENT, TRANSIENT, LoopWorkers
from log_lines import log_lines
from warren.queues.priority_backing import PriorityBacking
from warren.storage.disk.committer import ThreadCommitter
from warren.storage.disk.layout import vhost_directory
from warren.storage.index.index_host import IndexHost
from warren.storage.index.segment import SEGMENT_ENTRIES
from warren.storage.queue.collecting import Piece
from warren.storage.queue.message_tiers import is_bodiless
from warren.storage.queue.paging_host import PLACE_BYTES
from warren.storage.queue.replication import remove_span
from warren.storage.queue.variable_queue import VariableQueue
from warren.storage.vhost_storage import VhostStorage, level_name
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

WAIT_S = 60.0
ROUTE_KEY = b"\x00\x01q"


class World:
    def __init__(self, directory: Path) -> None:
        loop = asyncio.get_running_loop()
        self.directory = directory
        self.disk = FaultyDisk()
        self.workers = LoopWorkers()
        self.committer = ThreadCommitter(self.disk, loop)
        host = IndexHost(
            self.disk,
            self.committer,
            self.workers,
            loop.call_soon,
            loop.create_future,
            secrets.randbits,
        )
        vhost_directory(directory, "/").mkdir(parents=True, exist_ok=True)
        self.storage = VhostStorage(directory, "/", host)
        self.loaded = asyncio.Event()

    async def open(self) -> World:
        await self.storage.open()
        return self

    def queue(self, name: str = "q") -> VariableQueue:
        backing = self.storage.backings.get(name) or self.storage.backing(name, True)
        backing.on_loaded = self.loaded.set
        return backing

    async def settle(self) -> None:
        """Have all that is written in segments, and paged out as far as it goes."""
        for _ in range(6):
            await self.storage.index.flush()
            self.storage.scatter_now()
            await self.workers.settle()
            await asyncio.sleep(0)

    async def fetch(self, queue: VariableQueue | PriorityBacking) -> QueuedMessage:
        async with asyncio.timeout(WAIT_S):
            while True:
                self.loaded.clear()
                queued = queue.fetch(True)
                if queued is not None:
                    return queued
                await self.loaded.wait()

    async def drain(self, queue: VariableQueue | PriorityBacking) -> list[QueuedMessage]:
        taken = []
        while queue.length:
            taken.append(await self.fetch(queue))
            queue.ack(taken[-1:])
        return taken

    def segment_files(self, queue: VariableQueue) -> list[Path]:
        layout = self.storage.index.layout
        return [layout.segment_file(queue.index.name, n) for n in sorted(queue.index.segments)]

    async def close(self) -> None:
        self.disk.mend()
        await self.storage.close()
        await self.committer.close()
        await self.workers.settle()

    async def abandon(self) -> None:
        """Stop without a word, as a crash would."""
        for task in list(self.workers.tasks):
            task.cancel()
        await self.workers.settle()
        await self.committer.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = await World(tmp_path).open()
    yield world
    await world.close()


def body(number: int) -> bytes:
    """Bodies of many sizes, every seventh so large that it is in a message store."""
    return (b"%d." % number).ljust(5_000 if number % 7 == 0 else 10 + number * 13 % 2_000, b"x")


def publish(queue: VariableQueue, numbers: range, properties: PropertyBlock = PERSISTENT) -> None:
    for number in numbers:
        message = Message(ROUTE_KEY, properties, body(number))
        queue.publish(message, 1_000_000 + number, None, 0)


async def with_gammas(
    world: World, count: int, properties: PropertyBlock = PERSISTENT
) -> VariableQueue:
    """Return a queue that has this many messages, of which all but a few are gammas or betas."""
    queue = world.queue()
    publish(queue, range(count), properties)
    queue.save_memory(2 * count * PLACE_BYTES)
    await world.settle()
    status = queue.status(0)
    assert status["delta"][2] == 0
    assert status["gamma"] > count // 3
    return queue


def expect(taken: list[QueuedMessage], numbers: Sequence[int]) -> None:
    assert [queued.message.body for queued in taken] == [body(number) for number in numbers]
    assert [queued.expires_at_ms for queued in taken] == [1_000_000 + n for n in numbers]


@pytest.mark.parametrize("properties", [PERSISTENT, TRANSIENT], ids=["persistent", "transient"])
async def test_each_comes_back_with_its_own_body_and_is_read_once(
    world: World, properties: PropertyBlock
) -> None:
    count = 2 * SEGMENT_ENTRIES + 100
    queue = await with_gammas(world, count, properties)
    away = queue.bodiless_count
    small = [queued for queued in queue.q3 if queued.size < 5_000]
    assert len(small) > count // 3
    assert queue.figures().persistent == (count if properties is PERSISTENT else 0)
    expect(await world.drain(queue), range(count))
    assert queue.disk_counts()[0] == away
    await world.settle()
    assert world.segment_files(queue) == [], "acknowledged, and nothing is left"


async def test_transient_ones_that_left_newest_first_come_back_in_order(world: World) -> None:
    queue = world.queue()
    publish(queue, range(600), TRANSIENT)
    for left in (500, 350, 200, 100):
        queue.save_memory(left * 1_000)
        await world.settle()
    assert not all(segment.is_ordered for segment in queue.index.segments.values())
    assert queue.status(0)["gamma"] > 100
    expect(await world.drain(queue), range(600))


@pytest.mark.parametrize("is_clean", [True, False], ids=["stop", "crash"])
async def test_a_restart_finds_all_that_were_persistent(tmp_path: Path, is_clean: bool) -> None:
    before = await World(tmp_path).open()
    queue = await with_gammas(before, 1_000)
    expect([await before.fetch(queue) for _ in range(10)], range(10))
    if is_clean:
        await before.close()
    else:
        await before.abandon()
    world = await World(tmp_path).open()
    queue = world.queue()
    assert (queue.length, queue.figures().persistent) == (1_000, 1_000)
    queue.save_memory(500 * PLACE_BYTES)
    expect(await world.drain(queue), range(1_000))
    await world.close()


async def test_a_segment_may_go_while_bodies_are_read_from_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A master removes messages of a mirror that has just become the next master, say."""
    count = SEGMENT_ENTRIES + 500
    queue = await with_gammas(world, count)
    gone, _ = world.segment_files(queue)
    world.disk.fail("read", errno.EIO, times=1 << 40, on="0.idx")
    while queue.fetch(False) is not None:
        pass
    assert queue.is_filling
    remove_span(queue, 0, SEGMENT_ENTRIES)
    async with asyncio.timeout(WAIT_S):
        while gone.exists():
            await world.storage.index.flush()
            await asyncio.sleep(0.01)
    world.disk.mend()
    expect(await world.drain(queue), range(SEGMENT_ENTRIES, count))
    assert "lost" not in log_lines(caplog)


async def test_a_damaged_entry_is_lost_alone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    queue = await with_gammas(world, 500)
    [path] = world.segment_files(queue)
    damaged = next(queued for queued in reversed(queue.q3) if queued.size < 5_000).sequence
    world.disk.flip_bit(path, path.read_bytes().index(body(damaged)))
    expect(await world.drain(queue), [n for n in range(500) if n != damaged])
    assert queue.figures().named()["messages"] == 0
    assert log_lines(caplog).count("messages of a segment lost") == 1
    await world.settle()
    assert world.segment_files(queue) == []


async def test_they_can_be_browsed_and_copied_where_they_are(world: World) -> None:
    queue = await with_gammas(world, 300)
    browsed = await queue.browse(0, 300, 1 << 30)
    expect(browsed, range(300))
    copied: list[QueuedMessage] = []
    below = 300
    while below:
        pieces: list[Piece] = []
        queue.collect(below, [], pieces.append)
        await world.workers.settle()
        copied[:0] = pieces[0].messages
        below = pieces[0].start
    expect(copied, range(300))
    newer: list[Piece] = []
    queue.collect_newer(200, [], newer.append)
    await world.workers.settle()
    expect(newer[0].messages, range(200, newer[0].below))
    assert queue.bodiless_count > 100, "the queue has not got them back"
    expect(await world.drain(queue), range(300))


async def test_priorities_are_served_in_order(world: World) -> None:
    queue = PriorityBacking(2, lambda level: world.queue(level_name("q", level)))
    for number in range(300):
        properties = PropertyBlock(bytes([0x18, 0, 2, number % 3]))
        queue.publish(Message(ROUTE_KEY, properties, body(number)), 1_000_000 + number, None, 0)
    for level in range(3):
        world.queue(level_name("q", level)).save_memory(200 * PLACE_BYTES)
    await world.settle()
    assert all(backing.status(0)["gamma"] > 30 for backing in world.storage.backings.values())
    taken = await world.drain(queue)
    for level in range(3):
        expect(taken[100 * (2 - level) : 100 * (3 - level)], range(level, 300, 3))


async def test_those_that_clients_have_lose_their_bodies_and_get_them_back(world: World) -> None:
    queue = world.queue()
    publish(queue, range(100))
    await world.settle()
    held = [await world.fetch(queue) for _ in range(100)]
    queue.drop_unacked(held)
    assert all(is_bodiless(queued) for queued in held)
    assert queue.figures().unacked_paged_out == 100
    queue.requeue(held)
    expect(await world.drain(queue), range(100))


async def test_the_target_of_a_priority_queue_is_infinite_while_that_of_one_level_is(
    world: World,
) -> None:
    queue = PriorityBacking(1, lambda level: world.queue(level_name("q", level)))
    queue.publish(Message(ROUTE_KEY, PropertyBlock(bytes([0x18, 0, 2, 0])), body(1)), 0, None, 0)
    queue.publish(Message(ROUTE_KEY, PropertyBlock(bytes([0x18, 0, 2, 1])), body(2)), 0, None, 0)
    assert queue.status(0)["target_ram_count"] == "infinity"
    for kept in ((1,), (0, 1)):
        for level in kept:
            world.queue(level_name("q", level)).save_memory(200 * PLACE_BYTES)
        assert (queue.status(0)["target_ram_count"] == "infinity") is (len(kept) == 1)
