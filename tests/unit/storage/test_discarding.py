"""Discarding what a queue has let go of: a slice a turn, and the index is told in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warren.flow.credit import Credit
from warren.storage.index.states import JOURNALED
from warren.storage.queue.discarding import DISCARDED_AT_ONCE_MAX
from warren.storage.queue.variable_queue import VariableQueue
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

COUNT = 3 * DISCARDED_AT_ONCE_MAX + 10
PERSISTENT = PropertyBlock(b"\x10\x00\x02")


class Storage:
    """The index and the reader of a queue: notes what is acknowledged, and in which steps."""

    def __init__(self) -> None:
        self.credit = Credit(1 << 30)
        self.debtor: Any = None
        self.soon: list[Callable[[], None]] = []
        self.acked: list[int] = []
        self.ranges: list[tuple[int, int]] = []
        self.steps: list[int] = []

    def publish(self, queued: QueuedMessage) -> None:
        queued.state = JOURNALED

    def ack(self, run: list[QueuedMessage]) -> None:
        assert not self.ranges, "a range on disk is told last"
        self.acked += [queued.sequence for queued in run]
        self.steps.append(len(run))

    def ack_range(self, start: int, end: int) -> None:
        self.ranges.append((start, end))

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def take_turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


def filled(count: int) -> tuple[VariableQueue, Any]:
    storage: Any = Storage()
    queue = VariableQueue(lambda: storage, True, storage)
    for number in range(count):
        body = b"%d" % number
        queue.publish(Message(b"\x00\x01q", PERSISTENT, body), 0, None, 0)
    return queue, storage


def test_a_purge_of_many_is_exact_at_once_and_told_a_slice_a_turn() -> None:
    queue, storage = filled(COUNT)
    returned = [queue.fetch(True) for _ in range(20)]
    queue.requeue([queued for queued in returned if queued is not None])
    assert queue.purge() == COUNT
    assert (queue.length, queue.ready_bytes) == (0, 0)
    assert len(storage.acked) == DISCARDED_AT_ONCE_MAX
    queue.publish(Message(b"\x00\x01q", PERSISTENT, b"later"), 0, None, 0)
    while queue.is_discarding():
        storage.take_turn()
    assert sorted(storage.acked) == list(range(COUNT))
    assert max(storage.steps) <= DISCARDED_AT_ONCE_MAX
    assert queue.length == 1
    kept = queue.fetch(True)
    assert kept is not None
    assert bytes(kept.message.body) == b"later"


def test_a_purge_of_few_is_done_when_it_returns() -> None:
    queue, storage = filled(DISCARDED_AT_ONCE_MAX)
    assert queue.purge() == DISCARDED_AT_ONCE_MAX
    assert not queue.is_discarding()
    assert not storage.soon
    assert len(storage.acked) == DISCARDED_AT_ONCE_MAX


def test_what_is_on_disk_is_told_after_what_was_in_memory() -> None:
    queue, storage = filled(COUNT)
    queue.delta_start, queue.delta_end, queue.delta_count = COUNT, COUNT + 5, 5
    queue.length += 5
    assert queue.purge() == COUNT + 5
    assert storage.ranges == []
    while queue.is_discarding():
        storage.take_turn()
    assert storage.ranges == [(COUNT, COUNT + 5)]


def test_a_second_purge_meanwhile_takes_its_turn() -> None:
    queue, storage = filled(COUNT)
    queue.purge()
    queue.publish(Message(b"\x00\x01q", PERSISTENT, b"later"), 0, None, 0)
    assert queue.purge() == 1
    while queue.is_discarding():
        storage.take_turn()
    assert sorted(storage.acked) == list(range(COUNT + 1))


def test_a_stop_finishes_what_is_left() -> None:
    queue, storage = filled(COUNT)
    queue.purge()
    queue.discarding.finish()
    assert sorted(storage.acked) == list(range(COUNT))


def test_a_deleted_queue_tells_its_index_nothing_and_frees_messages_a_slice_a_turn() -> None:
    queue, storage = filled(COUNT)
    queue.purge()
    told = len(storage.acked)
    queue.delete()
    assert not queue.is_discarding()
    turns = 0
    while storage.soon:
        storage.take_turn()
        turns += 1
    assert turns >= COUNT // DISCARDED_AT_ONCE_MAX - 1
    assert len(storage.acked) == told
