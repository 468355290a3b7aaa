"""One node is short of memory or disk: publishers stop at all nodes, and are told why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from cluster.conftest import OpenOn
from cluster.nodes import ClusterOfNodes, NodeProcess, eventually, publish

SetAlarm = Callable[[NodeProcess, str], None]
_SETTINGS = {
    "memory": ("vm-memory-high-watermark", {"value": 0}, {"value": 0.9}),
    "disk": ("disk-free-limit", {"value": "900000GB"}, {"value": "1MB"}),
}


@pytest.fixture
def alarm(cluster: ClusterOfNodes) -> Iterator[SetAlarm]:
    """Sets a node's alarm; all are off again at the end, everywhere."""

    def set_alarm(node: NodeProcess, resource: str) -> None:
        what, beyond, _ = _SETTINGS[resource]
        assert node.api.put("warren", "nodes", node.name, what, body=beyond).status == 204

    yield set_alarm
    for node in cluster.nodes:
        for resource in _SETTINGS:
            clear(node, resource)
    for node in cluster.nodes:
        eventually(lambda node=node: alarms_at(node) == set(), "no alarm is left")


def clear(node: NodeProcess, resource: str) -> None:
    what, _, within = _SETTINGS[resource]
    assert node.api.put("warren", "nodes", node.name, what, body=within).status == 204


def alarms_at(node: NodeProcess) -> set[tuple[str, str]]:
    found = node.api.get("warren", "alarms").body
    return {(alarm["node"], alarm["resource"]) for alarm in found}


class Watched:
    """A connection's publisher, and what it is told of alarms."""

    def __init__(self, channel: BlockingChannel) -> None:
        self.told: list[str] = []
        self._connection = channel.connection
        self._channel = channel
        self._connection.add_on_connection_blocked_callback(
            lambda _, frame: self.told.append(frame.method.reason)
        )
        self._connection.add_on_connection_unblocked_callback(
            lambda *_: self.told.append("unblocked")
        )

    def publish(self, queue: str) -> None:
        """And come back at once, confirmed or not."""
        publish(self._channel, queue, b"m")

    def eventually_told(self, told: list[str]) -> None:
        eventually(
            lambda: self._connection.process_data_events(0.02) or self.told == told,
            f"{told}, not {self.told}",
        )

    def is_told_nothing_new(self) -> bool:
        before = len(self.told)
        self._connection.process_data_events(0.3)
        return len(self.told) == before


def test_an_alarm_of_one_node_blocks_publishers_at_all_and_says_whose_it_is(
    cluster: ClusterOfNodes, alarm: SetAlarm, open_on: OpenOn, first: BlockingChannel, name: str
) -> None:
    first.queue_declare(name)
    publishers = [Watched(open_on(node)) for node in cluster.nodes]
    short = cluster.nodes[0]
    alarm(short, "memory")
    for node, publisher in zip(cluster.nodes, publishers, strict=True):
        eventually(lambda node=node: alarms_at(node) == {(short.name, "memory")}, "all know")
        publisher.publish(name)
        publisher.eventually_told(["low on memory"])
        expected = f"memory resource limit alarm set on node {short.name}"
        assert expected in node.log()

        health = node.api.get("health", "checks", "alarms")
        assert (health.status, health.body["alarms"]) == (
            503,
            [{"node": short.name, "resource": "memory"}],
        )
        nodes = [each for each in node.api.get("nodes").body if each["running"]]
        shown = {each["name"]: each["mem_alarm"] for each in nodes}
        assert shown == {each.name: each is short for each in cluster.nodes}
        local = node.api.get("health", "checks", "local-alarms")
        assert local.status == (503 if node is short else 200)

    clear(short, "memory")
    for node, publisher in zip(cluster.nodes, publishers, strict=True):
        publisher.eventually_told(["low on memory", "unblocked"])
        assert node.api.get("health", "checks", "alarms").status == 200


def test_publishers_wait_until_the_last_node_with_an_alarm_is_well(
    cluster: ClusterOfNodes, alarm: SetAlarm, open_on: OpenOn, first: BlockingChannel, name: str
) -> None:
    """rabbitmq-server#379: one node's all-clear does not speak for the others."""
    first.queue_declare(name)
    one, two, three = cluster.nodes
    alarm(one, "disk")
    alarm(two, "disk")
    alarm(two, "memory")
    everything = {(one.name, "disk"), (two.name, "disk"), (two.name, "memory")}
    eventually(lambda: alarms_at(three) == everything, "all are known")
    publisher = Watched(open_on(three))
    publisher.publish(name)
    publisher.eventually_told(["low on disk & memory"])

    clear(one, "disk")
    clear(two, "memory")
    eventually(lambda: alarms_at(three) == {(two.name, "disk")}, "one is left")
    assert publisher.is_told_nothing_new()
    clear(two, "disk")
    publisher.eventually_told(["low on disk & memory", "unblocked"])
    eventually(
        lambda: "disk resource limit alarm cleared across the cluster" in three.log(), "it is said"
    )
