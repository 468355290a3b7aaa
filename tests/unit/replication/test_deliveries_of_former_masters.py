"""A client settles what the master before us delivered to it: that is void, for it comes again."""

from __future__ import annotations

import pytest

from broker_world import RecordingHost
from replica_world import Replica, ReplicaWorld, message
from warren.model.records import QueueRecord
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.mirror import Mirror
from warren.wire.codec import Message, QueuedMessage


@pytest.fixture
def world() -> ReplicaWorld:
    """Its master was a mirror, and has delivered one message and has another."""
    world = ReplicaWorld()
    mirror = Mirror("here", Replica().level, lambda *_: None, lambda: None)
    world.master.inherit(mirror, 0)
    world.master.publish(message(1), 0, None, 0)
    world.master.publish(message(2), 0, None, 0)
    assert world.master.fetch(True) is not None
    world.deliver()
    return world


def stranger(number: int) -> QueuedMessage:
    """Another message under the number of one that a client has from this master."""
    return QueuedMessage(message(number), 0, 0)


def test_to_acknowledge_it_takes_no_other_message_away(world: ReplicaWorld) -> None:
    world.master.ack([stranger(9)])
    world.end_turn()
    assert world.sent == []
    assert (world.master.unacked_count, len(world.master.unacked)) == (1, 1)


def test_to_return_it_makes_no_message_of_it(world: ReplicaWorld) -> None:
    world.master.requeue([stranger(9)])
    world.end_turn()
    assert world.sent == []
    assert (world.master.length, world.master.unacked_count) == (1, 1)


def test_to_reject_it_sends_nothing_to_a_dead_letter_exchange(world: ReplicaWorld) -> None:
    dead: list[Message] = []
    host = RecordingHost()
    host.dead_letter = lambda queue, messages, reason: dead.extend(messages)  # type: ignore[method-assign]
    settings = QueueSettings(dead_letter_exchange="dead")
    queue = Queue(QueueRecord("/", "q"), settings, world.master, host)
    queue.rejected([stranger(9)])
    assert dead == []
    assert world.master.unacked_count == 1


def test_what_this_master_delivered_is_settled_as_always(world: ReplicaWorld) -> None:
    (queued,) = world.master.unacked.values()
    world.master.ack([stranger(9), queued])
    world.end_turn()
    assert len(world.sent) == 1
    assert world.master.unacked_count == 0


def test_a_master_that_founded_the_group_settles_what_was_delivered_before() -> None:
    world = ReplicaWorld()
    world.here.levels[0].publish(message(1), 0, None, 0)
    queued = world.here.levels[0].fetch(True)
    assert queued is not None
    master = MasterBacking(world.here.levels[0], "here", world)
    master.ack([queued])
    assert master.unacked_count == 0
