"""One cluster for all files of tests that leave it as they found it; others make their own."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from cluster.mirrored import MirroredCluster, running_mirrored
from cluster.nodes import ClusterOfNodes, NodeProcess, running

OpenOn = Callable[..., BlockingChannel]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfNodes]:
    with running(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def mirrored_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    """For files of tests about mirrored queues that stop no node."""
    with running_mirrored(tmp_path_factory.mktemp("mirrored")) as cluster:
        yield cluster


@pytest.fixture
def open_on() -> Iterator[OpenOn]:
    """Opens channels, each on a connection of its own to the node given."""
    opened: list[BlockingConnection] = []

    def open_on(node: NodeProcess, confirms: bool = False) -> BlockingChannel:
        opened.append(node.connect())
        channel = opened[-1].channel()
        if confirms:
            channel.confirm_delivery()
        return channel

    yield open_on
    for connection in opened:
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()


@pytest.fixture
def first(cluster: ClusterOfNodes, open_on: OpenOn) -> BlockingChannel:
    """A channel at the first node: what is declared over it has its home there."""
    return open_on(cluster.nodes[0])


@pytest.fixture
def second(cluster: ClusterOfNodes, open_on: OpenOn) -> BlockingChannel:
    """A channel with confirms at the second node."""
    return open_on(cluster.nodes[1], confirms=True)


@pytest.fixture
def third(cluster: ClusterOfNodes, open_on: OpenOn) -> BlockingChannel:
    return open_on(cluster.nodes[2])


@pytest.fixture
def name() -> str:
    """Nobody else uses it."""
    return f"q-{uuid.uuid4().hex[:8]}"
