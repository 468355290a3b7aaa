"""Clusters: where a queue is, who serves its clients, and who leads it next."""

from __future__ import annotations

from typing import Any

from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import channel_error, consume
from cluster.conftest import OpenOn
from cluster.mirrored import MirroredCluster, drain, numbered, publish_all
from cluster.nodes import body_of, count_of, eventually


def shown(cluster: MirroredCluster, queue: str) -> dict[str, Any]:
    """The queue as a living node shows it; nothing while it has no master."""
    answer = cluster.living[0].api.get("queues", "/", queue)
    return answer.body if answer.status == 200 else {}


def declare_mirrored(cluster: MirroredCluster, channel: BlockingChannel, queue: str) -> None:
    channel.queue_declare(queue, durable=True)
    cluster.await_in_sync(queue)


def test_c013_one_copy(three: MirroredCluster, name: str, open_on: OpenOn) -> None:
    """A queue that is not mirrored is on one node; exchanges and bindings are on all of them."""
    first, home, _ = three.nodes
    channel = open_on(home, confirms=True)
    channel.exchange_declare(name, durable=True)
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, name, "key")
    publish_all(channel, name, numbered(13))
    home.kill()
    with channel_error(404) as refusal:
        open_on(first).basic_get(name)
    assert home.name in refusal.text
    open_on(first).exchange_declare(name, passive=True)
    bindings = first.api.get("exchanges", "/", name, "bindings", "source").body
    assert [(b["destination"], b["routing_key"]) for b in bindings] == [(name, "key")]
    home.start()
    eventually(lambda: shown(three, name).get("messages") == 1, "it is back with its node")
    assert body_of(open_on(first), name) == b"13"


def test_c014_any_node(four: MirroredCluster, name: str, open_on: OpenOn) -> None:
    """Whatever node a client is connected to, what it asks of a queue is done at the master."""
    open_on(four.nodes[1]).queue_declare(name, durable=True)
    publish_all(open_on(four.nodes[2], confirms=True), name, numbered(14))
    assert body_of(open_on(four.nodes[3]), name) == b"14"
    assert shown(four, name)["node"] == four.nodes[1].name


def test_c015_consumers_at_mirrors(four: MirroredCluster, name: str, open_on: OpenOn) -> None:
    """basic.consume and basic.get at the node of a mirror are served by the master."""
    queue = f"mirrored-{name}"
    declare_mirrored(four, open_on(four.nodes[0]), queue)
    publish_all(open_on(four.nodes[0], confirms=True), queue, numbered(1, 2))
    assert body_of(open_on(four.nodes[2]), queue) == b"1"
    inbox = consume(open_on(four.nodes[1]), queue, auto_ack=True)
    inbox.await_count(1)
    assert inbox.bodies == [b"2"]
    eventually(lambda: shown(four, queue).get("messages") == 0, "the master has no more")
    assert shown(four, queue)["node"] == four.nodes[0].name


def test_c016_acks(three: MirroredCluster, name: str, open_on: OpenOn) -> None:
    """An acknowledgement removes the message at the mirrors as well."""
    queue = f"mirrored-{name}"
    declare_mirrored(three, open_on(three.nodes[0]), queue)
    channel = open_on(three.nodes[1], confirms=True)
    publish_all(channel, queue, numbered(*range(6)))
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(5)]
    channel.basic_ack(tags[1])
    channel.basic_ack(tags[4])
    # The master's answer to this comes after it has heard of both.
    assert count_of(channel, queue) == 1
    publish_all(channel, queue, numbered(6))
    three.nodes[0].kill()
    left = numbered(0, 2, 3, 5, 6)
    reader = open_on(three.nodes[2])
    eventually(lambda: count_of(reader, queue) == len(left), "unacknowledged ones are back")
    assert [body for body, _ in drain(reader, queue)] == left


def test_c017_oldest_mirror(three: MirroredCluster, name: str, open_on: OpenOn) -> None:
    """If the master is lost, the oldest mirror becomes master."""
    one, two, three_ = three.nodes
    queue = f"mirrored-{name}"
    declare_mirrored(three, open_on(one), queue)
    eldest = shown(three, queue)["slave_nodes"][0]
    pair = {"ha-mode": "nodes", "ha-params": [one.name, three_.name]}
    three.mirror(name, f"^{name}$", pair)
    channel = open_on(one, confirms=True)
    channel.queue_declare(name, durable=True)
    eventually(lambda: three.in_sync(name) == {one.name, three_.name}, "two copies")
    publish_all(channel, name, numbered(*range(5)))
    three_.kill()
    everywhere = [node.name for node in three.nodes]
    three.mirror(name, f"^{name}$", {"ha-mode": "nodes", "ha-params": everywhere})
    eventually(lambda: shown(three, name).get("slave_nodes") == [two.name], "a mirror that lacks 5")
    three_.start()
    eventually(lambda: three.in_sync(name) == {one.name, three_.name}, "it has kept all it had")
    three.await_in_sync(queue)
    assert shown(three, name)["slave_nodes"] == [two.name, three_.name], "oldest first"
    eldest = shown(three, queue)["slave_nodes"][0]
    one.kill()
    eventually(lambda: shown(three, queue).get("node") == eldest, "the oldest leads")
    eventually(lambda: shown(three, name).get("node") == three_.name, "the oldest in sync leads")
    assert [body for body, _ in drain(open_on(two), name)] == numbered(*range(5))
    three.stop_mirroring(name)
