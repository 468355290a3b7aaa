"""The brokers that `bench/many.py` fills, stops and starts again: one node, or a cluster of three.

All keep their directories and ports from one start to the next.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.brokers import (
    RABBITMQ_BIN,
    Broker,
    NotInstalled,
    free_port,
    rabbitmq_environment,
    spawn,
    stop,
    wait_until_ready,
)
from bench.clusters import warren_nodes
from bench.operators import Operator, WarrenOperator
from bench.restart import Restartable

PID_POLL_S: Final = 0.05


@dataclass
class Subject:
    """Start it, which is also how it is started again, and stop it."""

    name: str
    start_nodes: Callable[[], list[Broker]]
    stop_nodes: Callable[[], None]
    helper: int | None = None
    """The process that keeps the metadata of a cluster: its processor time is shown apart."""
    nodes: list[Broker] = field(default_factory=list)

    @property
    def ports(self) -> list[int]:
        return [node.port for node in self.nodes]

    def start(self) -> float:
        """Return the seconds until the last node was ready."""
        self.nodes = self.start_nodes()
        return max(node.start_seconds for node in self.nodes)

    def stop(self) -> float:
        began = time.monotonic()
        self.stop_nodes()
        return time.monotonic() - began

    def kill(self, number: int) -> None:
        os.kill(self.nodes[number].pid, signal.SIGKILL)
        del self.nodes[number]

    def rss_kb(self) -> int:
        return sum(node.rss_kb() for node in self.nodes)

    def operator(self) -> Operator:
        return WarrenOperator(self.nodes[-1].http_port)


@contextmanager
def one_warren() -> Iterator[Subject]:
    with TemporaryDirectory(prefix="warren-bench-") as name:
        warren = Restartable(Path(name))
        subject = Subject("Warren, one node", lambda: [warren.start()], warren.stop)
        try:
            yield subject
        finally:
            warren.kill()


@contextmanager
def three_warrens() -> Iterator[Subject]:
    """The first start makes a new cluster, one node after the other; later ones are of all."""
    with warren_nodes() as (nodes, etcd):
        starts = iter((False,))
        subject = Subject(
            "Warren, three", lambda: nodes.start(together=next(starts, True)), nodes.stop, etcd
        )
        yield subject


class RestartableRabbitmq:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port, self._epmd_port = free_port(), free_port()
        self._environment = rabbitmq_environment(directory, self._port, self._epmd_port)
        self._stack = ExitStack()

    def start(self) -> list[Broker]:
        epmd = shutil.which("epmd")
        assert epmd is not None, "it was looked for"
        command = [epmd, "-port", str(self._epmd_port), "-address", "127.0.0.1"]
        mapper = spawn(command, self._directory / "epmd")
        self._stack.callback(stop, mapper.pid)
        pid_file = self._directory / "pid"
        pid_file.unlink(missing_ok=True)
        began = time.monotonic()
        script = spawn(
            [str(RABBITMQ_BIN / "rabbitmq-server")], self._directory / "log", self._environment
        )
        self._stack.callback(stop, script.pid)
        wait_until_ready(self._port, script, self._directory / "log")
        elapsed = time.monotonic() - began
        while not pid_file.exists() and script.poll() is None:
            time.sleep(PID_POLL_S)  # it is written a moment after the port is open
        node = int(pid_file.read_text())
        self._stack.callback(stop, node)
        return [Broker("RabbitMQ", self._port, node, elapsed)]

    def stop(self) -> None:
        """The node first, and what was started beside it after that."""
        self._stack.close()


@contextmanager
def one_rabbitmq() -> Iterator[Subject]:
    if not (RABBITMQ_BIN / "rabbitmq-server").exists() or shutil.which("epmd") is None:
        raise NotInstalled("RabbitMQ (Debian: apt-get install rabbitmq-server)")
    with TemporaryDirectory(prefix="rabbitmq-bench-") as name:
        rabbitmq = RestartableRabbitmq(Path(name))
        try:
            yield Subject("RabbitMQ, one node", rabbitmq.start, rabbitmq.stop)
        finally:
            rabbitmq.stop()


ONE: Final[dict[str, Callable[[], AbstractContextManager[Subject]]]] = {
    "warren": one_warren,
    "rabbitmq": one_rabbitmq,
}
