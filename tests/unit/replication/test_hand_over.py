"""A leader that is well leaves its group to somebody: the record, and what becomes of messages."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from gm_by_hand import out_of_sync
from replica_world import Confirmed, ReplicaWorld, message
from warren.replication.classic.master import MasterBacking
from warren.replication.group_record import (
    GroupRecord,
    Member,
    NotAllowed,
    SessionGone,
    add_right_of,
    admit_to_insync,
    create,
    create_together,
    erase,
    hand_over,
    heir_of,
    mark_dead,
    promote,
)
from warren.replication.hand_over import HandOver
from warren.replication.replica import Replica


def member(name: str) -> Member:
    return Member(f"{name}/1/1", name, "1")


def ident(name: str) -> str:
    return member(name).id


def ring(*names: str) -> GroupRecord:
    """The first one leads, the others came in this order; all are in sync."""
    record = create("uid", member(names[0]))
    for left, name in pairwise(names):
        record = add_right_of(record, ident(left), member(name))
        record = admit_to_insync(record, ident(names[0]), ident(name))
    return record


def left_to(record: GroupRecord, successor: str) -> GroupRecord:
    """The first leader has left, and nothing of it is under way any more."""
    left = hand_over(record, ident("a"), ident(successor))
    return erase(left, ident("b"), frozenset({ident("a")}))


def test_a_leader_names_its_successor_though_others_are_older() -> None:
    left = left_to(ring("a", "b", "c"), "c")
    heir = heir_of(left)
    assert heir is not None
    assert heir.node == "c"
    promoted = promote(left, heir.id)
    assert (promoted.leader, promoted.epoch, promoted.successor) == (ident("c"), 2, "")
    assert set(promoted.insync) == {ident("b"), ident("c")}


def test_the_eldest_in_sync_leads_if_the_successor_has_died() -> None:
    left = left_to(ring("a", "b", "c"), "c")
    heir = heir_of(mark_dead(left, ident("c"), SessionGone("c", "1")))
    assert heir is not None
    assert heir.node == "b"


@pytest.mark.parametrize("successor", ["a", "b", "nobody"])
def test_nobody_is_handed_a_queue_who_lacks_some_of_it(successor: str) -> None:
    record = out_of_sync(ring("a", "b", "c"), ident("b"))
    with pytest.raises(NotAllowed):
        hand_over(record, ident("a"), ident(successor))


@pytest.mark.parametrize("keeps_copy", [True, False])
def test_the_copy_of_a_leader_that_has_left_counts_for_something_or_not(keeps_copy: bool) -> None:
    left = hand_over(ring("a", "b"), ident("a"), ident("b"), keeps_copy)
    assert ("a" in left.recoverable) is keeps_copy
    assert ident("a") not in left.insync, "others may confirm what it has not got"


class PromotedHost:
    """The `ReplicaHost` of a mirror that becomes master of what a world has, and no more."""

    def __init__(self) -> None:
        self.world = ReplicaWorld()

    def lead(self, replica: Replica) -> MasterBacking:
        return self.world.master

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def test_a_mirror_may_tell_a_new_master_how_far_it_is_before_that_knows_that_it_leads() -> None:
    """It has read the record first, and will not say it again."""
    left = left_to(ring("a", "b", "c"), "b")
    replica = Replica(member("b"), "uid", PromotedHost())
    replica.record_changed(left, 1)
    replica.held(ident("c"), 2, 5)
    replica.record_changed(promote(left, ident("b")), 2)
    assert replica.master is not None
    assert replica.master.held_by == {ident("c"): 5}


def test_a_leader_leaves_when_everybody_in_sync_holds_all_it_was_told() -> None:
    world = ReplicaWorld()
    record = ring("a", "b", "c")
    world.master.set_in_sync([ident("b"), ident("c")])
    world.master.publish(message(1), 0, None, 0)
    leaving = HandOver(world.master, ident("a"), ident("c"), keeps_copy=False)
    number = world.master.number
    assert len(world.sent) == number == 1, "all there was to tell is told"
    assert leaving.pursue(record) is None
    world.master.held(ident("b"), number)
    assert leaving.pursue(record) is None
    world.master.held(ident("c"), number)
    handed_over = leaving.pursue(record)
    assert handed_over is not None
    assert handed_over.successor == ident("c")


def test_what_nobody_waits_for_is_kept_for_the_successor_while_a_leader_leaves() -> None:
    world = ReplicaWorld()
    world.master.set_in_sync([ident("b")])
    world.master.publish(message(1), 0, None, 0)
    leaving = HandOver(world.master, ident("a"), ident("b"), keeps_copy=False)
    world.master.publish(message(2), 0, None, 0)
    world.master.publish(message(3), 0, None, 0)
    assert [each.message.body for each in world.master.depose()] == [b"2", b"3"]
    leaving.abandon()


def test_a_leader_that_stays_after_all_keeps_nothing_back() -> None:
    world = ReplicaWorld()
    world.master.set_in_sync([ident("b")])
    HandOver(world.master, ident("a"), ident("b"), keeps_copy=False).abandon()
    world.master.publish(message(1), 0, None, 0)
    assert world.master.depose() == []


def refuse_all(world: ReplicaWorld) -> None:
    """The disk of the master takes nothing, as the index says each time it has tried."""
    for queued in world.here.indexes[0].unsynced:
        queued.publisher.rejected(queued.publisher_sequence)


def published_to_a_full_disk() -> tuple[ReplicaWorld, Confirmed]:
    """A mirror holds what the disk of the master does not take."""
    world, publisher = ReplicaWorld(), Confirmed()
    world.join("b")
    world.deliver()
    world.master.set_in_sync(["b"])
    for number in (1, 2):
        world.master.publish(message(number), 0, publisher, number)
    world.deliver()
    return world, publisher


def test_what_the_disk_refuses_waits_for_the_successor() -> None:
    world, publisher = published_to_a_full_disk()
    world.is_handing_over = True
    refuse_all(world)
    refuse_all(world)
    assert (publisher.confirmations, publisher.rejections) == ([], [])
    assert [each.message.body for each in world.master.depose()] == [b"1", b"2"]
    refuse_all(world)
    assert publisher.rejections == [], "the successor answers"


def test_what_the_disk_refuses_is_refused_once_if_nobody_else_can_lead() -> None:
    world, publisher = published_to_a_full_disk()
    refuse_all(world)
    refuse_all(world)
    assert (publisher.confirmations, publisher.rejections) == ([], [1, 2])
    world.sync_all()
    assert (publisher.confirmations, publisher.rejections) == ([], [1, 2])


def test_what_the_disk_takes_after_all_is_confirmed() -> None:
    """The successor died, and meanwhile there is room."""
    world, publisher = published_to_a_full_disk()
    world.is_handing_over = True
    refuse_all(world)
    world.is_handing_over = False
    world.sync_all()
    assert (publisher.confirmations, publisher.rejections) == ([1, 2], [])


def test_a_queue_without_any_batch_is_handed_over_though_its_mirrors_told_nothing() -> None:
    """A queue that was declared with all its copies."""
    handing = HandOver(ReplicaWorld().master, ident("a"), ident("b"), keeps_copy=False)
    assert handing.pursue(ring("a", "b")) is None, "a mirror that came later has a batch to hold"
    left = handing.pursue(create_together("uid", member("a"), [member("b")]))
    assert left is not None
    assert left.successor == ident("b")
