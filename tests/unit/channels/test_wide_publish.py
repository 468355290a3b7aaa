"""A publish to very many queues: in slices, confirmed once, and never lost by a change between."""

from __future__ import annotations

import itertools
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from broker_world import RecordingHost
from warren.channels.confirms import Confirms
from warren.channels.route import Route
from warren.channels.wide_publish import QUEUES_AT_ONCE_MAX, publish_widely
from warren.model.counters import ExchangeCounters, MessageCounters
from warren.model.records import QueueRecord
from warren.queues.boundary import PENDING, REJECTED, TAKEN
from warren.queues.memory_backing import MemoryBacking
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings
from warren.routing.topology_version import TopologyVersion
from warren.wire.codec import FrameReader, Message, OutputBuffer, PropertyBlock

COUNT = 3 * QUEUES_AT_ONCE_MAX + 5
MESSAGE = Message(b"\0\0", PropertyBlock(b"\0\0"), b"m")


class WaitingQueue(Queue):
    """A queue that answers as the test says, and remembers who wants to be told."""

    answer = TAKEN

    def publish(self, message: Message, publisher: Any, sequence: int) -> int:
        super().publish(message, None, 0)
        self.told = publisher
        return self.answer


class World:
    def __init__(self, makes: type[Queue]) -> None:
        host = RecordingHost()
        self.queues = [
            makes(QueueRecord("/", f"q{n}"), QueueSettings(), MemoryBacking(), host)
            for n in range(COUNT)
        ]
        self.output = OutputBuffer(4096, 1 << 20, lambda: None)
        self.confirms = Confirms(1, self.output, lambda due: None, MessageCounters())
        self.by_name = {queue.record.name: queue for queue in self.queues}
        self.channel: Any = SimpleNamespace(
            version=TopologyVersion(),
            confirms=self.confirms,
            vhost=SimpleNamespace(queues=self.by_name),
        )

    def publish(self) -> Coroutine[Any, Any, None]:
        route = Route(tuple(self.queues), ExchangeCounters())
        return publish_widely(self.channel, MESSAGE, route, self.channel.version.value)

    def have(self) -> int:
        return sum(queue.message_count for queue in self.queues)

    def told(self) -> list[Any]:
        """Return the frames that tell of confirms."""
        self.confirms.flush()
        return FrameReader(4096, 1 << 20).feed(b"".join(self.output.take()))


def turns_of(work: Coroutine[Any, Any, None]) -> Iterator[int]:
    with suppress(StopIteration):
        for turn in itertools.count(1):
            yield turn
            work.send(None)


@pytest.fixture
def world() -> World:
    return World(Queue)


def test_a_few_queues_get_it_in_each_turn_and_one_confirm_follows(world: World) -> None:
    having = []
    for _ in turns_of(world.publish()):
        having.append(world.have())
        assert world.told() == []
    assert max(after - before for before, after in itertools.pairwise(having)) <= QUEUES_AT_ONCE_MAX
    assert world.have() == COUNT
    assert len(world.told()) == 1
    assert world.confirms.unconfirmed == {}


def test_it_is_confirmed_when_the_last_queue_has_it_safe() -> None:
    world = World(WaitingQueue)
    WaitingQueue.answer = PENDING
    work = world.publish()
    work.send(None)
    for queue in world.queues[:QUEUES_AT_ONCE_MAX]:
        queue.told.confirmed(1)  # type: ignore[attr-defined]
    assert world.told() == []
    list(turns_of(work))
    for queue in world.queues[QUEUES_AT_ONCE_MAX:]:
        assert world.told() == []
        queue.told.confirmed(1)  # type: ignore[attr-defined]
    assert len(world.told()) == 1


def test_one_refusal_rejects_it_once() -> None:
    world = World(WaitingQueue)
    WaitingQueue.answer = REJECTED
    list(turns_of(world.publish()))
    (frame,) = world.told()
    assert frame.payload[3] == 120  # basic.nack
    assert world.have() == COUNT


def test_a_queue_that_has_another_master_between_two_slices_gets_it_there(world: World) -> None:
    work = world.publish()
    work.send(None)
    moved, gone = world.queues[-1], world.queues[-2]
    elsewhere = Queue(moved.record, QueueSettings(), MemoryBacking(), RecordingHost())
    world.by_name[moved.record.name] = elsewhere
    del world.by_name[gone.record.name]
    world.channel.version.bump()
    list(turns_of(work))
    assert (elsewhere.message_count, moved.message_count, gone.message_count) == (1, 0, 0)
    assert world.have() == COUNT - 2
    assert len(world.told()) == 1


def test_a_queue_that_has_another_master_before_the_first_slice_gets_it_there(world: World) -> None:
    """The coroutine begins a turn after its queues were found."""
    work = world.publish()
    moved = world.queues[0]
    elsewhere = Queue(moved.record, QueueSettings(), MemoryBacking(), RecordingHost())
    world.by_name[moved.record.name] = elsewhere
    world.channel.version.bump()
    list(turns_of(work))
    assert (elsewhere.message_count, moved.message_count) == (1, 0)


def test_a_refusal_between_two_slices_rejects_it_once_and_the_others_get_it() -> None:
    world = World(WaitingQueue)
    WaitingQueue.answer = PENDING
    work = world.publish()
    work.send(None)
    world.queues[0].told.rejected(1)  # type: ignore[attr-defined]
    list(turns_of(work))
    (frame,) = world.told()
    assert frame.payload[3] == 120  # basic.nack
    assert world.have() == COUNT
