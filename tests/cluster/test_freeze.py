"""A node that is not sure of its session keeps still, and goes on by itself when it is.

Real stops: SIGSTOP of the store (its one member is its majority) and of a node.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from cluster.conftest import OpenOn
from cluster.nodes import (
    ClusterOfNodes,
    NodeProcess,
    body_of,
    count_of,
    eventually,
    publish,
)

REASON = "the majority of the metadata store is unreachable"
FROZEN = f"this node is frozen: {REASON}"
REQUEST_TIMEOUT_MS = 2_000
# For looking whether something does not come: longer proves more, no length can fail by itself.
STILL_S = 1.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfNodes]:
    """Two nodes that fail requests soon."""
    directory = tmp_path_factory.mktemp("freezing")
    config = directory / "rabbitmq.conf"
    config.write_text(f"warren.metadata_timeout = {REQUEST_TIMEOUT_MS}\n")
    cluster = ClusterOfNodes(directory, size=2)
    for node in cluster.nodes:
        node.options += ["--config", str(config)]
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def store_pid(cluster: ClusterOfNodes) -> int:
    process = cluster.etcd.members[0].process
    assert process is not None
    return process.pid


class BackgroundPublisher:
    """Publishes so many messages with confirms, one after the other, in a thread of its own."""

    def __init__(
        self, node: NodeProcess, queue: str, bodies: list[bytes], pause_s: float = 0
    ) -> None:
        self._pause_s = pause_s
        self.confirmed: list[bytes] = []
        self.heard: list[str] = []
        self._node = node
        self._queue = queue
        self._bodies = bodies
        self.thread = threading.Thread(target=self._publish, daemon=True)
        self.thread.start()

    def _publish(self) -> None:
        connection = self._node.connect()
        connection.add_on_connection_blocked_callback(
            lambda _, frame: self.heard.append(frame.method.reason)
        )
        connection.add_on_connection_unblocked_callback(lambda *_: self.heard.append("unblocked"))
        channel = connection.channel()
        channel.confirm_delivery()
        for body in self._bodies:
            publish(channel, self._queue, body)
            self.confirmed.append(body)
            connection.process_data_events(self._pause_s)
        # What comes unasked is read when something is awaited.
        while self.heard.count("unblocked") < len(self.heard) / 2:
            connection.process_data_events(0.05)
        connection.close()

    def finish(self) -> None:
        eventually(lambda: not self.thread.is_alive(), "all is published")


class Taker:
    """A consumer with room for one delivery at a time."""

    def __init__(self, channel: BlockingChannel, queue: str) -> None:
        self.bodies: list[bytes] = []
        self._channel = channel
        self._tags: list[int] = []
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(queue, self._on_delivery)

    def _on_delivery(self, _channel: object, method: object, _header: object, body: bytes) -> None:
        self.bodies.append(body)
        self._tags.append(method.delivery_tag)  # type: ignore[attr-defined]

    def look(self, for_s: float) -> None:
        self._channel.connection.process_data_events(for_s)

    def ack(self) -> None:
        """So that the next one may come."""
        self._channel.basic_ack(self._tags.pop(0))

    def await_count(self, count: int) -> None:
        eventually(lambda: self.look(0.05) or len(self.bodies) >= count, f"{count} deliveries")


def refusal(channel: BlockingChannel, name: str) -> pika.exceptions.ChannelClosedByBroker:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.queue_declare(name)
    return refused.value


def test_case_7_12_without_the_store_a_node_keeps_still_and_goes_on_when_it_is_back(
    cluster: ClusterOfNodes, open_on: OpenOn, name: str
) -> None:
    """P3, P4: no confirm, no delivery, requests fail; and afterwards nothing comes twice."""
    node = cluster.nodes[0]
    setup = open_on(node, confirms=True)
    setup.queue_declare(name, durable=True)
    for body in (b"a", b"b"):
        publish(setup, name, body)
    taker = Taker(open_on(node), name)
    taker.await_count(1)
    asking = open_on(node)
    frozen_before = node.log().count(FROZEN)

    with stopped(store_pid(cluster)):
        eventually(lambda: node.log().count(FROZEN) > frozen_before, "the node freezes")
        publisher = BackgroundPublisher(node, name, [b"c", b"d"])
        taker.ack()
        taker.look(STILL_S)
        assert taker.bodies == [b"a"], "no delivery"
        assert publisher.confirmed == [], "no confirm"
        refused = refusal(asking, f"{name}-new")
        assert (refused.reply_code, refused.reply_text) == (506, f"RESOURCE_ERROR - {REASON}")
        again = asking.connection.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as got:
            again.basic_get(name)
        assert got.value.reply_code == 506
        asking.connection.channel().close()  # what needs no majority works

    taker.await_count(2)
    publisher.finish()
    assert publisher.heard in ([REASON, "unblocked"], []), "the latter if it was over that soon"
    assert publisher.confirmed == [b"c", b"d"]
    taker.ack()
    taker.await_count(3)
    taker.ack()
    taker.await_count(4)
    taker.ack()
    assert taker.bodies == [b"a", b"b", b"c", b"d"], "nothing lost, nothing twice"
    asking.connection.channel().queue_declare(f"{name}-new")
    assert "its session is ended" not in node.log() + cluster.nodes[1].log()


def test_case_7_13_a_node_that_slept_says_nothing_before_it_has_a_session_again(
    cluster: ClusterOfNodes, open_on: OpenOn, name: str
) -> None:
    """Stopped until its session is gone; and when it wakes up, the store is out of reach."""
    node, other = cluster.nodes
    setup = open_on(node, confirms=True)
    setup.queue_declare(name, durable=True)
    for body in (b"a", b"b"):
        publish(setup, name, body)
    taker = Taker(open_on(node), name)
    taker.await_count(1)
    warm = open_on(other, confirms=True)
    publish(warm, name, b"c")
    down_before = other.log().count("node is down")
    frozen_before = node.log().count(FROZEN)

    with stopped(node.pid):
        publisher = BackgroundPublisher(node, name, [b"d"])
        taker.ack()
        eventually(lambda: other.log().count("node is down") > down_before, "its session ends")
        os.kill(store_pid(cluster), signal.SIGSTOP)
    try:
        eventually(lambda: node.log().count(FROZEN) > frozen_before, "it finds out")
        taker.look(STILL_S)
        assert taker.bodies == [b"a"], "no delivery"
        assert publisher.confirmed == [], "no confirm"
    finally:
        os.kill(store_pid(cluster), signal.SIGCONT)

    publisher.finish()
    assert publisher.confirmed == [b"d"]
    for count in (2, 3, 4):
        taker.await_count(count)
        taker.ack()
    assert taker.bodies == [b"a", b"b", b"c", b"d"], "nothing lost, nothing twice"
    assert "it takes another" in node.log(), "it noticed that its session was gone"
    assert "its session is ended" not in other.log(), "silence is no proof"
    eventually(lambda: _is_reached(other, name), "the others know it again")


def _is_reached(node: NodeProcess, queue: str) -> bool:
    channel = node.channel()
    try:
        channel.confirm_delivery()
        publish(channel, queue, b"e")
        return body_of(channel, queue) == b"e" and count_of(channel, queue) == 0
    except (pika.exceptions.ChannelClosedByBroker, pika.exceptions.NackError):
        return False
    finally:
        channel.connection.close()


def test_case_7_15_a_wall_clock_that_jumps_has_no_effect_on_sessions(
    cluster: ClusterOfNodes, open_on: OpenOn, name: str, tmp_path: Path
) -> None:
    """The node's `time.time` is an hour ahead, then an hour behind, for longer than its session."""
    offset = tmp_path / "offset"
    offset.write_text("0")
    (tmp_path / "sitecustomize.py").write_text(
        "import os, time\n"
        "_real, _offset = time.time, os.environ['WALL_OFFSET']\n"
        "time.time = lambda: _real() + float(open(_offset).read() or 0)\n"
    )
    node = cluster.newcomer("jumping", "n9@localhost")
    node.environment = {"PYTHONPATH": str(tmp_path), "WALL_OFFSET": str(offset)}
    node.start()
    try:
        channel = open_on(node)
        channel.queue_declare(name, durable=True)
        for jump_s in (3600, -3600):
            offset.write_text(str(jump_s))
            # Were it of any effect, the node would freeze when its session was due, and for good.
            BackgroundPublisher(node, name, [b"x"] * 24, pause_s=0.25).finish()
        assert count_of(channel, name) == 48
    finally:
        node.stop()
