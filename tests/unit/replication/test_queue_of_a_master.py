"""A queue whose backing is that of a master: what clients get while it is frozen, or gone."""

from __future__ import annotations

import pytest

from broker_world import RecordingHost
from link_world import RemoteClient
from replica_world import Confirmed, ReplicaWorld, message
from warren.cluster.queue_moves import follow_freezing
from warren.model.records import QueueRecord
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings


@pytest.fixture
def world() -> ReplicaWorld:
    return ReplicaWorld()


def queue_of(world: ReplicaWorld, settings: QueueSettings | None = None) -> Queue:
    queue = Queue(QueueRecord("/", "q"), settings or QueueSettings(), world.master, RecordingHost())
    follow_freezing(queue, world.master)
    return queue


@pytest.mark.parametrize("no_ack", [False, True])
@pytest.mark.parametrize("settings", [QueueSettings(), QueueSettings(max_length=10)])
def test_a_frozen_queue_delivers_nothing_and_goes_on_in_order_when_it_thaws(
    world: ReplicaWorld, settings: QueueSettings, no_ack: bool
) -> None:
    queue = queue_of(world, settings)
    client = RemoteClient()
    queue.add_consumer(client.consumer(queue, no_ack))  # type: ignore[arg-type]
    queue.publish(message(1), None, 0)
    assert client.bodies() == [b"1"]
    world.master.freeze()
    queue.publish(message(2), None, 0)
    queue.publish(message(3), None, 0)
    assert client.bodies() == []
    assert queue.get() is None
    world.master.thaw()
    assert client.bodies() == [b"2", b"3"]
    queue.publish(message(4), None, 0)
    assert client.bodies() == [b"4"]


def test_messages_whose_time_is_up_in_a_frozen_queue_wait_until_it_thaws(
    world: ReplicaWorld,
) -> None:
    queue = queue_of(world, QueueSettings(message_ttl_ms=10))
    queue.publish(message(1), None, 0)
    world.master.freeze()
    queue.host.clock.advance(20)
    queue.publish(message(2), None, 0)
    assert queue.message_count == 2
    world.master.thaw()
    assert queue.message_count == 1
    queue.host.clock.advance(20)
    assert queue.message_count == 0


def test_a_queue_that_is_led_elsewhere_gives_nothing_out(world: ReplicaWorld) -> None:
    """Its messages are a mirror's now."""
    queue = queue_of(world, QueueSettings(message_ttl_ms=10))
    client = RemoteClient()
    queue.publish(message(1), None, 0)
    world.master.depose()
    queue.stop()
    queue.add_consumer(client.consumer(queue))  # type: ignore[arg-type]
    queue.host.clock.advance(20)
    queue.pump()
    assert (client.bodies(), queue.get(), queue.message_count) == ([], None, 1)


def test_3_18_publishers_are_answered_when_the_queue_is_deleted(world: ReplicaWorld) -> None:
    """Whether its mirrors have heard of them or not."""
    queue = queue_of(world)
    world.join("b")
    world.master.set_in_sync(["b"])
    publisher = Confirmed()
    queue.publish(message(1), publisher, 1)
    world.end_turn()
    queue.publish(message(2), publisher, 2)
    assert publisher.confirmations == []
    queue.delete()
    world.sync_all()
    assert (publisher.confirmations, publisher.rejections) == ([1, 2], [])


def test_3_29_the_time_that_an_unused_queue_has_left_begins_again_with_a_promotion(
    world: ReplicaWorld,
) -> None:
    settings = QueueSettings(expires_ms=3_000)
    queue = queue_of(world, settings)
    clock = queue.host.clock
    clock.advance(2_000)
    world.master.depose()
    queue.stop()
    promoted = Queue(queue.record, settings, world.here.levels[0], queue.host)
    clock.advance(2_000)
    assert queue.host.expired_queues == []
    clock.advance(1_500)
    assert queue.host.expired_queues == [promoted]
