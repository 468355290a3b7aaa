"""Which nodes' disks have copies, and which copy counts when a node is forgotten (6-04 to 6-07)."""

from __future__ import annotations

from itertools import pairwise

from warren.replication.group_record import (
    GroupRecord,
    Member,
    QueueState,
    RemovedByLeader,
    SessionGone,
    add_right_of,
    admit_to_insync,
    create,
    forget_node,
    leave,
    make_member_id,
    mark_dead,
    node_of,
    reclaim,
    stop,
)


def member(node: str, life: str = "1") -> Member:
    return Member(make_member_id(node, life, 1), node, life)


A, B, C = member("a"), member("b"), member("c")


def ring(*members: Member) -> GroupRecord:
    """The first one leads; all are in sync."""
    record = create("uid", members[0])
    for left, newcomer in pairwise(members):
        record = add_right_of(record, left.id, newcomer)
        record = admit_to_insync(record, record.leader, newcomer.id)
    return record


def ended(record: GroupRecord, *members: Member) -> GroupRecord:
    for each in members:
        record = mark_dead(record, each.id, SessionGone(each.node, each.incarnation))
    return record


def test_a_copy_is_recoverable_until_its_node_gives_it_up() -> None:
    record = ring(A, B, C)
    assert record.recoverable == ("a", "b", "c")
    assert ended(record, B).recoverable == ("a", "b", "c"), "its disk has it still"
    suspected = mark_dead(record, B.id, RemovedByLeader(A.id))
    assert suspected.recoverable == ("a", "b", "c"), "it cannot be reached, and has it still"
    unwanted = mark_dead(record, B.id, RemovedByLeader(A.id, is_unwanted=True))
    assert unwanted.recoverable == ("a", "c")
    assert leave(record, C.id).recoverable == ("a", "b")
    assert [unwanted.view, leave(record, C.id).view] == [record.view + 1] * 2


def test_nothing_is_lost_with_a_node_while_another_has_everything() -> None:
    record = forget_node(ended(ring(A, B, C), C), "c")
    assert record is not None
    assert (record.insync, record.recoverable) == ((A.id, B.id), ("a", "b"))


def test_6_04_the_oldest_copy_that_is_left_counts_when_the_last_whole_one_is_forgotten() -> None:
    record = stop(ended(ring(A, B, C), C, B), A.id)
    record = ended(record, A)
    assert record.insync == (A.id,)
    after = forget_node(record, "a")
    assert after is not None
    assert [node_of(each) for each in after.insync] == ["b"]
    assert (after.state, after.recoverable) == (QueueState.LIVE, ("b", "c"))
    again = member("b", "2")
    led, _ = reclaim(after, again, after.insync[0], frozenset())
    assert (led.leader, led.epoch) == (again.id, record.epoch + 1)


def test_6_05_a_living_mirror_that_lacks_something_is_an_heir_too() -> None:
    record = add_right_of(create("uid", A), A.id, B)
    after = forget_node(ended(record, A), "a")
    assert after is not None
    assert after.insync == (B.id,)


def test_a_leader_without_a_session_need_not_have_been_buried_before() -> None:
    after = forget_node(ring(A, B), "a")
    assert after is not None
    assert not after.is_live(A.id)
    assert after.insync == (B.id,)


def test_6_06_a_queue_that_nobody_else_has_is_lost_with_its_node() -> None:
    assert forget_node(ended(create("uid", A), A), "a") is None
