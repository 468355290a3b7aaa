"""Members of quorum queues: how many copies, on which nodes, and what operators change of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptance.control import Control
from cluster.conftest import OpenOn
from cluster.mirrored import MirroredCluster, publish_all
from cluster.nodes import NodeProcess, count_of, eventually

QUORUM = {"x-queue-type": "quorum"}


@pytest.fixture
def nodes(mirrored_cluster: MirroredCluster, name: str) -> Iterator[list[NodeProcess]]:
    """The cluster's nodes; queues with that name in theirs are gone afterwards."""
    yield mirrored_cluster.nodes
    api = mirrored_cluster.nodes[0].api
    for row in api.must(api.get("queues", "/")):
        if name in row["name"]:
            api.must(api.delete("queues", "/", row["name"]))


def declare(node: NodeProcess, queue: str, **arguments: Any) -> None:
    channel = node.channel()
    channel.queue_declare(queue, durable=True, arguments={**QUORUM, **arguments})
    channel.connection.close()


def refusal(control: Control, line: str, code: int) -> str:
    done = control(line)
    assert done.code == code, done
    return done.err


def shown(node: NodeProcess, queue: str) -> dict[str, Any]:
    return dict(node.api.must(node.api.get("queues", "/", queue)))


def members(node: NodeProcess, queue: str) -> list[str]:
    return sorted(shown(node, queue)["members"])


def names_of(nodes: list[NodeProcess]) -> list[str]:
    return sorted(node.name for node in nodes)


def test_a_quorum_queue_has_three_copies_without_a_policy(
    nodes: list[NodeProcess], name: str
) -> None:
    declare(nodes[1], name)
    view = shown(nodes[0], name)
    assert (view["type"], view["leader"], view["node"]) == ("quorum", nodes[1].name, nodes[1].name)
    assert sorted(view["members"]) == sorted(view["online"]) == names_of(nodes)


def test_policies_for_mirroring_are_not_for_quorum_queues(
    mirrored_cluster: MirroredCluster, nodes: list[NodeProcess], name: str
) -> None:
    """The policy of these tests would have copies on all nodes."""
    queue = f"mirrored-{name}"
    declare(nodes[0], queue, **{"x-quorum-initial-group-size": 1})
    assert members(nodes[0], queue) == [nodes[0].name]
    assert mirrored_cluster.in_sync(queue) == {nodes[0].name}


def test_more_copies_than_nodes_are_as_many_as_there_are_nodes(
    nodes: list[NodeProcess], name: str
) -> None:
    declare(nodes[0], name, **{"x-quorum-initial-group-size": 5})
    assert members(nodes[2], name) == names_of(nodes)


def test_leaders_are_spread_over_the_nodes_if_they_are_to_be_balanced(
    nodes: list[NodeProcess], name: str
) -> None:
    """Nodes may lead queues of other tests: whoever gets one has no more than the others."""
    queues = [f"{name}-{number}" for number in range(6)]
    for queue in queues:
        declare(nodes[0], queue, **{"x-queue-leader-locator": "balanced"})
    leaders = {shown(nodes[0], queue)["leader"] for queue in queues}
    listed = nodes[0].api.must(nodes[0].api.get("queues"))
    led = {node.name: sum(queue["node"] == node.name for queue in listed) for node in nodes}
    assert max(led[leader] for leader in leaders) <= min(led.values()) + 1


def test_a_member_is_added_and_deleted_and_the_choice_is_kept(
    mirrored_cluster: MirroredCluster, nodes: list[NodeProcess], name: str, open_on: OpenOn
) -> None:
    first, second, third = nodes
    declare(first, name, **{"x-quorum-initial-group-size": 1})
    publish_all(open_on(first, confirms=True), name, [b"1", b"2"])
    third.control.ok(f"add_member {name} {second.name}")
    eventually(
        lambda: mirrored_cluster.in_sync(name) == {first.name, second.name}, "both have everything"
    )
    second.control.ok(f"delete_member {name} {first.name}")
    eventually(lambda: shown(third, name)["leader"] == second.name, "the other leads")
    eventually(lambda: members(third, name) == [second.name], "one has gone")
    assert count_of(open_on(third), name) == 2
    failed = refusal(third.control, f"delete_member {name} {second.name}", 69)
    assert "the last node cannot be removed" in failed


def test_copies_grow_and_shrink_node_by_node(nodes: list[NodeProcess], name: str) -> None:
    first, second, third = nodes
    declare(first, f"{name}-one", **{"x-quorum-initial-group-size": 1})
    declare(first, f"{name}-two", **{"x-quorum-initial-group-size": 2})
    there = members(first, f"{name}-two")
    missing = next(node for node in nodes if node.name not in there)
    pattern = f"--queue-pattern ^{name}- -s"
    grown = first.control.ok(f"grow {missing.name} even {pattern}").rows
    assert grown == [["/", f"{name}-two", "3", "ok"]]
    grown = second.control.ok(f"grow {missing.name} all {pattern}").rows
    assert grown == [["/", f"{name}-one", "2", "ok"]]
    shrunk = {row[1]: row[3] for row in third.control.ok(f"shrink {missing.name} -s").rows}
    assert shrunk[f"{name}-one"] == shrunk[f"{name}-two"] == "ok"
    assert members(second, f"{name}-one") == [first.name]
    # Other tests go on with their copies where they were.
    first.control.ok(f"grow {missing.name} all -s")


def test_the_status_says_where_copies_are_and_whether_they_are_whole(
    nodes: list[NodeProcess], name: str
) -> None:
    declare(nodes[1], name)
    rows = nodes[2].control.ok(f"quorum_status {name} -s").rows
    states = {row[0]: row[1:4] for row in rows}
    expected = {node.name: ["follower", "true", "0"] for node in nodes}
    assert states == {**expected, nodes[1].name: ["leader", "true", "0"]}


def test_a_node_is_critical_for_what_it_alone_has(nodes: list[NodeProcess], name: str) -> None:
    first, second, _ = nodes
    declare(second, name, **{"x-quorum-initial-group-size": 1})
    failed = refusal(second.control, "check_if_node_is_quorum_critical", 69)
    assert f"queue '{name}' in vhost '/' would lose quorum if node {second.name}" in failed
    assert "time is up" in refusal(second.control, "await_online_quorum_plus_one --timeout 1", 69)
    first.control.ok(f"add_member {name} {first.name}")
    second.control.ok("await_online_quorum_plus_one --timeout 60")
    second.control.ok("check_if_node_is_quorum_critical")


def test_mistakes_are_named(nodes: list[NodeProcess], name: str, open_on: OpenOn) -> None:
    control = nodes[0].control
    declare(nodes[0], name)
    assert "node_not_running" in refusal(control, f"add_member {name} nobody@nowhere", 69)
    assert "not_found" in refusal(control, f"quorum_status {name}-not", 65)
    open_on(nodes[0]).queue_declare(f"{name}-classic", durable=True)
    text = refusal(control, f"quorum_status {name}-classic", 65)
    assert "Cannot get quorum status of a classic queue" in text
    text = refusal(control, f"add_member {name}-classic {nodes[1].name}", 65)
    assert "Cannot add members to a classic queue" in text
