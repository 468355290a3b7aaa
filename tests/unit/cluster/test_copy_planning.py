"""Planning of copies: what a master does so that copies are where its policy wants them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from machine_world import (
    ALL,
    EXACTLY_TWO,
    NAME,
    group_change,
    group_on,
    member_of,
    topology_of,
    view_of,
)
from warren.cluster.copy_planning import (
    BeginGroup,
    Dissolve,
    ExpelMember,
    HandOverTo,
    Invite,
    Step,
    Synchronise,
    UnderWay,
    is_as_wanted,
    plan,
    successor_of,
)
from warren.cluster.view import ClusterView
from warren.replication.group_record import GroupRecord


def first(nodes: Sequence[str], count: int) -> Sequence[str]:
    return nodes[:count]


def last(nodes: Sequence[str], count: int) -> Sequence[str]:
    return nodes[len(nodes) - count :]


def nodes_policy(*nodes: str) -> Mapping[str, object]:
    return {"ha-mode": "nodes", "ha-params": list(nodes)}


def served(policy: Mapping[str, object], others: str = "bcd", **other: object) -> ClusterView:
    """A view of `a`, which serves a queue that was declared there; all others are linked."""
    view = view_of(others)
    topology_of(view).add("a", **other)
    topology_of(view).here.add(NAME)
    topology_of(view).policies["/"] = policy
    return view


def led(group: GroupRecord, **other: object) -> UnderWay:
    return UnderWay(group=group, has_replica=True, **other)  # type: ignore[arg-type]


def steps(view: ClusterView, now: UnderWay) -> list[Step]:
    return plan(view, NAME, now, first)


# Groups that begin and end.


def test_a_queue_that_is_to_be_mirrored_begins_a_group() -> None:
    assert steps(served(ALL), UnderWay()) == [BeginGroup()]


def test_a_group_that_is_beginning_or_stored_is_not_begun_again() -> None:
    view = served(ALL)
    assert steps(view, UnderWay(is_beginning=True)) == []
    view.apply([group_change(group_on("ab"), 1)])
    assert steps(view, UnderWay()) == []


@pytest.mark.parametrize("other", [{"owner": "connection"}, {}])
def test_nothing_is_planned_for_queues_that_no_policy_mirrors_or_one_client_owns(
    other: dict[str, object],
) -> None:
    view = served(ALL if other else {}, **other)
    assert steps(view, UnderWay()) == []


def test_nothing_is_planned_for_queues_of_other_nodes_and_deleted_ones() -> None:
    view = served(ALL)
    topology_of(view).here.clear()
    assert steps(view, UnderWay()) == []
    assert plan(view, ("/", "deleted"), UnderWay(), first) == []


def test_a_mirror_plans_nothing() -> None:
    assert steps(served(ALL), UnderWay(has_replica=True)) == []


def test_a_group_whose_policy_is_gone_is_dissolved_when_its_master_is_alone() -> None:
    """The mirrors are expelled first; their copies are not wanted any more."""
    view = served({}, "b")
    expel = ExpelMember(member_of("b").id, is_unwanted=True)
    assert steps(view, led(group_on("ab"))) == [expel]
    assert steps(view, led(group_on("ab"), expelled=frozenset({member_of("b").id}))) == []
    assert steps(view, led(group_on("a"))) == [Dissolve()]
    assert steps(view, led(group_on("a"), is_dissolving=True)) == []


def test_a_dead_member_keeps_a_group_from_being_dissolved() -> None:
    """What it had under way is the ring's business until it is erased."""
    group = group_on("ab", insync="a")
    dead = replace(group.members[1], is_dead=True)
    assert steps(served({}), led(replace(group, members=(group.members[0], dead)))) == []


def test_a_group_elsewhere_than_where_its_queue_was_declared_is_kept() -> None:
    """Nothing else says where the queue is."""
    view = served({})
    topology_of(view).add("b")
    assert steps(view, led(group_on("a"))) == []


# Invitations.


def test_nodes_that_should_have_a_copy_are_invited_once() -> None:
    view = served(ALL)
    assert steps(view, led(group_on("ac"))) == [Invite("b"), Invite("d")]
    assert steps(view, led(group_on("ac"), invited=frozenset("b"))) == [Invite("d")]


def test_a_node_without_a_link_is_invited_when_there_is_one() -> None:
    """The invitation would be lost."""
    view = served(ALL, "b")
    view.linked.clear()
    assert steps(view, led(group_on("a"))) == []
    view.linked.add("b")
    assert steps(view, led(group_on("a"))) == [Invite("b")]


def test_of_many_nodes_linked_ones_are_chosen_and_invited_ones_stay_chosen() -> None:
    view = served(EXACTLY_TWO)
    view.linked.discard("d")
    assert plan(view, NAME, led(group_on("a")), last) == [Invite("c")]
    assert plan(view, NAME, led(group_on("a"), invited=frozenset("b")), last) == []


def test_a_node_without_a_link_is_chosen_only_if_no_other_is_left() -> None:
    """Nobody else is asked instead: the plan is made again when the link comes up."""
    view = served({**EXACTLY_TWO, "ha-params": 3}, "bc")
    view.linked.discard("b")
    assert steps(view, led(group_on("a"))) == [Invite("c")]


