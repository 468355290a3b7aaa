"""Queues that take each id once: what is dropped, what is remembered, and what publishers hear."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from struct import Struct
from typing import Any, ClassVar

import pytest

from broker_world import RecordingHost
from topology_samples import table
from warren.model.counters import MessageCounters
from warren.model.records import QueueRecord
from warren.queues.boundary import PENDING, REJECTED, TAKEN, Publisher
from warren.queues.consumers import Consumer
from warren.queues.deduplicating_queue import DeduplicatingQueue
from warren.queues.delivery import Deliveries, TurnClock
from warren.queues.id_keeping import IDS_LEVEL, IdKeepingBacking
from warren.queues.id_records import add_fields, pack_of
from warren.queues.memory_backing import MemoryBacking
from warren.queues.settings import Overflow, QueueSettings
from warren.wire.codec import Message, OutputBuffer, PropertyBlock, QueuedMessage
from warren.wire.properties import Properties, encode_properties

WHILE_IN_QUEUE = QueueSettings(deduplicates=True)
WINDOW_OF_TWO = QueueSettings(deduplicates=True, window_size=2)


class Disk(MemoryBacking):
    """What is published is safe when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Publisher, int]] = []

    def publish(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> int:
        super().publish(message, expires_at_ms, publisher, sequence)
        return self._answer_later(publisher, sequence)

    def publish_delivered(
        self, queued: QueuedMessage, publisher: Publisher | None, sequence: int
    ) -> int:
        super().publish_delivered(queued, publisher, sequence)
        return self._answer_later(publisher, sequence)

    def _answer_later(self, publisher: Publisher | None, sequence: int) -> int:
        if publisher is None:
            return TAKEN
        self.waiting.append((publisher, sequence))
        return PENDING

    def sync(self) -> None:
        waiting, self.waiting = self.waiting, []
        for publisher, sequence in waiting:
            publisher.confirmed(sequence)

    def fail(self) -> None:
        waiting, self.waiting = self.waiting, []
        for publisher, sequence in waiting:
            publisher.rejected(sequence)


class Client:
    origin = None

    def __init__(self) -> None:
        self.acks: list[int] = []
        self.nacks: list[int] = []

    def confirmed(self, sequence: int) -> None:
        self.acks.append(sequence)

    def rejected(self, sequence: int) -> None:
        self.nacks.append(sequence)


class World:
    made: ClassVar[list[World]] = []

    def __init__(self, settings: QueueSettings, is_slow: bool = False) -> None:
        self.made.append(self)
        self.host = RecordingHost()
        self.settings = settings
        self.levels: dict[int, Disk] = {}
        self.is_slow = is_slow
        self.work: list[Coroutine[Any, Any, None]] = []
        self.queue = self.make(IdKeepingBacking(0, self._level))

    def make(self, backing: IdKeepingBacking) -> DeduplicatingQueue:
        record = QueueRecord("/", "q")
        return DeduplicatingQueue(record, self.settings, backing, self.host, self.work.append)

    def _level(self, number: int) -> MemoryBacking:
        if not self.is_slow:
            return MemoryBacking()
        level = self.levels[number] = Disk()
        return level

    def publish(self, key: str, client: Client | None = None, sequence: int = 0) -> int:
        return self.queue.publish(with_id(key), client, sequence)

    def consume(self, no_ack: bool = False) -> Consumer:
        output = OutputBuffer(131_072, 1_048_576, lambda: None)
        deliveries = Deliveries(1, output, TurnClock(), MessageCounters())
        consumer = Consumer(self.queue, deliveries, "tag", no_ack, 0)
        self.queue.add_consumer(consumer)
        return consumer

    def restart(self, unwritten: int = 0) -> None:
        """As after a start: whatever was kept is ready again, but for so many of the newest ids."""
        former, records = self.queue.keeper, self.queue.id_records()
        end = len(records) - unwritten
        former.requeue(records[:end])
        former.ack(records[end:])
        keeper = IdKeepingBacking(0, self._level)
        for number, level in former.items():
            keeper.add_level(number, level)
        self.queue = self.make(keeper)
        self.queue.loaded()

    def finish_work(self) -> None:
        """What was begun in the background; the turn of the loop ends, too."""
        while self.work:
            asyncio.run(self.work.pop(0))


@pytest.fixture(autouse=True)
def finished_turns() -> Iterator[None]:
    """Turns of the loop that a test does not end are ended for it."""
    yield
    for world in World.made:
        for coroutine in world.work:
            coroutine.close()
    World.made.clear()


def with_id(key: str | None) -> Message:
    headers = table({} if key is None else {"x-deduplication-header": key})
    block = PropertyBlock(encode_properties(Properties(headers=headers, delivery_mode=2)))
    return Message(b"\x00\x01q", block, b"body")


def take(queue: DeduplicatingQueue) -> QueuedMessage:
    queued = queue.get()
    assert queued is not None
    return queued


@pytest.mark.parametrize("settings", [WHILE_IN_QUEUE, WINDOW_OF_TWO])
def test_a_repeat_is_dropped_and_counts_as_taken(settings: QueueSettings) -> None:
    world = World(settings)
    assert [world.publish("a"), world.publish("a"), world.publish("b")] == [TAKEN] * 3
    assert world.queue.message_count == 2
    assert world.queue.duplicates == 1


def test_messages_without_an_id_are_all_taken() -> None:
    world = World(WHILE_IN_QUEUE)
    for _ in range(2):
        world.queue.publish(with_id(None), None, 0)
    assert world.queue.message_count == 2


def test_an_id_counts_until_its_message_is_acknowledged() -> None:
    world = World(WHILE_IN_QUEUE)
    world.publish("a")
    queued = take(world.queue)
    world.publish("a")
    assert world.queue.message_count == 0
    world.queue.requeued([queued])
    world.publish("a")
    assert world.queue.message_count == 1
    world.queue.acked([take(world.queue)])
    world.publish("a")
    assert world.queue.message_count == 1


def test_an_id_ends_with_its_message_however_that_goes() -> None:
    for leave in ("reject", "purge", "overflow", "hand over", "pass by"):
        limit = 1 if leave == "overflow" else None
        world = World(QueueSettings(deduplicates=True, max_length=limit))
        if leave == "pass by":
            world.consume(no_ack=True)
        world.publish("a")
        if leave == "reject":
            world.queue.rejected([take(world.queue)])
        elif leave == "purge":
            assert world.queue.purge() == 1
        elif leave == "overflow":
            world.publish("b")
        elif leave == "hand over":
            world.consume(no_ack=True)
        world.publish("a")
        assert world.queue.duplicates == 0, leave


def test_an_expired_message_takes_its_id_along() -> None:
    world = World(QueueSettings(deduplicates=True, message_ttl_ms=100))
    world.publish("a")
    world.host.clock.advance(200)
    world.publish("a")
    assert world.queue.duplicates == 0
    assert world.queue.message_count == 1


def test_a_window_outlives_the_messages() -> None:
    world = World(WINDOW_OF_TWO)
    world.publish("a")
    world.queue.acked([take(world.queue)])
    world.publish("a")
    assert world.queue.message_count == 0
    world.publish("b")
    world.publish("c")  # and "a" is forgotten
    world.queue.purge()
    world.publish("c")
    assert world.queue.message_count == 0
    world.publish("a")
    assert world.queue.message_count == 1


def test_a_window_ends_with_its_time() -> None:
    world = World(QueueSettings(deduplicates=True, window_ttl_ms=1_000))
    world.publish("a")
    world.host.clock.advance(999)
    world.publish("a")
    assert world.queue.message_count == 1
    world.host.clock.advance(1)
    world.publish("a")
    assert world.queue.message_count == 2


def test_ids_are_no_messages_to_anybody() -> None:
    world = World(WINDOW_OF_TWO)
    for key in "abc":
        world.publish(key)
    assert world.queue.message_count == 3
    assert world.queue.backing.unacked_count == 0
    assert world.queue.backing.figures().ready == 3
    assert world.queue.backing.figures().unacked == 0
    assert len(world.queue.id_records()) == 1
    assert dict(world.queue.keeper.items())[IDS_LEVEL].unacked_count == 1


def test_a_publisher_hears_when_message_and_id_are_safe() -> None:
    world, client = World(WINDOW_OF_TWO, is_slow=True), Client()
    assert world.publish("a", client, 1) == PENDING
    world.finish_work()
    world.levels[0].sync()
    assert client.acks == []
    world.levels[IDS_LEVEL].sync()
    assert client.acks == [1]


def test_a_repeat_is_confirmed_with_what_it_repeats() -> None:
    world, first, second = World(WHILE_IN_QUEUE, is_slow=True), Client(), Client()
    world.publish("a", first, 1)
    assert world.publish("a", second, 7) == PENDING
    world.levels[0].sync()
    assert (first.acks, second.acks) == ([1], [7])
    assert world.publish("a", second, 8) == TAKEN


def test_a_repeat_of_what_nobody_waits_for_is_confirmed_when_that_is_safe() -> None:
    world, client = World(WHILE_IN_QUEUE, is_slow=True), Client()
    assert world.publish("a") == TAKEN
    assert world.publish("a", client, 1) == PENDING
    world.levels[0].sync()
    assert client.acks == [1]


def test_a_refused_message_may_be_sent_again() -> None:
    world, first, second = World(WHILE_IN_QUEUE, is_slow=True), Client(), Client()
    world.publish("a", first, 1)
    world.publish("a", second, 1)
    world.levels[0].fail()
    assert (first.nacks, second.nacks) == ([1], [1])
    assert world.publish("a", first, 2) == PENDING
    world.levels[0].sync()
    assert first.acks == [2]


def test_a_message_that_the_queue_has_no_room_for_is_not_remembered() -> None:
    limits = QueueSettings(deduplicates=True, max_length=1, overflow=Overflow.REJECT_PUBLISH)
    world = World(limits)
    world.publish("a")
    assert world.publish("b") == REJECTED
    world.queue.acked([take(world.queue)])
    assert world.publish("b") == TAKEN
    assert world.queue.message_count == 1


def test_a_window_is_known_again_after_a_start() -> None:
    world = World(WINDOW_OF_TWO)
    for key in "ab":
        world.publish(key)
    world.queue.acked([take(world.queue), take(world.queue)])
    world.restart()
    world.finish_work()
    for key in "ba":
        world.publish(key)
    assert world.queue.message_count == 0
    world.publish("c")  # "a" was the oldest before, and is so now
    world.publish("b")
    assert world.queue.message_count == 1
    world.publish("a")
    assert world.queue.message_count == 2


def test_ids_that_were_not_written_in_time_are_those_of_the_newest_messages() -> None:
    """And only those: what is older may be in the queue though its id has been forgotten."""
    world = World(WINDOW_OF_TWO)
    for key in "abcd":
        world.publish(key)
        world.finish_work()
    world.restart(unwritten=1)
    world.finish_work()
    for key in "dcba":
        world.publish(key)
    assert world.queue.duplicates == 2
    assert world.queue.message_count == 6


def test_what_is_in_the_queue_is_looked_through_after_a_start() -> None:
    """Until then publishes wait, and nothing is delivered."""
    world, client = World(WHILE_IN_QUEUE), Client()
    world.publish("a")
    world.publish("b")
    world.restart()
    assert world.publish("a", client, 1) == PENDING
    assert world.publish("c", client, 2) == PENDING
    consumer = world.consume()
    assert consumer.unacked == 0
    assert client.acks == []
    world.finish_work()
    assert client.acks == [1, 2]
    assert world.queue.duplicates == 1
    assert consumer.unacked == 3


def test_publishers_that_wait_are_refused_when_the_queue_moves_away() -> None:
    world, client = World(WHILE_IN_QUEUE), Client()
    world.publish("a")
    world.restart()
    world.publish("b", client, 1)
    world.queue.stop()
    world.finish_work()
    assert client.nacks == [1]


def test_the_ids_of_a_turn_are_one_record() -> None:
    world = World(QueueSettings(deduplicates=True, window_size=1_000))
    for number in range(50):
        world.publish(f"{number}")
    world.finish_work()
    assert len(world.queue.id_records()) == 1
    world.publish("50")
    assert len(world.queue.id_records()) == 2


def test_a_record_of_ids_goes_with_the_last_of_them() -> None:
    world = World(QueueSettings(deduplicates=True, window_size=4))
    for keys in ("abc", "def", "g"):
        for key in keys:
            world.publish(key)
        world.finish_work()
    assert len(world.queue.id_records()) == 2, "of the first record no id is left"
    world.restart()
    world.finish_work()
    for key in "defg":
        assert world.publish(key) == TAKEN
    assert world.queue.duplicates == 4
    world.publish("c")
    assert world.queue.duplicates == 4


def test_ids_that_were_forgotten_do_not_come_back_with_their_record() -> None:
    world = World(QueueSettings(deduplicates=True, window_size=3))
    for keys in ("abc", "de"):
        for key in keys:
            world.publish(key)
        world.finish_work()
    world.queue.purge()
    world.restart()
    world.finish_work()
    for key in "ab":
        world.publish(key)
    assert (world.queue.duplicates, world.queue.message_count) == (0, 2)


def test_of_an_id_that_was_kept_twice_the_later_one_counts() -> None:
    """A record is kept though the time of its first id is up, which has come again since."""
    world = World(QueueSettings(deduplicates=True, window_ttl_ms=1_000))
    world.publish("a")
    world.host.clock.advance(500)
    world.publish("b")
    world.finish_work()
    world.host.clock.advance(600)
    world.publish("a")
    world.finish_work()
    world.restart()
    world.finish_work()
    world.host.clock.advance(900)
    world.publish("a")
    assert world.queue.duplicates == 1


def test_an_id_whose_message_was_refused_is_not_kept() -> None:
    world, client = World(QueueSettings(deduplicates=True, window_size=9), is_slow=True), Client()
    world.publish("a", client, 1)
    world.publish("b", client, 2)
    world.levels[0].fail()
    world.publish("c", client, 3)
    world.finish_work()
    world.levels[0].sync()
    world.levels[IDS_LEVEL].sync()
    assert (client.nacks, client.acks) == ([1, 2], [3])
    world.queue.purge()
    world.restart()
    world.finish_work()
    for key in "abc":
        world.publish(key)
    assert world.queue.duplicates == 1


def test_publishers_wait_no_longer_when_the_queue_is_deleted() -> None:
    world, client = World(WINDOW_OF_TWO), Client()
    assert world.publish("a", client, 1) == PENDING
    world.queue.delete()
    assert client.acks == [1]


def test_ids_of_former_versions_are_known_and_damaged_ones_passed_over() -> None:
    world = World(QueueSettings(deduplicates=True, window_size=10))
    world.publish("new")
    world.finish_work()
    properties = world.queue.id_records()[0].message.properties
    route = world.queue.id_records()[0].message.route_key
    former = Struct(">qHQ").pack(0, 0, 0) + b"sold"
    add_fields(fields := bytearray(), 0, 0, 0, 2)
    for body in (former, b"", b"\xff" * 8, pack_of([b"sx"], fields, True).body[:-1]):
        record = QueuedMessage(Message(route, properties, body), 0, 0)
        world.queue.keeper.publish_delivered(record, None, 0)
        world.queue.keeper.requeue([record])
    world.restart()
    world.finish_work()
    for key in ("new", "old", "x"):
        world.publish(key)
    assert world.queue.duplicates == 2
    assert len(world.queue.id_records()) == 3
