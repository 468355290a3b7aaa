"""Very many deliveries settled at once: in slices, in their order, and others have their turn."""

from __future__ import annotations

import itertools
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from broker_world import RecordingHost, publish_to
from warren.channels.settling import (
    LOOKED_AT_ONCE_MAX,
    SETTLED_AT_ONCE_MAX,
    SLICE,
    Settlement,
    ack_many,
    nack_in_slices,
    recover_in_slices,
)
from warren.model.counters import MessageCounters
from warren.model.records import QueueRecord
from warren.queues.consumers import Consumer
from warren.queues.delivery import Deliveries, TurnClock, UnknownDeliveryTag
from warren.queues.memory_backing import MemoryBacking
from warren.queues.queue import DELIVERED_PER_TURN_MAX, Queue
from warren.queues.settings import QueueSettings
from warren.wire.codec import OutputBuffer

COUNT = 3 * SETTLED_AT_ONCE_MAX + 100


def make_consumer(queue: Queue) -> Consumer:
    output = OutputBuffer(131_072, 1 << 30, lambda: None)
    deliveries = Deliveries(1, output, TurnClock(), MessageCounters())
    return Consumer(queue, deliveries, "tag", False, 0)


class Holding:
    """A queue, a channel that has COUNT messages of it, and a consumer of somebody else."""

    def __init__(self) -> None:
        self.host = RecordingHost()
        self.queue = Queue(QueueRecord("/", "q"), QueueSettings(), MemoryBacking(), self.host)
        holder = make_consumer(self.queue)
        self.queue.add_consumer(holder)
        for number in range(COUNT):
            publish_to(self.queue, str(number).encode())
        self.queue.remove_consumer(holder)
        self.suspended: list[Coroutine[Any, Any, None]] = []
        session = SimpleNamespace(suspend=lambda channel, work, ids: self.suspended.append(work))
        self.channel: Any = SimpleNamespace(deliveries=holder.deliveries, session=session)
        self.other = make_consumer(self.queue)
        self.queue.add_consumer(self.other)
        assert self.taken_by_other() == []

    def taken_in_the_end(self) -> list[int]:
        """Return what the other consumer has when it has been given all that it can have."""
        self.host.clock.advance(0)
        return self.taken_by_other()

    def taken_by_other(self) -> list[int]:
        return [int(queued.message.body) for queued in self.other.deliveries.unacked.values()]

    def nack(self, settlement: Settlement, last: int = COUNT) -> Coroutine[Any, Any, None]:
        return nack_in_slices(self.channel, settlement, 1, last)


def turns_of(work: Coroutine[Any, Any, None]) -> Iterator[int]:
    """Run it, and count its turns."""
    with suppress(StopIteration):
        for turn in itertools.count(1):
            yield turn
            work.send(None)


def run(work: Coroutine[Any, Any, None]) -> int:
    """Return how many turns it took."""
    return max(turns_of(work))


def test_what_is_returned_in_slices_is_delivered_in_its_order_when_all_is_back() -> None:
    world = Holding()
    work = world.nack(Settlement.REQUEUE)
    lengths = []
    for _ in turns_of(work):
        lengths.append(world.queue.message_count)
        assert world.taken_by_other() == []
        assert world.queue.get() is None
    steps = [after - before for before, after in itertools.pairwise(lengths)]
    assert len(lengths) > COUNT // SLICE
    assert max(steps) <= SLICE
    assert len(world.taken_by_other()) == DELIVERED_PER_TURN_MAX
    assert world.taken_in_the_end() == list(range(COUNT))
    assert not world.channel.deliveries.unacked


def test_a_publish_meanwhile_does_not_overtake() -> None:
    world = Holding()
    work = world.nack(Settlement.REQUEUE)
    for _ in range(5):
        work.send(None)
    publish_to(world.queue, b"-1")
    run(work)
    assert world.taken_in_the_end() == [*range(COUNT), -1]


def test_only_the_deliveries_that_are_named_are_settled() -> None:
    world = Holding()
    run(world.nack(Settlement.REJECT, COUNT - 7))
    assert len(world.channel.deliveries.unacked) == 7
    assert world.channel.deliveries.settled_below == COUNT - 6
    assert (world.queue.message_count, world.taken_by_other()) == (0, [])


def test_all_are_recovered_a_slice_a_turn() -> None:
    world = Holding()
    turns = -(-COUNT // LOOKED_AT_ONCE_MAX) + -(-COUNT // SLICE)
    assert run(recover_in_slices(world.channel)) == turns + 1
    assert world.taken_in_the_end() == list(range(COUNT))


def test_a_channel_that_ends_meanwhile_returns_the_rest_and_nothing_is_lost() -> None:
    world = Holding()
    work = world.nack(Settlement.REQUEUE)
    for _ in range(6):
        work.send(None)
    deliveries = world.channel.deliveries
    deliveries.settle_requeued(deliveries.take_all())
    run(work)
    assert world.taken_in_the_end() == list(range(COUNT))
    assert world.queue.returning == 0


def test_very_many_deliveries_are_acknowledged_a_slice_a_turn() -> None:
    world = Holding()
    ack_many(world.channel, COUNT - 7)
    (work,) = world.suspended
    left = [len(world.channel.deliveries.unacked) for _ in turns_of(work)]
    assert max(before - after for before, after in itertools.pairwise(left)) <= SLICE
    assert list(world.channel.deliveries.unacked) == list(range(COUNT - 6, COUNT + 1))
    assert world.queue.counters.ack == COUNT - 7


def test_few_deliveries_are_acknowledged_at_once() -> None:
    world = Holding()
    ack_many(world.channel, SETTLED_AT_ONCE_MAX)
    assert not world.suspended
    assert len(world.channel.deliveries.unacked) == COUNT - SETTLED_AT_ONCE_MAX


def test_an_unknown_tag_acknowledges_nothing() -> None:
    world = Holding()
    with pytest.raises(UnknownDeliveryTag):
        ack_many(world.channel, COUNT + 1)
    assert len(world.channel.deliveries.unacked) == COUNT


def test_what_was_settled_one_by_one_between_costs_no_turns() -> None:
    """Two deliveries may have two million numbers between them."""
    world = Holding()
    deliveries = world.channel.deliveries
    for tag in range(2, COUNT):
        deliveries.ack(tag, False)
    queued = deliveries.unacked.pop(COUNT)
    deliveries.unacked[COUNT + 1_000_000_000] = queued
    deliveries.next_tag = COUNT + 1_000_000_001
    ack_many(world.channel, 0)
    assert not world.suspended
    assert not deliveries.unacked
    assert world.queue.counters.ack == COUNT


def test_one_ack_of_many_numbers_looks_at_the_deliveries_that_are_left() -> None:
    world = Holding()
    deliveries = world.channel.deliveries
    queued = deliveries.unacked.pop(COUNT)
    deliveries.unacked[COUNT + 1_000_000_000] = queued
    deliveries.next_tag = COUNT + 1_000_000_001
    assert run(world.nack(Settlement.REQUEUE, COUNT + 1_000_000_000)) <= COUNT // SLICE + 8
    assert world.taken_in_the_end() == list(range(COUNT))
