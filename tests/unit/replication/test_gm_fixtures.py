"""The worked cases of who dies when, W1 to W6, moment by moment.

Newcomers stand right of the leader, so a ring that is to be A B C D has been joined in the order
A D C B.
"""

from __future__ import annotations

import pytest

from gm_by_hand import ByHand, gone, member
from warren.replication.gm.events import Broadcast, Deliver, Expel, Idle, MembersChanged, Stopped
from warren.replication.group_record import GroupRecord, add_right_of, erase, mark_dead, promote


def ring(names: str) -> ByHand:
    group = ByHand(names[0], *reversed(names[1:]))
    assert group.ring == list(names)
    group.log.clear()
    return group


def bury_leader(group: ByHand, dead: str) -> None:
    """In one change: the leader is marked dead, and the first that lives leads."""

    def follow(record: GroupRecord) -> GroupRecord:
        headless = mark_dead(record, dead, gone(dead))
        return promote(headless, headless.live[0].id, is_sync_needed=False)

    group.change(follow)


def check_all_heard_once(group: ByHand, survivors: str, said: bytes, dead: str) -> None:
    for name in survivors:
        assert group.heard(name) == [said], name
        assert group.deaths(name) == sorted(dead), name
        kinds = [type(a) for a in group.log[name]]
        last_change = max(i for i, kind in enumerate(kinds) if kind is MembersChanged)
        assert kinds.index(Deliver) < last_change
        assert group.pending(name) == {}
    assert group.record is not None
    assert [m.id for m in group.record.members] == list(survivors)


def test_1_09_w1_what_a_dead_member_said_reaches_all_before_its_death_is_announced() -> None:
    group = ring("abcd")
    group.broadcast("a", b"m")
    group.carry("a", "b")
    group.crash("a")
    bury_leader(group, "a")
    assert group.members["b"]._ring.rounds.aliases == {"a"}
    group.settle()
    check_all_heard_once(group, "bcd", b"m", "a")


def test_1_09_w1_what_has_reached_all_already_is_settled_by_the_catchup() -> None:
    group = ring("abcd")
    group.broadcast("a", b"m")
    for left, right in ("ab", "bc", "cd"):
        group.carry(left, right)
    group.crash("a")
    bury_leader(group, "a")
    assert group.pending("b") == {"a": 1}
    group.carry("d", "b")
    assert group.pending("b") == {}
    group.settle()
    check_all_heard_once(group, "bcd", b"m", "a")


def test_1_10_w2_an_heir_inherits_what_the_dead_had_inherited() -> None:
    group = ring("abcd")
    group.broadcast("a", b"m")
    group.carry("a", "b")
    group.carry("b", "c")
    group.crash("a")
    bury_leader(group, "a")
    group.crash("b")
    bury_leader(group, "b")
    assert group.members["c"]._ring.rounds.aliases == {"a", "b"}
    group.settle()
    check_all_heard_once(group, "cd", b"m", "ab")


@pytest.mark.parametrize("is_death_first", [True, False])
def test_1_11_w3_a_newcomer_left_of_a_dead_member_is_not_its_heir(is_death_first: bool) -> None:
    group = ring("abc")
    group.broadcast("b", b"m")
    group.carry("b", "c")
    group.crash("b")
    group.join("d")
    changes = [
        lambda record: mark_dead(record, "b", gone("b")),
        lambda record: add_right_of(record, "a", member("d")),
    ]
    for change in changes if is_death_first else reversed(changes):
        group.change(change)
    assert group.record is not None
    assert [m.id for m in group.record.members] == ["a", "d", "b", "c"]
    assert group.members["c"]._ring.rounds.aliases == {"b"}
    assert group.members["d"]._ring.rounds.aliases == set()
    group.settle()
    assert group.heard("a") == group.heard("c") == [b"m"]
    assert [m.id for m in group.record.members] == ["a", "d", "c"]
    assert all(group.pending(name) == {} for name in "adc")


def test_1_11_w3_a_newcomer_right_of_a_dying_leader_inherits_all_that_is_under_way() -> None:
    """The leader dies having let it in, but before its catchup: what it said is between others."""
    group = ring("abcd")
    group.join("n")
    group.broadcast("a", b"m")
    group.carry("a", "b")
    group.change(lambda record: add_right_of(record, "a", member("n")), "b", "c", "d", "n")
    group.crash("a")
    bury_leader(group, "a")
    assert group.members["n"]._ring.rounds.aliases == {"a"}
    # What the newcomer is told first is told by one that has not heard the message itself.
    group.carry("d", "n")
    assert group.members["n"].is_caught_up
    assert group.heard("d") == []
    # It has seen nothing of the dead leader that is under way, and yet must not have it erased.
    group.store_proposals()
    group.settle()
    for name in "bcd":
        assert group.heard(name) == [b"m"]
        assert group.deaths(name) == ["a"]
    assert group.heard("n") == []
    assert group.record is not None
    assert [m.id for m in group.record.members] == ["n", "b", "c", "d"]


@pytest.mark.parametrize("position", range(5))
def test_1_12_w4_what_died_with_the_one_in_the_middle_is_told_by_its_left(position: int) -> None:
    group = ring("abcde")
    origin = "abcde"[position]
    heir, target = "abcdeab"[position + 1], "abcdeab"[position + 2]
    group.broadcast(origin, b"m")
    group.crash(heir)
    if heir == "a":
        bury_leader(group, "a")
    else:
        group.bury(heir)
    group.carry(origin, target)
    assert group.heard(target) == [b"m"]
    group.settle()
    for name in set("abcde") - {heir}:
        assert group.heard(name) == [b"m"]
        assert group.deaths(name) == [heir]
        assert group.pending(name) == {}


def test_w5_what_never_left_a_dead_member_is_lost_and_nobody_waits_for_it() -> None:
    group = ring("abc")
    group.tell("a", Broadcast(b"m", 1))
    group.crash("a")
    bury_leader(group, "a")
    group.settle()
    for name in "bc":
        assert group.heard(name) == []
        assert group.deaths(name) == ["a"]


def test_w6_two_who_join_at_once_are_both_caught_up() -> None:
    group = ring("ab")
    group.broadcast("a", b"before")
    group.join("c")
    group.join("d")
    group.settle()
    assert group.record is not None
    assert {m.id for m in group.record.live} == {"a", "b", "c", "d"}
    assert all(group.members[name].is_caught_up for name in "cd")
    assert group.heard("c") == group.heard("d") == []
    group.broadcast("a", b"after")
    group.settle()
    assert group.heard("c") == group.heard("d") == [b"after"]


def test_a_newcomer_hears_exactly_what_is_said_by_those_who_know_of_it() -> None:
    group = ring("ab")
    group.tell("a", Broadcast(b"not yet", 1))
    group.join("c")
    group.carry("c", "a")
    group.store_proposals()
    group.tell("a", Broadcast(b"now", 1))
    group.tell("a", Idle())
    group.settle()
    assert group.heard("b") == [b"not yet", b"now"]
    assert group.heard("c") == [b"now"]


def test_a_member_whom_the_leader_puts_out_is_inherited_from_like_a_dead_one() -> None:
    group = ring("abc")
    group.broadcast("b", b"m")
    group.carry("b", "c")
    group.tell("a", Expel("b"))
    group.settle()
    assert group.heard("a") == group.heard("c") == [b"m"]
    assert group.deaths("a") == group.deaths("c") == ["b"]
    assert group.news("b")[-1] == Stopped("shutdown")
    assert group.record is not None
    assert erase(group.record, "a", frozenset("b")) is group.record
