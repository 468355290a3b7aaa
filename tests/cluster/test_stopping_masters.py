"""Nodes with masters stop in good order, or die with the only good copy (cases 6).

A node that stops hands over what others have a whole copy of, before anything else; so clients of
other nodes see no more of it than of a move.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.raw_client import RawClient
from cluster.conftest import OpenOn
from cluster.mirrored import (
    EVERYWHERE,
    MirroredCluster,
    drain,
    numbered,
    publish_all,
    refusal_of,
    running_mirrored,
)
from cluster.nodes import count_of, eventually
from cluster.test_moving_masters import PERSISTENT, Watcher, expect_answers

MESSAGES = 1_500
STOPPED_AT = 500


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    with running_mirrored(tmp_path_factory.mktemp("stopping")) as cluster:
        yield cluster


@pytest.fixture
def cluster(mortal: MirroredCluster) -> MirroredCluster:
    """All its nodes run: an earlier test may have stopped some."""
    mortal.start_all()
    return mortal


def _declare(cluster: MirroredCluster, queue: str) -> str:
    channel = cluster.nodes[0].channel()
    channel.queue_declare(queue, durable=True)
    channel.connection.close()
    cluster.await_in_sync(queue)
    assert cluster.master_node_of(queue) is cluster.nodes[0]
    return queue


def test_3_03_a_consumer_sees_every_message_in_order_though_the_masters_node_stops(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    queue = _declare(cluster, f"mirrored-{name}")
    watcher = Watcher(open_on(cluster.nodes[1]), queue)
    producer = open_on(cluster.nodes[2])
    for i in range(MESSAGES):
        publish_all(producer, queue, numbered(i))
        if i == STOPPED_AT:
            cluster.nodes[0].ask_to_stop()
        if i % 50 == 0:
            watcher.look()
    eventually(lambda: watcher.look() or len(watcher.bodies) == MESSAGES, "all have come")
    assert not watcher.wrong
    assert watcher.cancelled == 1
    assert cluster.nodes[0].await_end() == 0


def test_a_rolling_restart_loses_nothing_and_refuses_nothing(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    """Each node in turn has the master, stops and comes back; publishers are on another one."""
    queue = f"rolling-{name}"
    cluster.mirror(name, f"^{queue}$", {**EVERYWHERE, "ha-sync-mode": "automatic"})
    _declare(cluster, queue)
    published = 0
    for i, node in enumerate(cluster.nodes):
        with RawClient(cluster.nodes[i - 1].address).open() as client:
            client.call(1, "confirm.select")
            for number in range(MESSAGES):
                client.publish(1, b"%d" % (published + number), PERSISTENT, routing_key=queue)
                if number == STOPPED_AT:
                    node.ask_to_stop()
            expect_answers(client, MESSAGES, "basic.ack")
        published += MESSAGES
        assert node.await_end() == 0
        node.start()
        cluster.await_in_sync(queue)
    reader = open_on(cluster.nodes[0])
    assert [body for body, _ in drain(reader, queue)] == numbered(*range(published))
    cluster.stop_mirroring(name)


UNSAFE = {
    "always": {"ha-promote-on-shutdown": "always"},
    "default": {},
    "neither": {"ha-promote-on-shutdown": "always", "ha-promote-on-failure": "when-synced"},
}


def _with_unsynchronised_mirrors(
    cluster: MirroredCluster, channel: BlockingChannel, policies: dict[str, dict[str, str]]
) -> None:
    """Queues with ten messages at the first node, of which the mirrors on the second have none."""
    for queue, definition in policies.items():
        nodes = [node.name for node in cluster.nodes[:2]]
        wanted = {"ha-mode": "nodes", "ha-params": nodes, **definition}
        channel.queue_declare(queue, durable=True)
        publish_all(channel, queue, numbered(*range(10)))
        cluster.mirror(queue, f"^{queue}$", wanted)
    for queue in policies:
        eventually(lambda queue=queue: len(_nodes(cluster, queue)) == 2, f"{queue} has a mirror")
        assert cluster.in_sync(queue) == {cluster.nodes[0].name}


def test_6_01_and_6_03_what_becomes_of_queues_without_synchronised_mirror_when_their_node_stops(
    cluster: MirroredCluster, open_on: OpenOn
) -> None:
    channel = open_on(cluster.nodes[0], confirms=True)
    _with_unsynchronised_mirrors(cluster, channel, {**UNSAFE, "deleted": {}})
    cluster.nodes[0].ask_to_stop()
    assert cluster.nodes[0].await_end() == 0

    def declare(queue: str) -> int:
        other = open_on(cluster.nodes[1])
        return refusal_of(lambda: other.queue_declare(queue, durable=True))

    assert count_of(_declared(open_on(cluster.nodes[1]), "always"), "always") == 0
    assert declare("default") == 404
    assert declare("neither") == 404
    assert declare("deleted") == 404
    other = open_on(cluster.nodes[1])
    assert refusal_of(lambda: other.queue_delete("deleted", if_empty=True)) == 406
    open_on(cluster.nodes[1]).queue_delete("deleted")
    assert open_on(cluster.nodes[1]).queue_declare("deleted").method.message_count == 0

    cluster.start_all()
    reader = open_on(cluster.nodes[1])
    for queue in ("default", "neither"):
        assert _declared(reader, queue) is reader
        assert [body for body, _ in drain(reader, queue)] == numbered(*range(10))
    _forget(cluster, *UNSAFE, "deleted")


def test_6_02_what_becomes_of_queues_without_synchronised_mirror_when_their_node_is_killed(
    cluster: MirroredCluster, open_on: OpenOn
) -> None:
    channel = open_on(cluster.nodes[0], confirms=True)
    policies = {"lossy": {}, "waiting": {"ha-promote-on-failure": "when-synced"}}
    _with_unsynchronised_mirrors(cluster, channel, policies)
    cluster.nodes[0].kill()
    assert count_of(_declared(open_on(cluster.nodes[1]), "lossy"), "lossy") == 0
    other = open_on(cluster.nodes[1])
    assert refusal_of(lambda: other.queue_declare("waiting", durable=True)) == 404
    cluster.start_all()
    reader = open_on(cluster.nodes[1])
    assert _declared(reader, "waiting") is reader
    assert [body for body, _ in drain(reader, "waiting")] == numbered(*range(10))
    _forget(cluster, *policies)


def test_a_queue_that_is_down_is_said_to_be_on_the_node_that_has_it(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    """It was declared at the first node, which answers, and has moved to the third since."""
    first, second, third = cluster.nodes
    _declared(open_on(first), name)
    there = {"ha-mode": "nodes", "ha-params": [third.name], "ha-sync-mode": "automatic"}
    cluster.mirror(name, f"^{name}$", there)
    eventually(lambda: _nodes(cluster, name) == {third.name}, "it moves")
    third.kill()
    said = (
        f"home node '{third.name}' of durable queue '{name}' in vhost '/' is down or inaccessible"
    )
    for node in (first, second):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=re.escape(said)):
            _declared(open_on(node), name)
    cluster.start_all()
    _forget(cluster, name)


def test_4_08_and_4_37_nodes_that_join_and_die_keep_the_number_of_copies(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    four_copies = {"ha-mode": "exactly", "ha-params": 4}
    cluster.mirror(name, f"^{name}$", four_copies)
    channel = open_on(cluster.nodes[0], confirms=True)
    channel.queue_declare(name, durable=True)
    three = {node.name for node in cluster.nodes}
    eventually(lambda: _nodes(cluster, name) == three, "there are no more nodes")
    joining = [cluster.newcomer(f"more{i}", f"more{i}@localhost") for i in range(2)]
    try:
        for node in joining:
            node.launch()
        for node in joining:
            node.await_ready()
        eventually(lambda: len(_nodes(cluster, name)) == 4, "one of those that joined has a copy")
        publish_all(channel, name, numbered(0))
        having = next(node for node in joining if node.name in _nodes(cluster, name))
        other = next(node for node in joining if node is not having)
        having.kill()
        four = three | {other.name}
        eventually(lambda: _nodes(cluster, name) == four, "now the other one has")
        assert not _is_in_sync(cluster, name, other.name), "it came after the message"
        cluster.mirror(name, f"^{name}$", {**four_copies, "ha-sync-mode": "automatic"})
        eventually(lambda: _is_in_sync(cluster, name, other.name), "it has everything")
    finally:
        for node in joining:
            node.kill()
    channel.queue_delete(name)
    cluster.stop_mirroring(name)


def _is_in_sync(cluster: MirroredCluster, queue: str, node: str) -> bool:
    group = cluster.group(queue)
    assert group is not None
    return any(member.node == node and member.id in group.insync for member in group.live)


def _declared(channel: BlockingChannel, queue: str) -> BlockingChannel:
    channel.queue_declare(queue, durable=True)
    return channel


def _forget(cluster: MirroredCluster, *queues: str) -> None:
    channel = cluster.nodes[1].channel()
    for queue in queues:
        channel.queue_delete(queue)
        if queue != "deleted":
            cluster.stop_mirroring(queue)


def _nodes(cluster: MirroredCluster, queue: str) -> set[str]:
    """Those with a copy, whole or not."""
    group = cluster.group(queue)
    return set() if group is None else {member.node for member in group.live}