# Copies that are too many.


def test_the_copy_of_a_node_that_does_not_run_is_expelled_and_kept_on_its_disk() -> None:
    view = served(ALL, "b")
    assert steps(view, led(group_on("abz"))) == [ExpelMember(member_of("z").id, is_unwanted=False)]


def test_of_too_many_copies_the_youngest_are_expelled() -> None:
    """4-06."""
    expected = [ExpelMember(member_of("d").id, is_unwanted=True)]
    assert steps(served(EXACTLY_TWO), led(group_on("acd"))) == expected


# Masters that move.


def test_a_master_hands_over_to_a_listed_node_that_is_in_sync() -> None:
    """4-05: the copy of a fixed list of nodes is kept if this node is in the list."""
    view = served(nodes_policy("b", "c"))
    planned = steps(view, led(group_on("ab")))
    assert planned == [Invite("c"), HandOverTo(member_of("b").id, keeps_copy=False)]


def test_a_master_stays_while_no_listed_node_is_in_sync() -> None:
    """4-04: a queue never leaves its only good copy behind."""
    view = served(nodes_policy("b", "c"))
    assert steps(view, led(group_on("ab", insync="a"))) == [Invite("c")]


def test_4_14_a_master_whose_nodes_are_all_replaced_stays_until_one_that_is_listed_can_lead() -> (
    None
):
    """Its mirror goes, though it is in sync: there is one hand-over."""
    view = served(nodes_policy("c", "d"))
    expel = ExpelMember(member_of("b").id, is_unwanted=True)
    assert steps(view, led(group_on("ab"))) == [Invite("c"), Invite("d"), expel]
    assert steps(view, led(group_on("acd", insync="a"))) == []
    hand_over = HandOverTo(member_of("d").id, keeps_copy=False)
    assert steps(view, led(group_on("acd", insync="ad"))) == [hand_over]


def test_a_master_that_is_handing_over_does_not_begin_again() -> None:
    view = served(nodes_policy("b"))
    assert steps(view, led(group_on("ab"), is_handing_over=True)) == []


def test_a_relocation_makes_a_copy_synchronises_it_and_hands_over() -> None:
    """4-19: three plans, each made when the one before has come true."""
    view = served(nodes_policy("a", "b"))
    now = {"relocation": "c"}
    assert steps(view, led(group_on("ab"), **now)) == [Invite("c")]
    is_lacking = {"lacks_synchronisation": True}
    group = group_on("abc", insync="ab")
    assert steps(view, led(group, **now, **is_lacking)) == [Synchronise()]
    hand_over = HandOverTo(member_of("c").id, keeps_copy=True)
    assert steps(view, led(group_on("abc"), **now)) == [hand_over]


def test_a_relocation_keeps_the_master_as_a_mirror_until_policies_say_otherwise() -> None:
    """With `exactly` the copies are too many afterwards, and the new master decides which go."""
    view = served(EXACTLY_TWO)
    planned = steps(view, led(group_on("abc"), relocation="c"))
    assert planned == [HandOverTo(member_of("c").id, keeps_copy=False)]


# Synchronisation.


@pytest.mark.parametrize(
    ("policy", "relocation", "planned"),
    [
        (ALL, "", [Synchronise()]),
        ({"ha-mode": "all"}, "", []),
        ({"ha-mode": "all"}, "b", [Synchronise()]),
    ],
)
def test_mirrors_are_synchronised_if_the_policy_or_a_relocation_wants_it(
    policy: Mapping[str, object], relocation: str, planned: list[Step]
) -> None:
    """5-05."""
    group = group_on("ab", insync="a")
    now = led(group, lacks_synchronisation=True, relocation=relocation)
    assert steps(served(policy, "b"), now) == planned


# Questions about copies.


@pytest.mark.parametrize(
    ("policy", "group", "is_so"),
    [
        ({}, None, True),
        (ALL, None, False),
        (ALL, group_on("abcd", insync="ab"), False),
        (ALL, group_on("abcd"), True),
        (EXACTLY_TWO, group_on("ab"), True),
    ],
)
def test_a_queue_is_as_wanted_when_enough_copies_are_in_sync(
    policy: Mapping[str, object], group: GroupRecord | None, is_so: bool
) -> None:
    view = served(policy)
    view.apply([group_change(group, 1)])
    assert is_as_wanted(view, NAME) is is_so


def test_an_exclusive_or_deleted_queue_is_as_wanted() -> None:
    assert is_as_wanted(served(ALL, owner="connection"), NAME)
    assert is_as_wanted(served(ALL), ("/", "deleted"))


def test_the_successor_is_the_eldest_synchronised_mirror_on_one_of_the_nodes() -> None:
    group = group_on("adcb", insync="acb")
    found = successor_of(group, "abcd")
    assert found is not None
    assert found.node == "c"
    found = successor_of(group, "abd")
    assert found is not None
    assert found.node == "b"
    assert successor_of(group, "ad") is None
