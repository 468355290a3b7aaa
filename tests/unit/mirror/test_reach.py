"""Who is put out because it cannot be reached: by the leader, or on the word of a neighbour."""

from __future__ import annotations

from warren.mirror.group_record import GroupRecord, Member, RemovedByLeader, mark_dead
from warren.mirror.reach import blocking_members, is_believed


def ring(nodes: str) -> GroupRecord:
    """`a` leads; each one's right-hand neighbour is the next."""
    members = tuple(Member(f"{node}/1/1", node, "1") for node in nodes)
    return GroupRecord("q", 1, 1, "a/1/1", members, tuple(m.id for m in members))


def test_a_leader_rids_itself_of_all_on_the_node() -> None:
    assert blocking_members(ring("abc"), "a/1/1", "c") == ["c/1/1"]
    assert blocking_members(ring("abc"), "a/1/1", "d") == []


def test_a_mirror_minds_its_right_hand_neighbour_alone() -> None:
    assert blocking_members(ring("abc"), "b/1/1", "c") == ["c/1/1"]
    assert blocking_members(ring("abcd"), "b/1/1", "d") == []


def test_nobody_minds_the_leader() -> None:
    assert blocking_members(ring("abc"), "c/1/1", "a") == []


def test_who_is_out_itself_minds_nobody() -> None:
    record = mark_dead(ring("abc"), "b/1/1", RemovedByLeader("a/1/1"))
    assert blocking_members(record, "b/1/1", "c") == []


def test_a_leader_believes_the_left_hand_neighbour_alone() -> None:
    assert is_believed(ring("abc"), "b/1/1", "c/1/1")
    assert not is_believed(ring("abcd"), "b/1/1", "d/1/1")
    assert not is_believed(ring("abc"), "c/1/1", "a/1/1")
    assert not is_believed(ring("abc"), "x/1/1", "c/1/1")


def test_a_word_that_comes_late_puts_out_nobody() -> None:
    record = mark_dead(ring("abc"), "b/1/1", RemovedByLeader("a/1/1"))
    assert not is_believed(record, "b/1/1", "c/1/1")
