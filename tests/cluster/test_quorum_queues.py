"""Quorum queues in a cluster: copies without a policy, whatever node is killed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from cluster.conftest import OpenOn
from cluster.mirrored import MirroredCluster, drain, publish_all, running_mirrored
from cluster.nodes import NodeProcess, count_of, eventually

QUORUM = {"x-queue-type": "quorum"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    """A cluster whose nodes are killed, and come back before the next test."""
    with running_mirrored(tmp_path_factory.mktemp("quorum")) as cluster:
        yield cluster


def declare(node: NodeProcess, queue: str, **arguments: Any) -> None:
    channel = node.channel()
    channel.queue_declare(queue, durable=True, arguments={**QUORUM, **arguments})
    channel.connection.close()


def state_of(node: NodeProcess, queue: str) -> str:
    rows = node.api.must(node.api.get("queues", "/"))
    return str(next(row["state"] for row in rows if row["name"] == queue))


class Publisher(threading.Thread):
    """Publishes numbers with confirms, one at a time, until it is told to stop."""

    def __init__(self, node: NodeProcess, queue: str, delivery_mode: int = 2) -> None:
        super().__init__(daemon=True)
        self._channel = node.channel()
        self._channel.confirm_delivery()
        self._queue = queue
        self._properties = pika.BasicProperties(delivery_mode=delivery_mode)
        self._is_ending = threading.Event()
        self.confirmed: list[bytes] = []

    def run(self) -> None:
        number = 0
        while not self._is_ending.is_set():
            body = b"%d" % number
            try:
                self._channel.basic_publish("", self._queue, body, self._properties, True)
            except pika.exceptions.NackError:
                continue
            self.confirmed.append(body)
            number += 1

    def await_more(self, count: int = 50) -> None:
        wanted = len(self.confirmed) + count
        eventually(lambda: len(self.confirmed) >= wanted, "confirms go on")

    def end(self) -> list[bytes]:
        self._is_ending.set()
        self.join(60)
        assert not self.is_alive()
        return self.confirmed


@pytest.mark.parametrize("victim", ["leader", "follower"])
def test_no_confirmed_message_is_lost_with_a_killed_node_and_confirms_go_on(
    own: MirroredCluster, open_on: OpenOn, name: str, victim: str
) -> None:
    declare(own.nodes[0], name)
    assert own.in_sync(name) == {node.name for node in own.nodes}, "when declare-ok came"
    publisher = Publisher(own.nodes[2], name)
    publisher.start()
    publisher.await_more()
    own.nodes[0 if victim == "leader" else 1].kill()
    publisher.await_more()
    confirmed = publisher.end()
    found = [body for body, _ in drain(open_on(own.nodes[2]), name)]
    assert set(confirmed) <= set(found)
    own.start_all()
    own.await_in_sync(name)


@pytest.mark.parametrize("victim", ["leader", "follower"])
def test_no_confirmed_message_is_lost_with_a_paused_node_and_confirms_go_on(
    own: MirroredCluster, open_on: OpenOn, name: str, victim: str
) -> None:
    """A silent copy is put out, a silent leader replaced; both come back and have everything."""
    declare(own.nodes[0], name)
    publisher = Publisher(own.nodes[2], name)
    publisher.start()
    publisher.await_more()
    paused = own.nodes[0 if victim == "leader" else 1]
    os.kill(paused.pid, signal.SIGSTOP)
    try:
        eventually(lambda: paused.name not in own.in_sync(name), "it is put out")
        publisher.await_more()
    finally:
        os.kill(paused.pid, signal.SIGCONT)
    confirmed = publisher.end()
    own.await_in_sync(name)
    found = [body for body, _ in drain(open_on(own.nodes[2]), name)]
    assert set(confirmed) <= set(found)


def test_transient_messages_outlive_all_nodes(
    own: MirroredCluster, open_on: OpenOn, name: str
) -> None:
    declare(own.nodes[0], name)
    channel = open_on(own.nodes[1], confirms=True)
    publish_all(channel, name, [b"1", b"2"], delivery_mode=1)
    for node in own.nodes:
        node.kill()
    own.start_all()
    own.await_in_sync(name)
    assert [body for body, _ in drain(open_on(own.nodes[2]), name)] == [b"1", b"2"]


def test_a_copy_that_lacks_messages_never_leads(own: MirroredCluster, name: str) -> None:
    """Two die, the last one takes messages, and dies: the queue waits for it."""
    declare(own.nodes[0], name)
    own.nodes[1].kill()
    own.nodes[2].kill()
    channel = own.nodes[0].channel()
    channel.confirm_delivery()
    publish_all(channel, name, [b"only here"])
    own.nodes[0].kill()
    for node in own.nodes[1:]:
        node.start()
    eventually(lambda: state_of(own.nodes[1], name) == "down", "it is down")
    own.nodes[0].start()
    own.await_in_sync(name)
    assert count_of(own.nodes[1].channel(), name) == 1


def test_a_node_that_is_forgotten_is_chosen_no_more(own: MirroredCluster, name: str) -> None:
    """The last test of this file: the cluster has two nodes afterwards."""
    first, second, third = own.nodes
    declare(first, name, **{"x-quorum-initial-group-size": 1})
    first.control.ok(f"add_member {name} {third.name}")
    first.control.ok(f"add_member {name} {second.name}")
    eventually(lambda: len(own.in_sync(name)) == 3, "all are in sync")
    third.kill()
    shown = first.api.must(first.api.get("queues", "/", name))
    assert sorted(shown["members"]) == sorted(node.name for node in own.nodes)
    eventually(lambda: third.name not in online(first, name), "it is gone")
    eventually(
        lambda: first.control(f"forget_cluster_node --yes {third.name}").code == 0,
        "it is forgotten",
    )
    shown = first.api.must(first.api.get("queues", "/", name))
    assert sorted(shown["members"]) == [first.name, second.name]


def online(node: NodeProcess, queue: str) -> list[str]:
    return list(node.api.must(node.api.get("queues", "/", queue))["online"])
