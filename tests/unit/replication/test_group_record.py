"""The group record: what may change it, what may not, and that views only go up."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gm_by_hand import out_of_sync
from warren.replication.group_record import (
    GroupRecord,
    LostMembership,
    Member,
    NotAllowed,
    RemovedByLeader,
    SessionGone,
    add_right_of,
    admit_to_insync,
    create,
    decode_record,
    encode_record,
    erase,
    leave,
    leave_if_spared,
    make_member_id,
    mark_dead,
    node_of,
    promote,
    revive,
)


def member(name: str) -> Member:
    return Member(name, f"node-{name}", f"life-{name}")


def gone(name: str) -> SessionGone:
    return SessionGone(f"node-{name}", f"life-{name}")


def ring(*names: str) -> GroupRecord:
    """The first one leads; all are in sync."""
    record = create("uid", member(names[0]))
    for left, name in pairwise(names):
        record = add_right_of(record, left, member(name))
        record = admit_to_insync(record, names[0], name)
    return record


def ids(record: GroupRecord) -> list[str]:
    return [f"{m.id}+" if m.is_dead else m.id for m in record.members]


def test_a_record_is_stored_and_read_as_it_was() -> None:
    record = mark_dead(ring("a", "b"), "b", gone("b"))
    assert decode_record(encode_record(record)) == record


def test_an_id_says_where_its_member_is() -> None:
    assert node_of(make_member_id("rabbit@host/x", "42", 3)) == "rabbit@host/x"


def test_a_newcomer_stands_right_of_who_lets_it_in_and_asking_twice_changes_nothing() -> None:
    record = add_right_of(ring("a", "b"), "a", member("c"))
    assert ids(record) == ["a", "c", "b"]
    newest = record.find("c")
    assert newest is not None
    assert newest.joined_view == record.view
    assert add_right_of(record, "a", member("c")) is record


def test_a_newcomer_takes_the_place_of_whoever_its_node_was_before() -> None:
    """It begins with nothing, so nobody may count on the copy that the node had."""
    record = ring("a", "b", "c")
    again = Member("b2", "node-b", "life-b2")
    joined = add_right_of(record, "a", again)
    assert ids(joined) == ["a", "b2", "b+", "c"]
    assert joined.insync == ("a", "c")
    assert joined.view == record.view + 1


def test_a_newcomer_does_not_end_a_leader() -> None:
    """That it has gone is for the store to say; until then nobody begins anything."""
    joined = add_right_of(ring("a", "b"), "b", Member("a2", "node-a", "life-a2"))
    assert ids(joined) == ["a", "b", "a2"]
    assert joined.insync == ("a", "b")


def test_nobody_is_let_in_by_one_who_is_not_a_living_member() -> None:
    record = mark_dead(ring("a", "b"), "b", gone("b"))
    for left in ("b", "stranger"):
        with pytest.raises(LostMembership):
            add_right_of(record, left, member("c"))


def test_a_death_needs_the_end_of_that_very_session() -> None:
    record = ring("a", "b")
    with pytest.raises(NotAllowed):
        mark_dead(record, "b", SessionGone("node-b", "an earlier life"))
    dead = mark_dead(record, "b", gone("b"))
    assert ids(dead) == ["a", "b+"]
    assert dead.insync == ("a",)
    assert mark_dead(dead, "b", gone("b")) is dead


def test_only_the_leader_puts_members_out_and_never_itself() -> None:
    record = ring("a", "b", "c")
    assert ids(mark_dead(record, "b", RemovedByLeader("a"))) == ["a", "b+", "c"]
    for remover, removed in (("b", "c"), ("b", "a"), ("a", "a")):
        with pytest.raises(NotAllowed):
            mark_dead(record, removed, RemovedByLeader(remover))


def test_only_the_dead_are_erased_and_only_by_the_living() -> None:
    record = mark_dead(ring("a", "b", "c"), "b", gone("b"))
    assert ids(erase(record, "c", frozenset({"b"}))) == ["a", "c"]
    assert erase(record, "c", frozenset({"stranger"})) is record
    with pytest.raises(NotAllowed):
        erase(record, "c", frozenset({"a"}))
    with pytest.raises(LostMembership):
        erase(record, "b", frozenset({"b"}))


def test_a_leader_is_followed_by_one_in_sync_and_only_when_it_is_gone() -> None:
    record = add_right_of(ring("a", "b"), "a", member("late"))
    with pytest.raises(NotAllowed):
        promote(record, "b")
    for headless in (mark_dead(record, "a", gone("a")), leave(record, "a")):
        with pytest.raises(NotAllowed):
            promote(headless, "late")
        with pytest.raises(LostMembership):
            promote(headless, "a")
        led = promote(headless, "b")
        assert (led.leader, led.epoch, led.insync) == ("b", 2, ("b",))
        unsafe = promote(headless, "late", is_sync_needed=False)
        assert unsafe.insync == ("late",)


def test_the_last_one_in_sync_stays_so_though_dead() -> None:
    record = add_right_of(ring("a"), "a", member("late"))
    assert mark_dead(record, "a", gone("a")).insync == ("a",)


def test_the_leader_says_who_is_in_sync() -> None:
    record = add_right_of(ring("a", "b"), "a", member("late"))
    admitted = admit_to_insync(record, "a", "late")
    assert admitted.insync == ("a", "b", "late")
    assert admit_to_insync(admitted, "a", "late") is admitted
    with pytest.raises(NotAllowed):
        admit_to_insync(record, "b", "late")
    with pytest.raises(LostMembership):
        admit_to_insync(record, "a", "stranger")


def test_a_group_begins_again_only_when_all_are_dead_and_in_a_higher_view_and_epoch() -> None:
    record = ring("a", "b")
    with pytest.raises(NotAllowed):
        revive(record, member("c"))
    dead = mark_dead(mark_dead(record, "a", gone("a")), "b", gone("b"))
    revived = revive(dead, member("c"))
    assert (revived.epoch, revived.view) == (dead.epoch + 1, dead.view + 1)
    assert (revived.leader, ids(revived), revived.insync) == ("c", ["c"], ("c",))


def test_every_change_makes_the_view_one_higher() -> None:
    before = ring("a", "b")
    after = [
        add_right_of(before, "a", member("c")),
        mark_dead(before, "b", gone("b")),
        leave(before, "a"),
    ]
    assert {r.view for r in after} == {before.view + 1}
    unsynced = out_of_sync(before, "b")
    assert admit_to_insync(unsynced, "a", "b").view == unsynced.view + 1
    headless = leave(before, "a")
    assert promote(headless, "b").view == headless.view + 1
    assert erase(headless, "b", frozenset({"a"})).view == headless.view + 1


def test_a_member_is_spared_only_if_somebody_else_alive_has_all_that_was_confirmed() -> None:
    record = ring("a", "b")
    left = leave_if_spared(record, "b")
    assert (ids(left), left.insync) == (["a", "b+"], ("a",))
    with pytest.raises(NotAllowed):
        leave_if_spared(left, "a")
    with pytest.raises(NotAllowed):
        leave_if_spared(mark_dead(record, "a", gone("a")), "b")
    unsynced = out_of_sync(record, "b")
    with pytest.raises(NotAllowed):
        leave_if_spared(unsynced, "a")
    assert leave_if_spared(unsynced, "b").insync == ("a",)
