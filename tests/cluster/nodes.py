"""Three nodes and their etcd, each a process on free ports, ended by its own id."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from acceptance.control import Control
from acceptance.management_client import Api
from broker_process import Address, BrokerProcess, free_port
from etcd_process import EtcdCluster
from live_broker import connection_parameters

SECRET = "known to all nodes of these tests"
PATIENT = "warren.mirror_timeout = 3000\n"
"""A machine that runs these tests and other work may hold up a healthy node for a second or two."""


class NodeProcess(BrokerProcess):
    def __init__(
        self, directory: Path, name: str, metadata: str, secret: str = SECRET, config: str = ""
    ) -> None:
        directory.mkdir()
        super().__init__(directory, PATIENT + config)
        self.name = name
        self._connections: list[BlockingConnection] = []
        self.cluster_port = free_port()
        self.options = [
            "--name", name, "--cluster-port", str(self.cluster_port), "--metadata", metadata,
        ]  # fmt: skip
        if secret:
            self.options += ["--cluster-secret", secret]

    @property
    def api(self) -> Api:
        return Api(Address("127.0.0.1", self.http_port))

    @property
    def control(self) -> Control:
        """warrenctl, asking this node."""
        return Control(f"http://127.0.0.1:{self.http_port}")

    def connect(self, **options: object) -> BlockingConnection:
        """Kept, so that it stands until it is closed or the cluster ends."""
        self._connections.append(BlockingConnection(connection_parameters(self.address, **options)))
        return self._connections[-1]

    def channel(self, **options: object) -> BlockingChannel:
        """On a connection of its own, which ends with the cluster if not before."""
        return self.connect(**options).channel()

    def ask_to_stop(self) -> None:
        """In good order; `await_end` says when it has."""
        os.kill(self.pid, signal.SIGTERM)

    def await_end(self, within_s: float = 120.0) -> int:
        assert self._process is not None
        return self._process.wait(within_s)


class ClusterOfNodes:
    def __init__(self, directory: Path, size: int = 3, config: str = "") -> None:
        self.directory = directory
        self.etcd = EtcdCluster(options=())  # one as it comes
        self.nodes = [
            NodeProcess(directory / f"n{i}", f"n{i}@localhost", self.etcd.url, config=config)
            for i in range(1, size + 1)
        ]

    def start(self) -> None:
        self.etcd.start()
        # The first one makes the users and the virtual host; the others come together.
        self.nodes[0].start()
        for node in self.nodes[1:]:
            node.launch()
        for node in self.nodes[1:]:
            node.await_ready()
        for node in self.nodes:
            eventually(lambda node=node: self._is_linked(node), f"{node.name} knows all others")

    def _is_linked(self, node: NodeProcess) -> bool:
        return node.log().count("connected to node") >= len(self.nodes) - 1

    def newcomer(self, directory: str, name: str, secret: str = SECRET) -> NodeProcess:
        return NodeProcess(self.directory / directory, name, self.etcd.url, secret)

    def stop(self) -> None:
        """At once: how nodes stop in good order is for tests to show."""
        for node in self.nodes:
            node.kill()
        self.etcd.stop()


@contextmanager
def running(directory: Path, config: str = "") -> Iterator[ClusterOfNodes]:
    cluster = ClusterOfNodes(directory, config=config)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def eventually(is_so: Callable[[], Any], what: str, within_s: float = 60.0) -> Any:
    """What `is_so` returns, once that is true."""
    deadline = time.monotonic() + within_s
    while not (found := is_so()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.02)
    return found


def body_of(channel: BlockingChannel, queue: str, **options: Any) -> bytes | None:
    """basic.get, acknowledged unless told otherwise."""
    options.setdefault("auto_ack", True)
    return channel.basic_get(queue, **options)[2]


def count_of(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def publish(channel: BlockingChannel, queue: str, body: bytes, **options: Any) -> None:
    """To a queue by its name; with confirms on, returns when it is confirmed."""
    properties = pika.BasicProperties(delivery_mode=2)
    channel.basic_publish("", queue, body, properties, mandatory=options.pop("mandatory", True))
