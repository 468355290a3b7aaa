"""A quorum queue: all that it keeps is persistent, whatever publishers say."""

from __future__ import annotations

from manual_clock import ManualClock
from warren.model.records import QueueRecord
from warren.queues.delivery import TurnClock
from warren.queues.memory_backing import MemoryBacking
from warren.queues.quorum_queue import QuorumQueue
from warren.queues.settings import QueueSettings, QueueType
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import Properties, decode_properties, encode_properties


class Host:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.turn_clock = TurnClock()


def make() -> QuorumQueue:
    settings = QueueSettings(queue_type=QueueType.QUORUM)
    return QuorumQueue(QueueRecord("/", "q"), settings, MemoryBacking(), Host())


def block(**properties: object) -> PropertyBlock:
    return PropertyBlock(encode_properties(Properties(**properties)))


def kept(queue: QuorumQueue) -> list[tuple[bytes, Properties]]:
    found = []
    while (queued := queue.get()) is not None:
        assert queued.message.properties.persistent
        found.append((queued.message.body, decode_properties(queued.message.properties.raw)))
    return found


def test_transient_messages_are_kept_as_persistent_ones_with_all_else_they_say() -> None:
    queue = make()
    shared = block(message_id="1", delivery_mode=1)
    for properties, body in ((shared, b"a"), (shared, b"b"), (block(message_id="2"), b"c")):
        queue.publish(Message(b"\0\x01q", properties, body), None, 0)
    queue.publish_again(Message(b"\0\x01q", block(message_id="3"), b"d"), None, 0)
    ids = [(body, found.message_id, found.delivery_mode) for body, found in kept(queue)]
    assert ids == [(b"a", "1", 2), (b"b", "1", 2), (b"c", "2", 2), (b"d", "3", 2)]


def test_persistent_messages_are_kept_as_they_are() -> None:
    queue, persistent = make(), block(delivery_mode=2)
    queue.publish(Message(b"\0\x01q", persistent, b"a"), None, 0)
    queued = queue.get()
    assert queued is not None
    assert queued.message.properties is persistent
