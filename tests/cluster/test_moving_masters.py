"""Masters move because a policy wants them elsewhere, and clients notice nothing (cases 4).

A master that moves is well: unlike one that dies it can see to it that its successor has all there
is, so nothing at all is lost here, not even what was published without confirms.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.raw_client import RawClient
from cluster.conftest import OpenOn
from cluster.mirrored import (
    MirroredCluster,
    drain,
    numbered,
    publish_all,
)
from cluster.nodes import NodeProcess, count_of, eventually

MESSAGES = 1_200
MOVED_AT = 400
PERSISTENT = b"\x10\x00\x02"
"""Properties: delivery-mode 2 alone."""


@pytest.fixture(scope="module")
def cluster(mirrored_cluster: MirroredCluster) -> MirroredCluster:
    return mirrored_cluster


class Placed:
    """A queue, and the policy that says where its copies are."""

    def __init__(self, cluster: MirroredCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name

    def put(self, *nodes: int, **definition: Any) -> None:
        """On these nodes and no others."""
        names = [self.cluster.nodes[i].name for i in nodes]
        automatic = {"ha-sync-mode": "automatic"}
        wanted = {"ha-mode": "nodes", "ha-params": names, **automatic, **definition}
        self.cluster.mirror(self.name, f"^{self.name}$", wanted)

    def declare(self, channel: BlockingChannel, **options: Any) -> None:
        channel.queue_declare(self.name, **{"durable": True, **options})

    @property
    def place(self) -> tuple[int, set[int]]:
        """Where the master is, -1 for nowhere, and where copies are that lack nothing."""
        nodes = self.cluster.nodes
        group = self.cluster.group(self.name)
        members = () if group is None else group.live
        assert group is not None
        home = [i for i, node in enumerate(nodes) for m in members if _is(m, group.leader, node)]
        synced = self.cluster.in_sync(self.name)
        return (home or [-1])[0], {i for i, node in enumerate(nodes) if node.name in synced}

    def await_place(self, home: int, *others: int) -> None:
        wanted = (home, {home, *others})
        eventually(lambda: self.place == wanted, f"{self.name} at {wanted}", 60)


def _is(member: Any, leader: str, node: NodeProcess) -> bool:
    return bool(member.id == leader and member.node == node.name)


@pytest.fixture
def queue(cluster: MirroredCluster, name: str, open_on: OpenOn) -> Iterator[Placed]:
    """Its master is on the first node, and its mirror, in sync, on the second."""
    placed = Placed(cluster, name)
    placed.put(0, 1)
    placed.declare(open_on(cluster.nodes[0]))
    placed.await_place(0, 1)
    yield placed
    cluster.stop_mirroring(name)


def test_4_05_a_policy_without_the_masters_node_moves_it_to_a_synchronised_mirror(
    cluster: MirroredCluster, queue: Placed, open_on: OpenOn
) -> None:
    publish_all(open_on(cluster.nodes[0], confirms=True), queue.name, numbered(*range(50)))
    queue.put(2, 1)
    queue.await_place(1, 2)
    reader = open_on(cluster.nodes[0])
    assert [body for body, _ in drain(reader, queue.name)] == numbered(*range(50))


def test_the_api_answers_about_a_queue_while_it_is_handed_over(
    cluster: MirroredCluster, queue: Placed
) -> None:
    """It waits for the new master, for some 50 ms, and does not say 503."""
    is_over, seen = threading.Event(), list[set[int]]()

    def ask(node: NodeProcess) -> None:
        statuses: set[int] = set()
        seen.append(statuses)
        while not is_over.is_set():
            statuses.add(node.api.get("queues", "/", queue.name).status)

    askers = [threading.Thread(target=ask, args=(node,)) for node in cluster.nodes]
    for asker in askers:
        asker.start()
    for master, mirror in ((1, 0), (0, 1), (1, 0), (0, 1)):
        queue.put(master)
        queue.await_place(master)
        queue.put(master, mirror)
        queue.await_place(master, mirror)
    is_over.set()
    for asker in askers:
        asker.join()
    assert seen == [{200}] * len(cluster.nodes)


def test_4_12_the_master_is_picked_from_those_the_policy_names(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    """Not the eldest mirror: the named one. It stays when the list grows around it."""
    placed = Placed(cluster, name)
    placed.put(0, 1, 2)
    placed.declare(open_on(cluster.nodes[0]))
    placed.await_place(0, 1, 2)
    publish_all(open_on(cluster.nodes[1], confirms=True), name, numbered(*range(20)))
    placed.put(2)
    placed.await_place(2)
    placed.put(2, 0)
    placed.await_place(2, 0)
    placed.put(1)
    placed.await_place(1)
    reader = open_on(cluster.nodes[0])
    assert [body for body, _ in drain(reader, name)] == numbered(*range(20))
    cluster.stop_mirroring(name)


def test_4_13_a_master_without_synchronised_mirror_stays_until_one_of_the_named_has_everything(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    channel = open_on(cluster.nodes[0], confirms=True)
    channel.queue_declare(name, durable=True)
    publish_all(channel, name, numbered(*range(20)))
    placed = Placed(cluster, name)
    by_hand = {"ha-sync-mode": "manual"}
    placed.put(0, 1, **by_hand)
    eventually(lambda: _copies(cluster, name) == {0, 1}, "it has a mirror that lacks something")
    placed.put(1, 2, **by_hand)
    eventually(lambda: _copies(cluster, name) == {0, 1, 2}, "its master is kept")
    assert placed.place == (0, {0})
    cluster.nodes[0].control.ok("sync_queue", name)
    eventually(lambda: placed.place[0] in (1, 2), "it moves")
    eventually(lambda: _copies(cluster, name) == {1, 2}, "and leaves nothing behind")
    assert [body for body, _ in drain(channel, name)] == numbered(*range(20))
    cluster.stop_mirroring(name)


def test_4_14_a_queue_whose_nodes_are_all_replaced_is_handed_over_once(
    cluster: MirroredCluster, queue: Placed, open_on: OpenOn
) -> None:
    """Its mirror is in sync, but goes: the master stays until a node that is named can lead."""
    publish_all(open_on(cluster.nodes[0], confirms=True), queue.name, numbered(*range(50)))
    before = cluster.group(queue.name)
    queue.put(2, **{"ha-sync-mode": "manual"})
    eventually(lambda: _copies(cluster, queue.name) == {0, 2}, "the master is kept")
    assert queue.place == (0, {0})
    queue.put(2)
    queue.await_place(2)
    after = cluster.group(queue.name)
    assert before is not None
    assert after is not None
    assert after.epoch == before.epoch + 1
    reader = open_on(cluster.nodes[2])
    assert [body for body, _ in drain(reader, queue.name)] == numbered(*range(50))


def test_4_36_a_queue_declared_at_a_node_that_is_not_named_ends_at_one_that_is(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    placed = Placed(cluster, name)
    placed.put(1, 2)
    channel = open_on(cluster.nodes[0])
    placed.declare(channel)
    for i in range(300):
        publish_all(channel, name, numbered(i))
    eventually(lambda: placed.place in ((1, {1, 2}), (2, {1, 2})), "it moves")
    eventually(lambda: count_of(channel, name) == 300, "all are there")
    assert [body for body, _ in drain(channel, name)] == numbered(*range(300))
    cluster.stop_mirroring(name)


def test_4_24_min_masters_counts_masters_where_they_are_and_keeps_to_the_nodes_named(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    """Some on the second node, more on the first: though all were declared at the third."""
    names = [node.name for node in cluster.nodes]
    channel = open_on(cluster.nodes[2])
    ballast = {f"{name}-{i}": 1 if i < 8 else 0 for i in range(20)}
    for home, pattern in enumerate((f"^{name}-(..|[89])$", f"^{name}-[0-7]$")):
        cluster.mirror(f"{name}-{home}", pattern, {"ha-mode": "nodes", "ha-params": [names[home]]})
    for queue in ballast:
        channel.queue_declare(queue)
    for queue, home in ballast.items():
        eventually(lambda queue=queue, home=home: _copies(cluster, queue) == {home}, "it has moved")
    located = {"queue-master-locator": "min-masters"}
    for mode, params, expected in (
        ("nodes", {"ha-params": [names[1], names[0]]}, 1),
        ("all", {}, 2),
        ("exactly", {"ha-params": 2}, 2),
    ):
        cluster.mirror(name, f"^{name}$", {"ha-mode": mode, **params, **located})
        open_on(cluster.nodes[0]).queue_declare(name)
        assert Placed(cluster, name).place[0] == expected
        channel.queue_delete(name)
    for queue in ballast:
        channel.queue_delete(queue)
    for policy in (name, f"{name}-0", f"{name}-1"):
        cluster.stop_mirroring(policy)


class Watcher:
    """Consumes with x-cancel-on-ha-failover, again after each cancel, and keeps an account."""

    def __init__(self, channel: BlockingChannel, queue: str) -> None:
        self.bodies: dict[bytes, None] = {}
        self.cancelled = 0
        self.wrong: list[str] = []
        self._channel = channel
        self._queue = queue
        self._is_consuming = False
        channel.basic_qos(prefetch_count=10)
        channel.add_on_cancel_callback(self._on_cancel)

    def look(self) -> None:
        if not self._is_consuming:
            self._is_consuming = True
            arguments = {"x-cancel-on-ha-failover": True}
            self._channel.basic_consume(self._queue, self._on_message, arguments=arguments)
        self._channel.connection.process_data_events(0.01)

    def _on_cancel(self, _: object) -> None:
        self.cancelled += 1
        self._is_consuming = False

    def _on_message(self, channel: BlockingChannel, method: Any, _: Any, body: bytes) -> None:
        if body in self.bodies and not method.redelivered:
            self.wrong.append(f"{body!r} came again and does not say so")
        elif body not in self.bodies and int(body) != len(self.bodies):
            self.wrong.append(f"{body!r} came when {len(self.bodies)} was next")
        self.bodies[body] = None
        channel.basic_ack(method.delivery_tag)


def test_3_05_a_consumer_sees_every_message_in_order_though_the_master_moves(
    cluster: MirroredCluster, queue: Placed, open_on: OpenOn
) -> None:
    """Published without confirms at the node that the master leaves, of all places."""
    watcher = Watcher(open_on(cluster.nodes[1]), queue.name)
    producer = open_on(cluster.nodes[0])
    for i in range(MESSAGES):
        publish_all(producer, queue.name, numbered(i))
        if i == MOVED_AT:
            queue.put(1, 2)
        if i % 50 == 0:
            watcher.look()
    eventually(lambda: watcher.look() or len(watcher.bodies) == MESSAGES, "all have come")
    assert not watcher.wrong
    assert watcher.cancelled == 1
    queue.await_place(1, 2)


@pytest.mark.parametrize("at", [0, 2], ids=["at the old home", "elsewhere"])
def test_3_09_every_publish_is_confirmed_once_and_none_refused_though_the_master_moves(
    at: int, cluster: MirroredCluster, queue: Placed, open_on: OpenOn
) -> None:
    with RawClient(cluster.nodes[at].address).open() as client:
        client.call(1, "confirm.select")
        for i in range(MESSAGES):
            client.publish(1, b"%d" % i, PERSISTENT, routing_key=queue.name)
            if i == MOVED_AT:
                queue.put(1, 2)
        expect_answers(client, MESSAGES, "basic.ack")
    queue.await_place(1, 2)
    reader = open_on(cluster.nodes[2])
    assert [body for body, _ in drain(reader, queue.name)] == numbered(*range(MESSAGES))


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_3_11_a_full_queue_goes_on_refusing_though_its_master_moves(
    overflow: str, cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    placed = Placed(cluster, name)
    placed.put(0, 1)
    arguments = {"x-max-length": 1, "x-overflow": overflow}
    placed.declare(open_on(cluster.nodes[0]), arguments=arguments)
    placed.await_place(0, 1)
    publish_all(open_on(cluster.nodes[1], confirms=True), name, [b"first"])
    with RawClient(cluster.nodes[1].address).open() as client:
        client.call(1, "confirm.select")
        for i in range(MESSAGES):
            client.publish(1, b"%d" % i, PERSISTENT, routing_key=name)
            if i == MOVED_AT:
                placed.put(1, 2)
        expect_answers(client, MESSAGES, "basic.nack")
    placed.await_place(1, 2)
    reader = open_on(cluster.nodes[2])
    assert [body for body, _ in drain(reader, name)] == [b"first"]
    cluster.stop_mirroring(name)


def test_a_node_that_is_drained_hands_its_masters_over_and_leaves_the_others_where_they_are(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    channel = open_on(cluster.nodes[0], confirms=True)
    queue = f"mirrored-{name}"
    channel.queue_declare(queue, durable=True)
    channel.queue_declare(name, durable=True)
    cluster.await_in_sync(queue)
    for each in (queue, name):
        publish_all(channel, each, numbered(1))
    cluster.nodes[0].control.ok("drain")
    reader = open_on(cluster.nodes[1], confirms=True)
    assert cluster.master_node_of(queue) in cluster.nodes[1:]
    for each in (queue, name):
        publish_all(reader, each, numbered(2))
        assert [body for body, _ in drain(reader, each)] == numbered(1, 2)
    cluster.nodes[0].control.ok("revive")
    cluster.await_in_sync(queue)


def expect_answers(client: RawClient, count: int, method: str) -> None:
    """Each publish is answered so, once, and no other answer comes."""
    answered = 0
    while answered < count:
        answer = client.expect(1, method, within_s=60)
        first = answered + 1 if answer.multiple else answer.delivery_tag
        assert first == answered + 1, "in order"
        answered = answer.delivery_tag
    assert answered == count


def _copies(cluster: MirroredCluster, queue: str) -> set[int]:
    """Where there are any, in sync or not."""
    group = cluster.group(queue)
    nodes = () if group is None else [member.node for member in group.live]
    return {i for i, node in enumerate(cluster.nodes) if node.name in nodes}
