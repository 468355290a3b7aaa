"""Marks of a copy: what a consumer may have had is never delivered as new, whoever leads.

A copy that led once has messages that it never delivered, without a mark. When it comes back
another node has led, and may have delivered them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from replica_world import Replica as Disk
from replica_world import ReplicaWorld, message
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.mirror import Mirror
from warren.replication.group_record import (
    GroupRecord,
    Member,
    SessionGone,
    add_right_of,
    admit_to_insync,
    create,
    erase,
    forget_node,
    hand_over,
    mark_dead,
    promote,
)
from warren.replication.replica import Replica, ReplicaHost
from warren.storage.queue.variable_queue import VariableQueue
from warren.wire.codec import QueuedMessage


class FormerMaster:
    """It led with messages 1 to 6, of which a client had 1 to 3 and had returned 1."""

    def __init__(self, is_lazy: bool = False) -> None:
        self.world = ReplicaWorld()
        self.world.here.levels[0].set_lazy(is_lazy)
        master = self.world.master
        for number in range(1, 7):
            master.publish(message(number), 0, None, 0)
        self.world.sync_all()
        for index in self.world.here.indexes.values():
            index.page()
            index.finish_reads()
        had = [self._fetch(master) for _ in range(3)]
        had[0].redelivered = True
        master.requeue(had[:1])
        master.depose()
        self.levels: dict[int, VariableQueue] = dict(master.level_queues())

    def _fetch(self, master: MasterBacking) -> QueuedMessage:
        queued = master.fetch(True)
        while queued is None:
            self.world.here.indexes[0].finish_reads()
            queued = master.fetch(True)
        return queued

    def mirror(self) -> Mirror:
        mirror = Mirror("here", Disk().level, lambda *_: None, lambda: None)
        mirror.adopt(self.levels)
        return mirror

    def delivered_by(self, mirror: Mirror) -> list[tuple[int, bool]]:
        """What it delivers as master again: bodies, and whether they are marked."""
        master = MasterBacking(mirror.levels[0], "here", self.world)
        master.inherit(mirror, 1_000)
        master.publish(message(7), 0, None, 0)
        queued = [self._fetch(master) for _ in range(7)]
        return [(int(each.message.body), each.redelivered) for each in queued]


@pytest.mark.parametrize("is_lazy", [False, True])
def test_what_another_master_may_have_delivered_is_not_new(is_lazy: bool) -> None:
    former = FormerMaster(is_lazy)
    mirror = former.mirror()
    mirror.follow()
    marked = [(number, True) for number in range(1, 7)]
    assert former.delivered_by(mirror) == [*marked, (7, False)]


@pytest.mark.parametrize("is_lazy", [False, True])
def test_a_mirror_that_stops_leaves_the_marks_on_its_disk(is_lazy: bool) -> None:
    """A start may make it master with what the disk has, and then nobody else knows."""
    former = FormerMaster(is_lazy)
    former.mirror().follow()
    level, index = former.levels[0], former.world.here.indexes[0]
    index.delivered.update(
        s for first, n in level.delivered_runs() for s in range(first, first + n)
    )
    assert all(index.was_delivered(sequence) for sequence in range(6))


def test_messages_of_a_mirror_keep_their_marks_when_they_leave_memory() -> None:
    world = ReplicaWorld()
    for number in range(3):
        world.master.publish(message(number), 0, None, 0)
    world.join("mirror")
    for number in range(3, 6):
        world.master.publish(message(number), 0, None, 0)
    world.deliver()
    index = world.replicas["mirror"].indexes[0]
    assert [sequence for sequence in range(6) if index.was_delivered(sequence)] == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]
    world.synchroniser.wake()
    world.finish_sync()
    assert all(index.was_delivered(sequence) for sequence in range(6))
    world.master.publish(message(6), 0, None, 0)
    assert not index.was_delivered(6), "it has not come yet"


@pytest.mark.parametrize("is_lazy", [False, True])
def test_if_nobody_else_led_what_was_never_delivered_is_new(is_lazy: bool) -> None:
    former = FormerMaster(is_lazy)
    had = [(number, True) for number in range(1, 4)]
    new = [(number, False) for number in range(4, 8)]
    assert former.delivered_by(former.mirror()) == [*had, *new]


def test_what_a_client_of_a_deposed_master_has_is_marked() -> None:
    levels = FormerMaster().levels
    returned = [(queued.sequence, queued.redelivered) for _, queued in sorted(levels[0].returned)]
    assert returned == [(0, True), (1, True), (2, True)]


# Who led, by the record.

FORMER = Member("a/first/1", "a", "first")
ME = Member("a/second/1", "a", "second")
OTHER = Member("b/life/1", "b", "life")
BOTH = admit_to_insync(add_right_of(create("uid", FORMER), FORMER.id, OTHER), FORMER.id, OTHER.id)


class Host:
    """The node `a` in its second life: nothing of what its copy wants is done."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def is_marked_by(*records: GroupRecord) -> bool:
    """True if what the first life of node `a` left is marked, once these records were read."""
    mirror = Mirror(ME.id, Disk().level, lambda *_: None, lambda: None)
    mirror.adopt(FormerMaster().levels)
    replica = Replica(ME, "uid", cast(ReplicaHost, Host()))
    replica.record_changed(records[0], 1)
    replica.join(mirror)
    for revision, record in enumerate(records[1:], 2):
        replica.record_changed(record, revision)
    return mirror.is_marked


def test_a_copy_of_the_last_master_keeps_its_marks() -> None:
    alone = create("uid", FORMER)
    assert not is_marked_by(alone)
    assert not is_marked_by(mark_dead(alone, FORMER.id, SessionGone("a", "first")))


def test_a_copy_is_marked_once_another_node_leads() -> None:
    handed_over = hand_over(BOTH, FORMER.id, OTHER.id, keeps_copy=True)
    assert not is_marked_by(handed_over), "nobody has led since"
    erased = erase(handed_over, OTHER.id, frozenset({FORMER.id}))
    promoted = promote(erased, OTHER.id)
    assert is_marked_by(handed_over, erased, promoted)
    assert is_marked_by(promoted)


def test_a_copy_is_marked_if_another_node_led_last_and_is_gone() -> None:
    handed_over = hand_over(BOTH, FORMER.id, OTHER.id, keeps_copy=True)
    promoted = promote(erase(handed_over, OTHER.id, frozenset({FORMER.id})), OTHER.id)
    forgotten = forget_node(promoted, "b")
    assert forgotten is not None
    assert forgotten.insync == ("a//0",), "the copy of node a counts from now on"
    assert is_marked_by(forgotten)
