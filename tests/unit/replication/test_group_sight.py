"""What people see of a group: its mirrors in order, and what happened between two records."""

from __future__ import annotations

from itertools import pairwise

from gm_by_hand import out_of_sync
from warren.replication.group_changes import (
    Begun,
    InSyncChanged,
    MirrorAdded,
    MirrorDropped,
    Promoted,
    mirrors_of,
    news_between,
    recoverable_of,
    synchronised_of,
)
from warren.replication.group_record import (
    GroupRecord,
    Member,
    RemovedByLeader,
    SessionGone,
    add_right_of,
    admit_to_insync,
    create,
    create_together,
    erase,
    make_member_id,
    mark_dead,
    promote,
    reclaim,
)


def member(node: str, life: str = "1") -> Member:
    return Member(make_member_id(node, life, 1), node, life)


A, B, C = member("a"), member("b"), member("c")


def ring(*members: Member) -> GroupRecord:
    """The first one leads; all others are mirrors that lack something."""
    record = create("uid", members[0])
    for left, newcomer in pairwise(members):
        record = add_right_of(record, left.id, newcomer)
    return record


def in_sync(record: GroupRecord, *members: Member) -> GroupRecord:
    for each in members:
        record = admit_to_insync(record, record.leader, each.id)
    return record


def without(record: GroupRecord, dead: Member) -> GroupRecord:
    return mark_dead(record, dead.id, SessionGone(dead.node, dead.incarnation))


def test_mirrors_are_told_oldest_first_and_synchronised_ones_newest_first() -> None:
    """9-01."""
    record = create("uid", A)
    record = add_right_of(record, A.id, C)
    record = add_right_of(record, A.id, B)  # in the ring before c, but younger
    record = in_sync(record, B, C)
    assert mirrors_of(record, record.live) == ["c", "b"]
    assert synchronised_of(record, record.live) == ["c", "b"]
    record = in_sync(out_of_sync(record, B.id), B)
    assert synchronised_of(record, record.live) == ["b", "c"]


def test_a_mirror_that_lacks_something_or_is_gone_is_not_synchronised() -> None:
    record = in_sync(ring(A, B, C), B)
    assert mirrors_of(record, record.live) == ["b", "c"]
    assert synchronised_of(record, record.live) == ["b"]
    present = [m for m in record.live if m.node != "b"]  # the store does not know yet
    assert mirrors_of(record, present) == ["c"]
    assert synchronised_of(record, present) == []


def test_recoverable_are_mirrors_and_those_that_had_one_when_they_went() -> None:
    record = in_sync(ring(A, B, C), B, C)
    assert recoverable_of(record, record.live, "abc") == ["b", "c"]
    record = without(record, B)
    assert recoverable_of(record, record.live, "ac") == ["c", "b"]
    assert recoverable_of(record, record.live, "abc") == ["c"], "it runs, and has no mirror yet"


def test_the_last_copy_in_sync_is_recoverable_though_nobody_lives() -> None:
    record = without(without(ring(A, B), B), A)
    assert recoverable_of(record, (), ()) == ["b"]
    assert mirrors_of(record, ()) == []


def test_the_news_are_who_came_who_went_and_who_is_in_sync() -> None:
    first = create("uid", A)
    assert news_between(None, first) == [Begun()]
    whole = create_together("other", A, [B])
    begun = [Begun(), MirrorAdded("b"), InSyncChanged(("a", "b"))]
    assert news_between(None, whole) == news_between(first, whole) == begun
    second = add_right_of(first, A.id, B)
    assert news_between(first, second) == [MirrorAdded("b")]
    third = in_sync(second, B)
    assert news_between(second, third) == [InSyncChanged(("a", "b"))]
    fourth = mark_dead(third, B.id, RemovedByLeader(A.id))
    assert news_between(third, fourth) == [MirrorDropped("b"), InSyncChanged(("a",))]
    assert news_between(fourth, erase(fourth, A.id, frozenset({B.id}))) == []


def test_promotion_of_a_mirror_in_sync_is_safe_and_of_another_is_not() -> None:
    record = without(in_sync(ring(A, B, C), B), A)
    assert news_between(record, promote(record, B.id)) == [Promoted("b", "a", 2, is_safe=True)]
    record = without(ring(A, B), A)
    after = promote(record, B.id, is_sync_needed=False)
    assert news_between(record, after) == [
        Promoted("b", "a", 2, is_safe=False),
        InSyncChanged(("b",)),
    ]


def test_to_begin_again_with_the_copy_of_one_that_was_in_sync_is_safe() -> None:
    record = without(without(in_sync(ring(A, B), B), A), B)
    back = member("b", "2")
    after, _ = reclaim(record, back, B.id, frozenset())
    assert news_between(record, after)[0] == Promoted("b", "a", 2, is_safe=True)


def test_a_queue_declared_anew_has_a_group_of_its_own() -> None:
    assert news_between(ring(A, B), create("another", B)) == [Begun()]
