"""Lifetimes of queues that have copies: which of them end with a node."""

from __future__ import annotations

import pytest

from machine_world import ALL, NAME, group_change, group_on, session_change, topology_of, view_of
from warren.cluster.lifetimes import is_only_on, lost_names, outlives_master
from warren.replication.group_record import GroupRecord


@pytest.mark.parametrize(
    ("policy", "group", "owner", "outlives"),
    [
        ({}, None, None, False),
        (ALL, None, None, True),
        ({}, group_on("ab"), None, True),
        (ALL, group_on("ab"), "connection", False),
    ],
)
def test_a_queue_outlives_its_master_if_it_has_or_will_have_copies(
    policy: dict[str, object], group: GroupRecord | None, owner: str | None, outlives: bool
) -> None:
    """An exclusive queue ends with its connection, whatever a policy says."""
    view = view_of("b")
    record = topology_of(view).add("a", owner=owner)
    topology_of(view).policies["/"] = policy
    view.apply([group_change(group, 1)])
    assert outlives_master(view, record) is outlives


def test_a_queue_is_lost_without_the_node_that_alone_has_everything() -> None:
    view = view_of("b")
    record = topology_of(view).add("a")
    assert is_only_on(view, record, "a")
    assert not is_only_on(view, record, "b")
    view.apply([group_change(group_on("ab", insync="b"), 1)])
    assert is_only_on(view, record, "b")
    assert not is_only_on(view, record, "a")
    view.apply([group_change(group_on("ab"), 2)])
    assert not is_only_on(view, record, "a")


def test_a_transient_queue_is_lost_with_its_last_copy() -> None:
    """`b` led and `c` had a copy; `a` sees both of them end."""
    view = view_of("bc")
    topology_of(view).add("b", durable=False)
    view.apply([group_change(group_on("bc"), 1)])
    view.apply([session_change("b", "")])
    assert lost_names(view) == frozenset()
    view.apply([session_change("c", "")])
    assert lost_names(view) == {NAME}


def test_a_transient_queue_that_a_policy_would_have_mirrored_is_lost_with_its_node() -> None:
    """Its record has no lease, as copies were to come: nothing else removes it."""
    view = view_of("b")
    topology_of(view).add("b", durable=False)
    topology_of(view).policies["/"] = ALL
    view.apply([session_change("b", "")])
    assert lost_names(view) == {NAME}


def test_queues_that_are_durable_unmirrored_or_served_here_are_not_lost() -> None:
    """A durable one waits for its node, an unmirrored one goes with its lease."""
    view = view_of("b")
    topology = topology_of(view)
    topology.add("b", ("m", "durable"))
    topology.add("b", ("u", "transient"), durable=False)
    topology.add("a", ("m", "here"), durable=False)
    topology.policies["m"] = ALL
    topology.here.add(("m", "here"))
    view.apply([session_change("b", "")])
    assert lost_names(view) == frozenset()


def test_a_transient_queue_is_lost_if_unsynchronised_mirrors_may_not_lead() -> None:
    view = view_of("bc")
    topology_of(view).add("b", durable=False)
    topology_of(view).policies["/"] = {**ALL, "ha-promote-on-failure": "when-synced"}
    view.apply([group_change(group_on("bc", insync="b"), 1)])
    view.apply([session_change("b", "")])
    assert lost_names(view) == {NAME}
