"""The view of a cluster: what the store's changes make of it, and the questions it answers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from machine_world import (
    ALL,
    NAME,
    group_change,
    group_on,
    member_of,
    policy_change,
    queue_change,
    session_change,
    session_of,
    state_change,
    topology_of,
    view_of,
)
from warren.cluster.chosen_nodes import encode_chosen
from warren.metadata.keys import chosen_nodes_key, group_key, node_key
from warren.metadata.store import Change, Record
from warren.model.fields import Field, Table
from warren.model.records import QueueRecord
from warren.replication.group_record import QueueState


def test_a_change_says_which_groups_queues_and_policies_it_concerns() -> None:
    """Keys of other kinds, and keys that a newer version may have, are passed over."""
    view, group = view_of("b"), group_on("ab")
    changed = view.apply(
        [
            group_change(group, 7),
            queue_change(("v", "other")),
            policy_change("v"),
            policy_change("w", operator=True),
            Change("user/guest", None),
            Change("comet/42", None),
        ]
    )
    assert changed.groups == [(NAME, None)]
    assert changed.queues == [("v", "other")]
    assert changed.vhosts_of_policies == {"v", "w"}
    assert (view.groups[NAME].record, view.groups[NAME].version) == (group, 7)


def test_a_group_that_changes_again_or_ends_is_told_with_its_record_before() -> None:
    view, first = view_of("b"), group_on("a")
    view.apply([group_change(first, 1)])
    assert view.apply([group_change(group_on("ab"), 2)]).groups == [(NAME, first)]
    assert view.apply([group_change(None, 3)]).groups == [(NAME, group_on("ab"))]
    assert view.group_of(NAME) is None
    assert view.apply([group_change(None, 4)]).groups == [(NAME, None)]


def test_sessions_begin_end_and_are_replaced_by_the_next_life_of_a_node() -> None:
    """A link, and whether it was given up, belongs to one life of the other node."""
    view = view_of("b")
    view.given_up.add("b")
    changed = view.apply([session_change("b", "2")])
    assert (changed.ended, changed.begun) == ([session_of("b")], [session_of("b", "2")])
    assert "b" not in view.linked | view.given_up
    changed = view.apply([session_change("b", "")])
    assert (changed.ended, changed.begun) == ([session_of("b", "2")], [])
    assert view.sessions == {}


def test_a_session_that_is_told_again_is_no_change() -> None:
    """A store that lost its feed tells what there is once more."""
    changed = view_of("b").apply([session_change("b")])
    assert (changed.ended, changed.begun) == ([], [])


def test_a_session_that_cannot_be_read_counts_as_none() -> None:
    view = view_of("b")
    changed = view.apply([Change(node_key("b"), Record(node_key("b"), b"?", 2))])
    assert changed.ended == [session_of("b")]
    assert view.sessions == {}


@pytest.mark.parametrize(("life", "is_lost"), [("1", False), ("2", True), ("", True)])
def test_the_own_session_is_lost_if_another_life_or_nothing_is_stored(
    life: str, is_lost: bool
) -> None:
    view = view_of()
    assert view.apply([session_change("a", life)]).is_own_session_lost is is_lost
    assert view.sessions == {}


def test_the_own_session_is_lost_for_the_last_change_of_it_alone() -> None:
    """The end of the last life and the session of this one may come in one change."""
    view = view_of()
    assert not view.apply([session_change("a", ""), session_change("a")]).is_own_session_lost


def test_states_of_other_nodes_say_who_is_drained_short_of_disk_or_cut_off() -> None:
    view = view_of("bc")
    state = state_change("b", is_drained=True, alarms={"disk": 1}, unreachable=("c",))
    assert view.apply([state]).is_any_state_changed
    assert (view.drained, view.short_of_disk, view.cuts["b"]) == ({"b"}, {"b"}, ("c",))
    assert view.nodes_in_service == ["a", "c"]
    view.apply([state_change("b", alarms={"memory": 1})])
    assert (view.drained, view.short_of_disk, view.cuts["b"]) == (set(), set(), ())


def test_the_state_of_a_node_whose_session_ended_means_nothing_any_more() -> None:
    view = view_of("b")
    view.apply([state_change("b", is_drained=True, unreachable=("a",))])
    view.apply([Change(state_change("b").key, None)])
    assert (view.drained, view.cuts["b"]) == (set(), ())


def test_the_own_state_is_not_taken_from_the_store() -> None:
    view = view_of("b")
    assert not view.apply([state_change("a", is_drained=True)]).is_any_state_changed
    assert view.drained == set()


def test_a_member_lives_as_long_as_the_session_that_it_belongs_to() -> None:
    view = view_of("b")
    assert view.is_alive(member_of("a"))
    assert view.is_alive(member_of("b"))
    assert not view.is_alive(member_of("b", life="0"))
    assert not view.is_alive(member_of("c"))


def test_all_members_are_reached_if_there_is_a_link_to_each_that_lives() -> None:
    """`d` has no session: nobody waits for a link to it."""
    view, group = view_of("bc", linked="b"), group_on("bcd")
    assert not view.reaches_all(group)
    view.linked.add("c")
    assert view.reaches_all(group)
    assert view.reaches_all(group_on("a"))


@pytest.mark.parametrize(
    ("leader", "is_erased", "is_dead", "master"),
    [
        ("b", False, False, "b"),
        ("b", False, True, ""),
        ("b", True, False, ""),
        ("z", False, False, ""),
    ],
)
def test_the_master_is_the_leader_that_lives(
    leader: str, is_erased: bool, is_dead: bool, master: str
) -> None:
    """`z` has no session."""
    view = view_of("b")
    record = topology_of(view).add("a")
    group = group_on(f"{leader}a")
    leading = replace(group.members[0], is_dead=is_dead)
    members = group.members[1:] if is_erased else (leading, *group.members[1:])
    view.apply([group_change(replace(group, members=members), 1)])
    assert view.master_of(record) == master


def test_the_master_of_a_queue_without_a_group_is_where_it_was_declared() -> None:
    view = view_of()
    assert view.master_of(topology_of(view).add("b")) == "b"


def test_a_group_is_led_here_by_a_member_of_this_life_alone() -> None:
    view = view_of("b")
    assert view.is_led_here(group_on("ab"))
    assert not view.is_led_here(group_on("ba"))
    view.incarnation = "2"
    assert not view.is_led_here(group_on("ab"))


def test_survivors_are_all_that_live_if_one_of_them_is_in_sync() -> None:
    view = view_of("bc")
    record = topology_of(view).add("d")
    assert view.survivors_of(record) == []
    view.apply([group_change(group_on("dbc", insync="dc"), 1)])
    assert [member.node for member in view.survivors_of(record)] == ["b", "c"]


@pytest.mark.parametrize(
    ("policy", "state", "survivors"),
    [
        (ALL, QueueState.LIVE, ["b", "c"]),
        ({}, QueueState.LIVE, ["b", "c"]),
        ({**ALL, "ha-promote-on-failure": "when-synced"}, QueueState.LIVE, []),
        (ALL, QueueState.STOPPED, []),
    ],
)
def test_unsynchronised_mirrors_survive_only_if_messages_may_be_lost(
    policy: dict[str, object], state: QueueState, survivors: list[str]
) -> None:
    """6-01, 6-02: a policy, or a master that stopped in good order, may have the queue wait."""
    view = view_of("bc")
    record = topology_of(view).add("d")
    topology_of(view).policies["/"] = policy
    view.apply([group_change(group_on("dbc", insync="d", state=state), 1)])
    assert [member.node for member in view.survivors_of(record)] == survivors


def test_masters_are_counted_where_they_are_and_not_where_they_were_declared() -> None:
    """A group whose queue has just been deleted counts for nobody."""
    view = view_of("bc")
    for number in range(3):
        topology_of(view).add("a", ("/", f"q{number}"))
    view.apply([group_change(group_on("ba"), 1, ("/", "q1"))])
    view.apply([group_change(group_on("ca"), 1, ("/", "gone"))])
    assert +view.masters() == {"a": 2, "b": 1}
    assert view.moved_masters() == {"a": -1, "b": 1}


def test_a_queues_group_goes_from_the_store_along_with_it() -> None:
    view = view_of()
    assert view.group_keys(*NAME) == []
    view.apply([group_change(group_on("a"), 1)])
    assert view.group_keys(*NAME) == [group_key(*NAME)]


def chosen_change(*nodes: str) -> Change:
    key = chosen_nodes_key(*NAME)
    return Change(key, Record(key, encode_chosen(nodes), 1) if nodes else None)


def test_the_nodes_chosen_for_a_quorum_queue_are_wanted_until_the_choice_is_gone() -> None:
    view = view_of()
    quorum = Table([("x-queue-type", Field("S", b"quorum"))])
    record = QueueRecord(*NAME, arguments=quorum, node="a")
    by_default = view.mirroring_of(record)
    assert view.apply([chosen_change("a", "c")]).queues == [NAME], "it is planned anew"
    chosen = view.mirroring_of(record)
    assert chosen is not None
    assert chosen.nodes == ("a", "c")
    assert view.group_keys(*NAME) == [chosen_nodes_key(*NAME)], "it goes along with the queue"
    view.apply([chosen_change()])
    assert view.mirroring_of(record) == by_default
    assert view.group_keys(*NAME) == []
