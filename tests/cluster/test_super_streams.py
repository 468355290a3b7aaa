"""Super streams in a cluster: partitions are led by all nodes, and any node routes to them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pika

from acceptance.actions import consume
from cluster.conftest import OpenOn
from cluster.mirrored import MirroredCluster
from cluster.nodes import ClusterOfNodes, NodeProcess, eventually

KEYS = [f"customer-{number}" for number in range(40)]
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def declare(node: NodeProcess, name: str, **body: Any) -> None:
    node.api.must(node.api.put("warren", "super-streams", "/", name, body=body))


def partitions(node: NodeProcess, name: str) -> list[dict[str, Any]]:
    shown = node.api.must(node.api.get("warren", "super-streams", "/", name))
    found: list[dict[str, Any]] = shown["partitions"]
    return found


def leaders(node: NodeProcess, name: str) -> Counter[str]:
    return Counter(partition["node"] for partition in partitions(node, name))


def delete(node: NodeProcess, name: str) -> None:
    node.api.must(node.api.delete("warren", "super-streams", "/", name))


def test_partitions_are_led_by_all_nodes_whatever_else_these_lead(
    cluster: ClusterOfNodes, open_on: OpenOn
) -> None:
    first, second, third = cluster.nodes
    busy = open_on(first)
    for number in range(5):
        busy.queue_declare(f"other-{number}")
    declare(first, "spread", partitions=4)
    counts = leaders(second, "spread")
    assert sorted(counts.values()) == [1, 1, 2]
    assert counts[first.name] == 1, "it leads most other queues"
    declare(third, "spread", partitions=6)
    eventually(lambda: len(partitions(first, "spread")) == 6, "the first node knows all")
    assert set(leaders(first, "spread").values()) == {2}
    for number in range(5):
        busy.queue_delete(f"other-{number}")
    delete(second, "spread")
    for node in cluster.nodes:
        eventually(
            lambda node=node: node.api.get("warren", "super-streams", "/", "spread").status == 404,
            f"{node.name} has forgotten it",
        )


def test_a_locator_says_otherwise(cluster: ClusterOfNodes) -> None:
    second = cluster.nodes[1]
    declare(second, "here", partitions=3, arguments={"x-queue-leader-locator": "client-local"})
    assert leaders(second, "here") == {second.name: 3}
    delete(second, "here")


def test_every_node_sends_a_key_to_the_same_partition(
    cluster: ClusterOfNodes, open_on: OpenOn
) -> None:
    """In the order in which it was published, through whichever node."""
    declare(cluster.nodes[0], "keyed", partitions=3)
    channels = [open_on(node, confirms=True) for node in cluster.nodes]
    for node in cluster.nodes:
        eventually(lambda node=node: len(partitions(node, "keyed")) == 3, "all know it")
    for turn in range(6):
        for key in KEYS:
            channel = channels[turn % 3]
            channel.basic_publish("keyed", key, b"%d" % turn, PERSISTENT, mandatory=True)
    found: dict[str, list[bytes]] = {}
    for number in range(3):
        reader = open_on(cluster.nodes[(number + 1) % 3])
        reader.basic_qos(prefetch_count=1_000)
        count = reader.queue_declare(f"keyed-{number}", passive=True).method.message_count
        inbox = consume(reader, f"keyed-{number}", arguments={"x-stream-offset": "first"})
        inbox.await_count(count)
        here: dict[str, list[bytes]] = {}
        for message in inbox.messages:
            here.setdefault(message.method.routing_key, []).append(message.body)
        assert here.keys().isdisjoint(found), "a key has one partition"
        found |= here
    assert found == {key: [b"%d" % turn for turn in range(6)] for key in KEYS}
    delete(cluster.nodes[0], "keyed")


def test_mirrored_partitions_have_their_copies_when_the_declaration_is_answered(
    mirrored_cluster: MirroredCluster,
) -> None:
    first = mirrored_cluster.nodes[0]
    name = "mirrored-super"
    declare(first, name, partitions=3)
    assert set(leaders(first, name).values()) == {1}
    everybody = {node.name for node in mirrored_cluster.nodes}
    for number in range(3):
        assert mirrored_cluster.in_sync(f"{name}-{number}") == everybody
    delete(first, name)
