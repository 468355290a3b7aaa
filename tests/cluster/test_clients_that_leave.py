"""Clients that are gone before another node has answered what they asked for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from pika.adapters.blocking_connection import BlockingChannel

from acceptance.raw_client import RawClient
from cluster.nodes import ClusterOfNodes, NodeProcess, eventually, publish


@contextmanager
def silent(node: NodeProcess) -> Iterator[None]:
    """For less than it takes to lose a session."""
    os.kill(node.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(node.pid, signal.SIGCONT)


def ask_and_leave(node: NodeProcess, method: str, queue: str) -> None:
    """Returns when the node knows that the client has gone."""
    client = RawClient(node.address)
    client.open()
    port = client.socket.getsockname()[1]
    client.send(1, method, queue=queue)
    client.drop()
    left = f"connection closed peer=127.0.0.1:{port} "
    eventually(lambda: left in node.log(), "the client has gone")


def test_a_consumer_that_left_before_it_was_accepted_is_nobodys(
    cluster: ClusterOfNodes, first: BlockingChannel, name: str
) -> None:
    """Else it would take messages that nobody ever acknowledges."""
    home, elsewhere = cluster.nodes[:2]
    first.queue_declare(name, durable=True)
    with silent(home):
        ask_and_leave(elsewhere, "basic.consume", name)
    publish(first, name, b"kept")
    # What follows on the link tells that the home has answered and been answered.
    channel = elsewhere.channel()
    channel.queue_declare(name, passive=True)
    eventually(
        lambda: channel.queue_declare(name, passive=True).method.message_count == 1, "it is ready"
    )
    assert channel.queue_declare(name, passive=True).method.consumer_count == 0


def test_a_message_fetched_for_a_client_that_left_goes_back(
    cluster: ClusterOfNodes, first: BlockingChannel, name: str
) -> None:
    home, elsewhere = cluster.nodes[:2]
    first.queue_declare(name, durable=True)
    publish(first, name, b"kept")
    with silent(home):
        ask_and_leave(elsewhere, "basic.get", name)
    channel = elsewhere.channel()
    eventually(
        lambda: channel.queue_declare(name, passive=True).method.message_count == 1, "it is ready"
    )
    assert channel.basic_get(name, auto_ack=True)[2] == b"kept"
