"""Reach: who is put out because it cannot be reached, and which mirror is better placed to lead."""

from __future__ import annotations

from warren.replication.group_record import GroupRecord, Member, RemovedByLeader, mark_dead
from warren.replication.reach import better_placed, blocking_members, is_believed


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


def test_a_mirror_that_reaches_both_sides_of_a_cut_leads() -> None:
    assert better_placed(ring("abc"), "abc", {"a": ["b"], "b": ["a"]}) == "c/1/1"


def test_a_leader_that_nobody_misses_stays() -> None:
    assert better_placed(ring("abc"), "abc", {}) is None
    assert better_placed(ring("abc"), "abc", {"b": ["c"], "c": ["b"]}) is None


def test_silence_moves_no_leader() -> None:
    """A node that is cut off from everybody cannot say so, and its session ends soon."""
    assert better_placed(ring("abc"), "abc", {"a": ["b"]}) is None
    assert better_placed(ring("abc"), "abc", {"a": ["b"], "c": ["b"]}) is None


def test_a_mirror_that_reaches_no_more_than_the_leader_does_not_lead() -> None:
    """`b` has the store and clients, and no other node."""
    cuts = {"a": ["b"], "b": ["a", "c"], "c": ["b"]}
    assert better_placed(ring("abc"), "abc", cuts) is None


def test_a_successor_is_one_that_the_leader_reaches() -> None:
    cuts = {"a": ["b", "c"], "b": ["a"], "c": ["a"]}
    assert better_placed(ring("abc"), "abc", cuts) is None


def test_a_successor_lacks_nothing_and_is_in_service() -> None:
    cuts = {"a": ["b"], "b": ["a"]}
    record = ring("abc")
    behind = GroupRecord("q", 1, 1, record.leader, record.members, ("a/1/1", "b/1/1"))
    assert better_placed(behind, "abc", cuts) is None
    dead = mark_dead(record, "c/1/1", RemovedByLeader("a/1/1"))
    assert better_placed(dead, "abc", cuts) is None
    assert better_placed(record, "ab", cuts) is None


def test_clients_of_a_node_without_a_copy_count_as_well() -> None:
    assert better_placed(ring("ac"), "abc", {"a": ["b"], "b": ["a"]}) == "c/1/1"


def test_of_several_mirrors_the_one_leads_that_reaches_most() -> None:
    cuts = {"a": ["d", "e"], "d": ["a", "b"], "e": ["a"], "b": ["d"]}
    assert better_placed(ring("abc"), "abcde", cuts) == "c/1/1"
