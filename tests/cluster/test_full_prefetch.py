"""Consumers whose prefetch is full are sent all of it again when their queue has another master.

What they had from the master before counts no more, as in RabbitMQ: its tags may be settled, to no
effect. Otherwise a consumer that settles nothing until it has more would wait for ever.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from cluster.conftest import OpenOn
from cluster.mirrored import MirroredCluster, numbered, publish_all, running_mirrored
from cluster.nodes import NodeProcess, count_of, eventually, publish

PREFETCH = 5
MESSAGES = 30


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    with running_mirrored(tmp_path_factory.mktemp("full")) as cluster:
        yield cluster


@pytest.fixture
def cluster(mortal: MirroredCluster) -> MirroredCluster:
    """All its nodes run: an earlier test may have killed some."""
    mortal.start_all()
    return mortal


class Hoarder:
    """A consumer that settles nothing by itself."""

    def __init__(self, channel: BlockingChannel, queue: str, is_shared: bool) -> None:
        self.got: list[tuple[int, bytes, bool]] = []
        """Tag, body and whether it is said to be redelivered."""
        self.channel = channel
        channel.basic_qos(prefetch_count=PREFETCH, global_qos=is_shared)
        channel.basic_consume(
            queue, lambda _, m, __, body: self.got.append((m.delivery_tag, body, m.redelivered))
        )

    def await_count(self, count: int) -> None:
        def has_come() -> bool:
            self.channel.connection.process_data_events(0.02)
            return len(self.got) >= count

        eventually(has_come, f"{count} deliveries")


def _queue(cluster: MirroredCluster, name: str, open_on: OpenOn) -> str:
    """Full, led by the first node, with copies in sync everywhere."""
    queue = f"mirrored-{name}"
    channel = open_on(cluster.nodes[0], confirms=True)
    channel.queue_declare(queue, durable=True)
    cluster.await_in_sync(queue)
    assert cluster.master_node_of(queue) is cluster.nodes[0]
    publish_all(channel, queue, numbered(*range(MESSAGES)))
    return queue


def _kill(node: NodeProcess) -> Callable[[], None]:
    node.kill()
    return lambda: None


def _pause(node: NodeProcess) -> Callable[[], None]:
    os.kill(node.pid, signal.SIGSTOP)
    return lambda: os.kill(node.pid, signal.SIGCONT)


@pytest.mark.parametrize("stop", [_kill, _pause])
@pytest.mark.parametrize("is_shared", [False, True])
def test_3_42_what_the_last_master_delivered_is_delivered_again_though_nothing_was_settled(
    cluster: MirroredCluster,
    name: str,
    open_on: OpenOn,
    stop: Callable[[NodeProcess], Callable[[], None]],
    is_shared: bool,
) -> None:
    """Each has a queue of its own; one of them is at the node that leads next, the other is not."""
    mirrors = cluster.nodes[1:]
    queues = [_queue(cluster, f"{name}-{i}", open_on) for i in range(len(mirrors))]
    places = zip(mirrors, queues, strict=True)
    hoarders = [Hoarder(open_on(node), queue, is_shared) for node, queue in places]
    for hoarder in hoarders:
        hoarder.await_count(PREFETCH)
    go_on = stop(cluster.nodes[0])
    try:
        for hoarder in hoarders:
            hoarder.await_count(2 * PREFETCH)
            again = [(body, True) for _, body, _ in hoarder.got[:PREFETCH]]
            assert [(body, mark) for _, body, mark in hoarder.got[PREFETCH:]] == again
        for hoarder, queue in zip(hoarders, queues, strict=True):
            old, new = hoarder.got[PREFETCH - 1][0], hoarder.got[-1][0]
            hoarder.channel.basic_ack(old, multiple=True)
            hoarder.channel.basic_ack(new, multiple=True)
            hoarder.await_count(3 * PREFETCH)
            hoarder.channel.connection.close()
            reader = open_on(mirrors[0])
            eventually(
                lambda r=reader, q=queue: count_of(r, q) == MESSAGES - PREFETCH, "old tags are void"
            )
    finally:
        go_on()


def test_a_mirror_that_is_silent_is_expelled_before_its_session_ends(
    cluster: MirroredCluster, name: str, open_on: OpenOn
) -> None:
    """`warren.mirror_timeout`, 3 s here, and not the 6 s of a session."""
    queue = _queue(cluster, name, open_on)
    first, _, third = cluster.nodes
    publisher = open_on(cluster.nodes[0], confirms=True)
    expelled = "mirror cannot be reached: it is expelled"
    before = first.log().count(expelled)
    os.kill(third.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        publish(publisher, queue, b"without it")
        assert time.monotonic() - began > 1, "the mirror was waited for"
        assert first.log().count(expelled) > before
    finally:
        os.kill(third.pid, signal.SIGCONT)
    cluster.await_in_sync(queue)
