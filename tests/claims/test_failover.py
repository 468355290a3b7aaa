"""Failover: what clients notice of a node that dies with a master or a mirror on it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import consume
from acceptance.raw_client import RawClient
from claims.test_clusters import declare_mirrored, shown
from cluster.conftest import OpenOn
from cluster.mirrored import MirroredCluster, drain, numbered, publish_all
from cluster.nodes import NodeProcess, count_of, eventually
from durability.mail import PERSISTENT_BLOCK, Confirms
from warren.config.settings import settings

OLD, NEW = 10, 3
MESSAGES = 600
MIRROR_DIES_AT, MASTER_DIES_AT = 200, 400
SILENT_S = 1.0
"""Time in which nothing is confirmed though a mirror does not answer."""


def has_lost_connection(channel: BlockingChannel) -> bool:
    try:
        channel.connection.process_data_events(0.05)
    except pika.exceptions.AMQPConnectionError:
        return True
    return bool(channel.connection.is_closed)


def with_unsynchronised_mirror(
    cluster: MirroredCluster, channel: BlockingChannel, queue: str, **definition: str
) -> None:
    """A queue of the first node; the mirror on the second has the last three messages alone."""
    channel.queue_declare(queue, durable=True)
    publish_all(channel, queue, numbered(*range(OLD)))
    nodes = [node.name for node in cluster.nodes[:2]]
    more = {key.replace("_", "-"): value for key, value in definition.items()}
    cluster.mirror(queue, f"^{queue}$", {"ha-mode": "nodes", "ha-params": nodes, **more})
    eventually(lambda: shown(cluster, queue).get("slave_nodes") == nodes[1:], "it has a mirror")
    publish_all(channel, queue, numbered(*range(OLD, OLD + NEW)))
    assert cluster.in_sync(queue) == {nodes[0]}


@pytest.fixture
def queue(three: MirroredCluster, name: str, open_on: OpenOn) -> str:
    """Mirrored on all three nodes, and in sync; the master is on the first."""
    queue = f"mirrored-{name}"
    declare_mirrored(three, open_on(three.nodes[0]), queue)
    assert three.master_node_of(queue) is three.nodes[0]
    return queue


def test_c049_lost_messages(three: MirroredCluster, name: str, open_on: OpenOn) -> None:
    """Messages that a mirror lacks are lost if the master is lost before it is in sync."""
    with_unsynchronised_mirror(three, open_on(three.nodes[0], confirms=True), name)
    three.nodes[0].kill()
    survivor = open_on(three.nodes[1])
    eventually(lambda: shown(three, name).get("node") == three.nodes[1].name, "it is promoted")
    assert [body for body, _ in drain(survivor, name)] == numbered(10, 11, 12)
    lines = [line for line in three.nodes[1].log().splitlines() if f"queue '{name}'" in line]
    assert any("messages are lost" in line and f"lost={OLD}" in line for line in lines)


def test_c060_mirror_dies(three: MirroredCluster, queue: str, open_on: OpenOn) -> None:
    """If the node of a mirror dies, its clients lose their connections; nothing else happens."""
    of_dead, elsewhere = open_on(three.nodes[2]), open_on(three.nodes[1], confirms=True)
    inbox = consume(open_on(three.nodes[0]), queue, auto_ack=True)
    publish_all(elsewhere, queue, numbered(*range(20)))
    three.nodes[2].kill()
    publish_all(elsewhere, queue, numbered(*range(20, 40)))
    inbox.await_count(40)
    assert inbox.bodies == numbered(*range(40))
    assert not any(message.method.redelivered for message in inbox.messages)
    eventually(lambda: has_lost_connection(of_dead), "its connection is gone")
    assert elsewhere.is_open


def test_c061_master_dies(three: MirroredCluster, queue: str, open_on: OpenOn) -> None:
    """If the node of the master dies, the clients of that node lose their connections."""
    of_dead, elsewhere = open_on(three.nodes[0]), open_on(three.nodes[1], confirms=True)
    three.nodes[0].kill()
    eventually(lambda: has_lost_connection(of_dead), "its connection is gone")
    publish_all(elsewhere, queue, numbered(61))
    assert count_of(elsewhere, queue) == 1


def test_c062_publishers_go_on(three: MirroredCluster, queue: str, open_on: OpenOn) -> None:
    """Publishers of other nodes go on though mirror and master die, and lose nothing."""
    with RawClient(three.nodes[1].address).open() as client:
        confirms = Confirms(client)
        for number in range(MESSAGES):
            confirms.publish(b"%d" % number, PERSISTENT_BLOCK, routing_key=queue)
            if number == MIRROR_DIES_AT:
                three.nodes[2].kill()
            if number == MASTER_DIES_AT:
                confirms.wait()
                three.nodes[0].kill()
        confirms.wait()
    assert confirms.nacked == set()
    found = [body for body, _ in drain(open_on(three.nodes[1]), queue)]
    assert found == numbered(*range(MESSAGES))


def test_c063_requeued(three: MirroredCluster, queue: str, open_on: OpenOn) -> None:
    """Unacknowledged messages are queued again in their places, and delivered as redelivered."""
    channel = open_on(three.nodes[1], confirms=True)
    publish_all(channel, queue, numbered(*range(30)))
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(10)]
    channel.basic_ack(tags[1])
    channel.basic_ack(tags[4])
    # A confirm of what comes after them means that the mirrors know of the acknowledgements.
    publish_all(channel, queue, numbered(30))
    three.nodes[0].kill()
    reader = open_on(three.nodes[2])
    eventually(lambda: count_of(reader, queue) == 29, "all but two are ready")
    left = [number for number in range(31) if number not in (1, 4)]
    assert drain(reader, queue) == [(body, True) for body in numbered(*left)]


def test_c064_delivered_again(three: MirroredCluster, queue: str, open_on: OpenOn) -> None:
    """A consumer that goes on is sent its unacknowledged messages again without being asked."""
    channel = open_on(three.nodes[1], confirms=True)
    publish_all(channel, queue, numbered(*range(10)))
    channel.basic_qos(prefetch_count=5)
    inbox = consume(channel, queue)
    inbox.await_count(5)
    three.nodes[0].kill()
    inbox.await_count(10)
    assert inbox.bodies == numbered(0, 1, 2, 3, 4) * 2
    assert [message.method.redelivered for message in inbox.messages] == [False] * 5 + [True] * 5


def test_c065_cancelled(three: MirroredCluster, queue: str, open_on: OpenOn) -> None:
    """A consumer with x-cancel-on-ha-failover is cancelled; without it, it notices nothing."""
    cancelled: dict[str, list[Any]] = {"told": [], "not told": []}
    channels = {which: open_on(three.nodes[1]) for which in cancelled}
    inboxes = {}
    for which, channel in channels.items():
        channel.add_on_cancel_callback(cancelled[which].append)
        wants = {"x-cancel-on-ha-failover": True} if which == "told" else {}
        inboxes[which] = consume(channel, queue, auto_ack=True, arguments=wants)
    three.nodes[0].kill()

    def is_told() -> bool:
        channels["told"].connection.process_data_events(0.02)
        return len(cancelled["told"]) == 1

    eventually(is_told, "it is cancelled")
    publish_all(open_on(three.nodes[2], confirms=True), queue, numbered(65))
    inboxes["not told"].await_count(1)
    assert cancelled["not told"] == []


@contextmanager
def standing_still(node: NodeProcess) -> Iterator[None]:
    os.kill(node.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(node.pid, signal.SIGCONT)


def test_c070_confirms_of_all(three: MirroredCluster, queue: str) -> None:
    """A publish is confirmed when all mirrors have it; a silent one is put out, and it goes on."""
    with RawClient(three.nodes[0].address).open() as client:
        confirms = Confirms(client)
        confirms.publish(b"at once", PERSISTENT_BLOCK, routing_key=queue)
        confirms.wait()
        with standing_still(three.nodes[2]):
            confirms.publish(b"held up", PERSISTENT_BLOCK, routing_key=queue)
            client.expect_silence(SILENT_S)
            confirms.wait()
        assert confirms.nacked == set()
    three.await_in_sync(queue)
    assert "warren.mirror_timeout" in settings(), "how long it may be silent can be set"


def test_c071_transactions(three: MirroredCluster, queue: str) -> None:
    """tx.commit-ok comes when all mirrors have executed the transaction."""
    with RawClient(three.nodes[0].address).open() as client:
        client.call(1, "tx.select")
        client.publish(1, b"at once", PERSISTENT_BLOCK, routing_key=queue)
        client.call(1, "tx.commit")
        with standing_still(three.nodes[2]):
            client.publish(1, b"held up", PERSISTENT_BLOCK, routing_key=queue)
            client.send(1, "tx.commit")
            client.expect_silence(SILENT_S)
            client.expect(1, "tx.commit-ok")
    three.await_in_sync(queue)
    assert count_of(three.nodes[1].channel(), queue) == 2
