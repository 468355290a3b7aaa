"""Clients go on while the home of a mirrored queue dies, and queues while their mirroring changes.

Cases 3, 4 and 6 of docs/REPLICATION.md. The node that is killed is whichever is the home; it comes
back for the next test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.raw_client import Login, RawClient
from cluster.conftest import OpenOn
from cluster.mirrored import (
    EVERYWHERE,
    MirroredCluster,
    drain,
    numbered,
    publish_all,
    running_mirrored,
)
from cluster.nodes import NodeProcess, body_of, count_of, eventually

MESSAGES = 600
KILLED_AT = 200


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    with running_mirrored(tmp_path_factory.mktemp("in-use")) as cluster:
        yield cluster


@pytest.fixture
def cluster(mortal: MirroredCluster) -> MirroredCluster:
    """All its nodes run: an earlier test may have killed some."""
    mortal.start_all()
    return mortal


@pytest.fixture
def queue(cluster: MirroredCluster, name: str) -> str:
    """Its home is the first node."""
    return _declare(cluster, f"mirrored-{name}")


def _declare(cluster: MirroredCluster, queue: str, **options: Any) -> str:
    channel = cluster.nodes[0].channel()
    channel.queue_declare(queue, **{"durable": True, **options})
    channel.connection.close()
    cluster.await_in_sync(queue)
    assert cluster.master_node_of(queue) is cluster.nodes[0]
    return queue


class Reader:
    """Consumes, acknowledges, and comes again when it is cancelled."""

    def __init__(self, channel: BlockingChannel, queue: str, arguments: dict[str, Any]) -> None:
        self.bodies: list[bytes] = []
        self.cancelled = 0
        self._channel = channel
        self._queue = queue
        self._arguments = arguments
        self._is_consuming = False
        channel.add_on_cancel_callback(self._on_cancel)
        self.look()

    def look(self) -> None:
        if not self._is_consuming:
            self._is_consuming = True
            self._channel.basic_consume(self._queue, self._on_message, arguments=self._arguments)
        self._channel.connection.process_data_events(0.01)

    def _on_cancel(self, _: object) -> None:
        self.cancelled += 1
        self._is_consuming = False

    def _on_message(self, channel: BlockingChannel, method: Any, _: Any, body: bytes) -> None:
        if body in self.bodies:
            assert method.redelivered, "whatever comes again is said to"
        else:
            self.bodies.append(body)
        channel.basic_ack(method.delivery_tag)


@pytest.mark.parametrize(
    "arguments", [{"x-cancel-on-ha-failover": True}, {}], ids=["3-04-cancelled", "3-06-resumed"]
)
def test_consumers_see_every_message_though_the_home_is_killed(
    arguments: dict[str, Any], cluster: MirroredCluster, queue: str, open_on: OpenOn
) -> None:
    reader = Reader(open_on(cluster.nodes[1]), queue, arguments)
    producer = open_on(cluster.nodes[2])
    for i in range(MESSAGES):
        publish_all(producer, queue, numbered(i))
        if i == KILLED_AT:
            cluster.nodes[0].kill()
        if i % 50 == 0:
            reader.look()
    eventually(lambda: reader.look() or len(reader.bodies) == MESSAGES, "all have come")
    assert reader.bodies == numbered(*range(MESSAGES)), "and in their order"
    assert reader.cancelled == (1 if arguments else 0)


QUESTIONS: dict[str, Callable[[BlockingChannel, str], object]] = {
    "declare": lambda channel, queue: channel.queue_declare(queue, passive=True),
    "get": lambda channel, queue: channel.basic_get(queue, auto_ack=True),
    "purge": lambda channel, queue: channel.queue_purge(queue),
    "consume": lambda channel, queue: channel.basic_cancel(
        channel.basic_consume(queue, lambda *_: None, auto_ack=True)
    ),
}


def test_whatever_is_asked_while_the_home_is_killed_is_answered_by_the_next(
    cluster: MirroredCluster, queue: str, open_on: OpenOn
) -> None:
    """Both where that is, and where it is not."""
    asked = {(node.name, kind): 0 for node in cluster.nodes[1:] for kind in QUESTIONS}
    is_enough = Event()

    def ask(node: NodeProcess, kind: str, channel: BlockingChannel) -> None:
        while not is_enough.is_set():
            QUESTIONS[kind](channel, queue)
            asked[node.name, kind] += 1

    clients = ThreadPoolExecutor(len(asked))
    asking = [
        clients.submit(ask, node, kind, open_on(node))
        for node in cluster.nodes[1:]
        for kind in QUESTIONS
    ]

    def await_answers() -> None:
        enough = max(asked.values()) + 20
        eventually(lambda: min(asked.values()) > enough or any(f.done() for f in asking), "answers")

    await_answers()
    cluster.nodes[0].kill()
    await_answers()
    is_enough.set()
    clients.shutdown(wait=False)
    for each in asking:
        each.result(60)


def test_3_07_a_client_that_knows_no_cancels_is_served_again(
    cluster: MirroredCluster, queue: str, open_on: OpenOn
) -> None:
    with RawClient(cluster.nodes[1].address).open(Login(capabilities=())) as client:
        client.call(1, "basic.consume", queue=queue, no_ack=True)
        cluster.nodes[0].kill()
        publish_all(open_on(cluster.nodes[2], confirms=True), queue, numbered(1))
        assert client.expect_content(1, "basic.deliver").body == b"1"


def test_3_08_publishes_are_confirmed_and_none_refused_though_the_home_is_killed(
    cluster: MirroredCluster, queue: str, open_on: OpenOn
) -> None:
    with RawClient(cluster.nodes[1].address).open() as client:
        client.call(1, "confirm.select")
        for i in range(MESSAGES):
            client.publish(1, b"%d" % i, PERSISTENT, routing_key=queue)
            if i == KILLED_AT:
                cluster.nodes[0].kill()
        assert _confirmed(client, MESSAGES) == set(range(1, MESSAGES + 1))
    reader = open_on(cluster.nodes[2])
    assert [body for body, _ in drain(reader, queue)] == numbered(*range(MESSAGES))


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_3_10_a_full_queue_goes_on_refusing_though_its_home_is_killed(
    overflow: str, cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    arguments = {"x-max-length": 1, "x-overflow": overflow}
    queue = _declare(cluster, f"mirrored-{name}", arguments=arguments)
    publish_all(open_on(cluster.nodes[1], confirms=True), queue, [b"first"])
    with RawClient(cluster.nodes[1].address).open() as client:
        client.call(1, "confirm.select")
        for i in range(MESSAGES):
            client.publish(1, b"%d" % i, PERSISTENT, routing_key=queue)
            if i == KILLED_AT:
                cluster.nodes[0].kill()
        assert _answered(client, MESSAGES, "basic.nack") == set(range(1, MESSAGES + 1))
    reader = open_on(cluster.nodes[2])
    assert [body for body, _ in drain(reader, queue)] == [b"first"]


def test_3_15_a_queue_keeps_transient_messages_too_and_has_all_its_copies_again(
    cluster: MirroredCluster, queue: str, open_on: OpenOn
) -> None:
    """Nothing but a node can crash here: there is no process for each queue."""
    survivor = open_on(cluster.nodes[1], confirms=True)
    publish_all(survivor, queue, [b"transient"], delivery_mode=1)
    publish_all(survivor, queue, [b"persistent"])
    cluster.nodes[0].kill()
    assert count_of(survivor, queue) == 2
    cluster.start_all()
    eventually(lambda: _copies(cluster, queue) == 3, "it has its copies")
    assert drain(survivor, queue) == [(b"transient", True), (b"persistent", True)]
    cluster.await_in_sync(queue)


def test_3_17_a_message_for_two_queues_is_answered_once_though_the_home_of_one_is_killed(
    cluster: MirroredCluster, queue: str, open_on: OpenOn
) -> None:
    """RabbitMQ refuses it then; here the next home of the queue takes it."""
    channel = open_on(cluster.nodes[2])
    other = f"{queue}-other"
    channel.queue_declare(other, durable=True)
    for each in (queue, other):
        channel.queue_bind(each, "amq.fanout")
    cluster.await_in_sync(other)
    with RawClient(cluster.nodes[1].address).open() as client:
        client.call(1, "confirm.select")
        for i in range(MESSAGES):
            client.publish(1, b"%d" % i, PERSISTENT, exchange="amq.fanout", routing_key="")
            if i == KILLED_AT:
                cluster.nodes[0].kill()
        assert _confirmed(client, MESSAGES) == set(range(1, MESSAGES + 1))
    for each in (queue, other):
        assert [body for body, _ in drain(channel, each)] == numbered(*range(MESSAGES))
        channel.queue_delete(each)


def test_3_32_and_3_33_the_next_home_has_what_was_taken_and_nothing_that_was_refused(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    """Without confirms, by a publisher at the home, which is gone before anybody looks."""
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    queue = _declare(cluster, f"mirrored-{name}", arguments=arguments)
    publisher = open_on(cluster.nodes[0])
    publish_all(publisher, queue, [b"taken"])
    publisher.connection.close()
    # When this is confirmed, what came before it is with all mirrors.
    publish_all(open_on(cluster.nodes[0], confirms=True), queue, [b"confirmed"])
    refused = open_on(cluster.nodes[0])
    publish_all(refused, queue, numbered(*range(MESSAGES)))
    assert count_of(refused, queue) == 2
    cluster.nodes[0].kill()
    found = drain(open_on(cluster.nodes[1]), queue)
    assert found == [(b"taken", True), (b"confirmed", True)]


def test_messages_expire_at_the_next_home_though_nobody_uses_the_queue(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    survivor = open_on(cluster.nodes[1], confirms=True)
    survivor.queue_declare(name)
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name}
    arguments = {"x-message-ttl": 1_000, **dead_letters}
    queue = _declare(cluster, f"mirrored-{name}", arguments=arguments)
    publish_all(survivor, queue, numbered(1, 2))
    cluster.nodes[0].kill()
    eventually(lambda: count_of(survivor, name) == 2, "they have expired")


def test_3_40_a_node_that_is_asked_for_a_copy_again_and_again_has_one(
    cluster: MirroredCluster, queue: str
) -> None:
    cluster.nodes[2].kill()
    cluster.nodes[2].launch()
    for priority in range(20):
        cluster.mirror("all", "^mirrored", EVERYWHERE, priority)
    cluster.nodes[2].await_ready()
    cluster.await_in_sync(queue)
    group = cluster.group(queue)
    assert group is not None
    assert sorted(m.node for m in group.live) == sorted(node.name for node in cluster.nodes)


def test_3_18_publishes_to_a_queue_that_is_deleted_meanwhile_are_confirmed(
    cluster: MirroredCluster, queue: str, open_on: OpenOn
) -> None:
    other = open_on(cluster.nodes[2])
    with RawClient(cluster.nodes[1].address).open() as client:
        client.call(1, "confirm.select")
        for i in range(MESSAGES):
            client.publish(1, b"%d" % i, PERSISTENT, routing_key=queue)
            if i == KILLED_AT:
                other.queue_delete(queue)
        assert _confirmed(client, MESSAGES) == set(range(1, MESSAGES + 1))


def test_3_23_publishes_are_confirmed_though_a_mirror_is_killed(
    cluster: MirroredCluster, queue: str, open_on: OpenOn
) -> None:
    with RawClient(cluster.nodes[1].address).open() as client:
        client.call(1, "confirm.select")
        for i in range(MESSAGES):
            client.publish(1, b"%d" % i, PERSISTENT, routing_key=queue)
            if i == KILLED_AT:
                cluster.nodes[2].kill()
        assert _confirmed(client, MESSAGES) == set(range(1, MESSAGES + 1))
    assert count_of(open_on(cluster.nodes[0]), queue) == MESSAGES


def test_a_queue_keeps_its_messages_when_it_is_mirrored_and_when_it_is_not_any_more(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    """none -> all -> none, and again at another node after that one has been its home (4-07)."""
    channel = open_on(cluster.nodes[0], confirms=True)
    channel.queue_declare(name, durable=True)
    publish_all(channel, name, numbered(0))
    cluster.mirror("now", f"^{name}$", EVERYWHERE)
    eventually(lambda: _copies(cluster, name) == 3, "it has its copies")
    last = _pass_on_until_in_sync(cluster, channel, name)
    publish_all(channel, name, numbered(last + 1))
    cluster.stop_mirroring("now")
    eventually(lambda: cluster.group(name) is None, "it has one copy")
    publish_all(open_on(cluster.nodes[1], confirms=True), name, numbered(last + 2))

    cluster.mirror("now", f"^{name}$", EVERYWHERE)
    there = [body for body, _ in drain(channel, name)]
    assert there == numbered(last, last + 1, last + 2)
    cluster.await_in_sync(name)
    survivor = open_on(cluster.nodes[2], confirms=True)
    publish_all(survivor, name, [b"a"])
    cluster.nodes[0].kill()
    publish_all(survivor, name, [b"b"])
    cluster.stop_mirroring("now")
    eventually(lambda: _copies(cluster, name) == 1, "it has one copy, elsewhere")
    cluster.start_all()
    reader = open_on(cluster.nodes[0], confirms=True)
    publish_all(reader, name, [b"c"])
    assert [body for body, _ in drain(reader, name)] == [b"a", b"b", b"c"]


def _pass_on_until_in_sync(cluster: MirroredCluster, channel: BlockingChannel, name: str) -> int:
    """Takes messages that mirrors lack since they came later, and publishes others.

    The number of the one that is left. A mirror is told of messages a moment after it is a member.
    """
    everybody = {node.name for node in cluster.nodes}
    last = 0

    def pass_on() -> bool:
        nonlocal last
        last += 1
        publish_all(channel, name, numbered(last))
        assert body_of(channel, name) == b"%d" % (last - 1)
        return cluster.in_sync(name) == everybody

    eventually(pass_on, "its mirrors lack nothing")
    return last


def test_6_12_and_6_13_a_cluster_that_was_killed_comes_back_in_any_order_with_all_it_confirmed(
    cluster: MirroredCluster, queue: str, open_on: OpenOn
) -> None:
    producer = open_on(cluster.nodes[2], confirms=True)
    publish_all(producer, queue, numbered(1))
    cluster.nodes[0].kill()
    publish_all(producer, queue, numbered(2))
    for node in cluster.nodes[1:]:
        node.kill()
    first = cluster.nodes[0]
    first.start()
    first.channel()
    assert cluster.master_node_of(queue) is None, "the first to stop waits for those that know more"
    cluster.start_all()
    reader = open_on(first, confirms=True)
    publish_all(reader, queue, numbered(3))
    assert [body for body, _ in drain(reader, queue)] == numbered(1, 2, 3)


PERSISTENT = b"\x10\x00\x02"
"""Properties: delivery-mode 2 alone."""


def _confirmed(client: RawClient, count: int) -> set[int]:
    return _answered(client, count, "basic.ack")


def _answered(client: RawClient, count: int, method: str) -> set[int]:
    """The numbers of publishes that were answered so, and no other answer came."""
    answered: set[int] = set()
    while len(answered) < count:
        answer = client.expect(1, method, within_s=60)
        first = 1 if answer.multiple else answer.delivery_tag
        answered.update(range(first, answer.delivery_tag + 1))
    return answered


def _copies(cluster: MirroredCluster, queue: str) -> int:
    group = cluster.group(queue)
    return 0 if group is None else len(group.live)


def test_a_promoted_mirror_knows_the_ids_of_what_was_consumed(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    """And so does a mirror that came back in between, when it is promoted in its turn."""
    window = {"x-message-deduplication": True, "x-cache-size": 1_000}
    queue = _declare(cluster, f"mirrored-{name}", arguments=window)

    def publish_new(round_: int) -> list[bytes]:
        """From 0 to one more than in the round before; what is new of what is there then."""
        home = cluster.master_node_of(queue)
        producer = open_on(next(n for n in cluster.living if n is not home), confirms=True)
        for i in range(20 + round_):
            bodies = [b"%d of round %d" % (i, round_)]
            publish_all(producer, queue, bodies, headers={"x-deduplication-header": i})
        there = [body for body, _ in drain(producer, queue)]
        return [body for body in there if body.endswith(b"round %d" % round_)]

    assert len(publish_new(0)) == 20
    cluster.nodes[0].kill()
    assert publish_new(1) == [b"20 of round 1"]
    cluster.start_all()
    cluster.await_in_sync(queue)
    for node in cluster.nodes[1:]:
        node.kill()
        eventually(lambda: cluster.master_node_of(queue) in cluster.living, "there is a home")
        cluster.start_all()
        cluster.await_in_sync(queue)
    assert publish_new(2) == [b"21 of round 2"]
