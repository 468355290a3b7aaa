"""Mirrored queues that deduplicate: a mirror that is promoted knows the ids."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, ClassVar

import pytest

from broker_world import RecordingHost
from replica_world import Confirmed, ReplicaWorld
from topology_samples import table
from warren.model.records import QueueRecord
from warren.queues.boundary import PENDING, TAKEN
from warren.queues.deduplicating_queue import DeduplicatingQueue
from warren.queues.id_keeping import IDS_LEVEL, IdKeepingBacking
from warren.queues.id_records import ids_of, is_id
from warren.queues.settings import QueueSettings
from warren.replication.classic.instructions import decode, first_sequence_of
from warren.replication.classic.master import MasterBacking
from warren.storage.queue.variable_queue import VariableQueue
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import Properties, encode_properties

WINDOW = QueueSettings(deduplicates=True, window_size=3)
WHILE_IN_QUEUE = QueueSettings(deduplicates=True)


class World(ReplicaWorld):
    made: ClassVar[list[World]] = []

    def __init__(self, settings: QueueSettings) -> None:
        super().__init__(0, backing=IdKeepingBacking)
        self.made.append(self)
        self.queue_settings = settings
        self.work: list[Coroutine[Any, Any, None]] = []
        self.queue = self.queue_of(self.master)

    def queue_of(self, master: MasterBacking) -> DeduplicatingQueue:
        return DeduplicatingQueue(
            QueueRecord("/", "q"), self.queue_settings, master, RecordingHost(), self.work.append
        )

    def consume_all(self) -> None:
        while (queued := self.queue.get()) is not None:
            self.queue.acked([queued])

    def promote(self, name: str) -> DeduplicatingQueue:
        mirror = self.mirrors.pop(name)
        backing = IdKeepingBacking(0, self.replicas[name].level)
        for number, level in mirror.levels.items():
            backing.add_level(number, level)
        master = MasterBacking(backing, name, self)
        master.inherit(mirror, first_sequence_of(2))
        queue = self.queue_of(master)
        queue.loaded()
        for coroutine in self.work:
            asyncio.run(coroutine)
        return queue


def with_id(number: int, body: bytes = b"") -> Message:
    headers = table({"x-deduplication-header": number})
    block = PropertyBlock(encode_properties(Properties(headers=headers, delivery_mode=2)))
    return Message(b"\x00\x01q", block, body or b"%d" % number)


def ids_in(level: VariableQueue) -> int:
    return sum(len(ids_of(queued.message)) for queued in level.in_memory())


@pytest.fixture(autouse=True)
def finished_turns() -> Iterator[None]:
    """Turns of the loop that a test does not end are ended for it."""
    yield
    for world in World.made:
        for coroutine in world.work:
            coroutine.close()
    World.made.clear()


def test_ids_go_to_mirrors_in_one_batch_with_their_messages() -> None:
    """Or a mirror could be promoted that has confirmed messages, and not their ids."""
    world, count = World(QueueSettings(deduplicates=True, window_size=5_000)), 2_000
    world.join("b")
    world.deliver()
    told = []
    for number in range(count):
        world.queue.publish(with_id(number, b"." * 1_000), None, 0)
    world.end_turn()
    named, published = set(), 0
    for payload in world.sent:
        _, _, messages = decode(payload)
        numbers = {message for message in messages if not is_id(message)}
        named |= {place for m in messages if is_id(m) for _, place in ids_of(m)}
        published += len(numbers)
        told.append((published, len(named)))
    assert len(told) > 1, "they are too many for one batch"
    assert all(messages == ids for messages, ids in told)
    assert told[-1] == (count, count)


def test_a_promoted_mirror_knows_the_ids_of_what_was_consumed() -> None:
    world = World(WINDOW)
    world.join("b")
    for number in range(4):
        world.queue.publish(with_id(number), None, 0)
    world.consume_all()
    world.deliver()
    world.sync_all()
    queue = world.promote("b")
    assert queue.message_count == 0
    for number in (1, 2, 3):
        assert queue.publish(with_id(number), None, 0) == TAKEN
    assert queue.message_count == 0
    queue.publish(with_id(0), None, 0)
    assert queue.message_count == 1, "of three ids it was the oldest, and forgotten"


def test_a_mirror_that_comes_later_is_given_the_ids() -> None:
    world = World(WINDOW)
    for number in range(2):
        world.queue.publish(with_id(number), None, 0)
    world.consume_all()
    world.queue.publish(with_id(2), None, 0)
    world.join("b")
    world.synchroniser.start()
    world.finish_sync()
    assert world.complete == ["b"]
    queue = world.promote("b")
    for number in range(3):
        queue.publish(with_id(number), None, 0)
    assert (queue.message_count, queue.duplicates) == (1, 3)


def test_a_forgotten_id_is_forgotten_by_mirrors() -> None:
    world = World(WINDOW)
    mirror = world.join("b")
    for number in range(10):
        world.queue.publish(with_id(number), None, 0)
        world.deliver()
    assert mirror.levels[IDS_LEVEL].length == 3


def test_ids_of_messages_that_are_there_are_known_from_these() -> None:
    world = World(WHILE_IN_QUEUE)
    world.join("b")
    world.queue.publish(with_id(1), None, 0)
    world.queue.publish(with_id(2), None, 0)
    queued = world.queue.get()
    assert queued is not None
    world.queue.acked([queued])
    world.deliver()
    world.sync_all()
    queue = world.promote("b")
    for number in (1, 2):
        queue.publish(with_id(number), None, 0)
    assert (queue.message_count, queue.duplicates) == (2, 1)


@pytest.mark.parametrize("settings", [WINDOW, WHILE_IN_QUEUE])
def test_a_repeat_is_confirmed_when_the_mirrors_have_the_first(settings: QueueSettings) -> None:
    world, first, second = World(settings), Confirmed(), Confirmed()
    world.join("b")
    world.deliver()
    world.master.set_in_sync(["b"])
    assert world.queue.publish(with_id(1), first, 1) == PENDING
    assert world.queue.publish(with_id(1), second, 5) == PENDING
    world.here.sync()
    assert (first.confirmations, second.confirmations) == ([], [])
    world.deliver()
    world.sync_all()
    assert (first.confirmations, second.confirmations) == ([1], [5])


def test_a_purge_leaves_the_window_to_mirrors_too() -> None:
    world = World(WINDOW)
    mirror = world.join("b")
    for number in range(3):
        world.queue.publish(with_id(number), None, 0)
    world.queue.purge()
    world.deliver()
    assert mirror.levels[0].length == 0
    assert ids_in(mirror.levels[IDS_LEVEL]) == 3


def test_what_a_purge_tells_mirrors_does_not_grow_with_the_window() -> None:
    world = World(QueueSettings(deduplicates=True, window_size=5_000))
    mirror = world.join("b")
    for number in range(5_000):
        world.queue.publish(with_id(number), None, 0)
    world.deliver()
    world.queue.purge()
    assert len(world.sent[-1]) < 100
    world.deliver()
    assert ids_in(mirror.levels[IDS_LEVEL]) == 5_000


def test_a_queue_that_becomes_mirrored_hands_over_the_ids_it_has() -> None:
    """As a master adopts what clients have."""
    world = World(WINDOW)
    keeper = world.queue.keeper
    world.queue.backing = keeper
    world.queue.publish(with_id(1), None, 0)
    world.consume_all()
    world.queue.backing = world.master
    world.master.adopt_unacked(world.queue.id_records())
    world.join("b")
    world.synchroniser.start()
    world.finish_sync()
    queue = world.promote("b")
    queue.publish(with_id(1), None, 0)
    assert (queue.message_count, queue.duplicates) == (0, 1)
