"""Masters: where clients of a node find a mirrored queue, wait for it, or learn that it is down."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from machine_world import (
    ALL,
    NAME,
    group_change,
    group_on,
    session_change,
    topology_of,
    view_of,
)
from warren.cluster.masters import (
    Place,
    Whereabouts,
    is_masterless,
    locate,
    names_led_by,
    names_synced_on,
)
from warren.cluster.view import ClusterView
from warren.model.records import QueueRecord
from warren.replication.group_record import GroupRecord


def world(nodes: str, group: GroupRecord | None, **other: bool) -> tuple[ClusterView, QueueRecord]:
    """A view of `a`, which has no copy, and a queue that was declared on `b`."""
    view = view_of(nodes)
    record = topology_of(view).add("b", **other)
    topology_of(view).policies["/"] = ALL
    if group is not None:
        view.apply([group_change(group, 1)])
    return view, record


AWAITED = Whereabouts(Place.AWAITED, is_mirrored=True)


def test_clients_are_sent_to_a_master_that_runs() -> None:
    view, record = world("bc", group_on("cb"))
    assert locate(view, record) == Whereabouts(Place.ELSEWHERE, "c", is_mirrored=True)


def test_clients_of_a_queue_without_copies_are_sent_to_its_node_or_it_is_down() -> None:
    view, record = world("b", None)
    assert locate(view, record) == Whereabouts(Place.ELSEWHERE, "b", is_mirrored=False)
    view.apply([session_change("b", "")])
    assert locate(view, record) == Whereabouts(Place.LOST)


def test_clients_wait_while_a_mirror_may_be_promoted() -> None:
    view, record = world("bc", group_on("bc"))
    view.apply([session_change("b", "")])
    assert locate(view, record) == AWAITED


def test_clients_wait_if_the_node_said_that_it_does_not_have_the_queue() -> None:
    """The master has moved, and the node that was asked knows of it before this one."""
    view, record = world("bc", group_on("bc"))
    assert locate(view, record, missing_at="b") == AWAITED
    assert locate(view, record, missing_at="c").place is Place.ELSEWHERE


def test_clients_wait_for_a_master_that_there_has_been_no_link_to_for_long() -> None:
    view, record = world("bc", group_on("bc"))
    view.given_up.add("b")
    assert locate(view, record) == AWAITED


def test_a_queue_is_down_if_no_copy_is_on_a_node_that_runs() -> None:
    view, record = world("c", group_on("bd"))
    assert locate(view, record) == Whereabouts(Place.LOST, homes=("b", "d"))
    assert is_masterless(view, record)


def test_a_durable_queue_is_waited_for_if_a_node_that_is_back_had_all_of_it() -> None:
    """6-13: the copy is on the disk of an earlier life of `b`; a transient queue has none there."""
    view, record = world("", group_on("bd", insync="b"))
    view.apply([session_change("b", "2")])
    assert locate(view, record) == AWAITED
    assert not is_masterless(view, record)
    assert locate(view, replace_durable(record)) == Whereabouts(Place.LOST, homes=("b",))


def replace_durable(record: QueueRecord) -> QueueRecord:
    return QueueRecord(record.vhost, record.name, durable=False, node=record.node)


@pytest.mark.parametrize("group", [None, group_on("bc")])
def test_a_queue_with_a_master_or_without_copies_is_not_masterless(
    group: GroupRecord | None,
) -> None:
    assert not is_masterless(*world("bc", group))


def test_queues_are_found_by_the_node_that_leads_or_led_them() -> None:
    view, _ = world("bc", group_on("bc"))
    dead = replace(group_on("cb").members[0], is_dead=True)
    led_last = replace(group_on("cb"), members=(dead, group_on("cb").members[1]))
    view.apply([group_change(led_last, 1, ("/", "other"))])
    assert names_led_by(view, "b") == [NAME]
    assert names_led_by(view, "c") == [("/", "other")]
    assert names_led_by(view, "a") == []


def test_queues_are_found_by_the_nodes_that_had_all_of_them() -> None:
    view, _ = world("bc", group_on("bcd", insync="bd"))
    assert [names_synced_on(view, node) for node in "bcd"] == [[NAME], [], [NAME]]
