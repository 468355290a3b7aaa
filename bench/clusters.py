"""Starts the clusters to compare: three nodes of Warren with their etcd, three of RabbitMQ.

All on free loopback ports in a directory of their own, every process ended by its id. The nodes
that are measured keep theirs, so that they can be stopped and started again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.request import urlopen

from bench.brokers import (
    RABBITMQ_BIN,
    STOP_SECONDS_MAX,
    Broker,
    NotInstalled,
    free_port,
    rabbitmq_environment,
    spawn,
    stop,
    wait_until_ready,
)
from bench.operators import Operator, RabbitmqOperator, WarrenOperator

NODES: Final = 3
COOKIE: Final = "BENCHCOOKIE0123456789"
PROPOSALS: Final = "etcd_server_proposals_committed_total "
ETCD_LIMITS: Final = ("--max-txn-ops", "65536", "--max-request-bytes", "33554432")


@dataclass(frozen=True)
class Cluster:
    name: str
    nodes: list[Broker]
    operator: Operator
    helpers: tuple[int, ...] = ()
    """Processes that are neither nodes nor clients: what they do is part of the cost."""
    etcd_port: int = 0

    @property
    def pids(self) -> list[int]:
        return [*(node.pid for node in self.nodes), *self.helpers]

    def cpu_seconds(self) -> float:
        return sum(map(cpu_seconds_of, self.pids))

    def etcd_transactions(self) -> int | None:
        """Return how many writes etcd's log has had; None without etcd."""
        if not self.etcd_port:
            return None
        with urlopen(f"http://127.0.0.1:{self.etcd_port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return next(int(float(line.split()[1])) for line in lines if line.startswith(PROPOSALS))


def cpu_seconds_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class WarrenNodes:
    """Three nodes that keep their directories and ports from one start to the next."""

    def __init__(self, directory: Path, etcd_port: int) -> None:
        self._directory = directory
        self.etcd_port = etcd_port
        self._metadata = f"etcd://127.0.0.1:{etcd_port}"
        self._ports = [(free_port(), free_port(), free_port()) for _ in range(NODES)]
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, together: bool) -> list[Broker]:
        """Of a new cluster the first one comes first, to make the virtual host and its user."""
        began = time.monotonic()
        self._processes = []
        for number in range(NODES):
            self._launch(number)
            if not together and number == 0:
                self._await(0)
        return [self._await(number, began) for number in range(NODES)]

    def _launch(self, number: int) -> None:
        port, http_port, cluster_port = self._ports[number]
        command = [str(Path(sys.executable).with_name("warren")), "server", "--bind", "127.0.0.1"]
        command += ["--port", str(port), "--http-port", str(http_port)]
        command += ["--name", f"bench{number + 1}@localhost", "--cluster-port", str(cluster_port)]
        command += ["--metadata", self._metadata, "--cluster-secret", COOKIE]
        command += ["--data-dir", str(self._directory / f"data{number + 1}")]
        self._processes.append(spawn(command, self._log(number)))

    def _await(self, number: int, began: float = 0) -> Broker:
        process, (port, http_port, _) = self._processes[number], self._ports[number]
        wait_until_ready(port, process, self._log(number))
        return Broker("Warren", port, process.pid, time.monotonic() - began, http_port)

    def stop(self) -> None:
        """SIGTERM once each, since a second one ends a node at once; then SIGKILL."""
        for process in self._processes:
            process.terminate()
        deadline = time.monotonic() + STOP_SECONDS_MAX
        for process in self._processes:
            try:
                process.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _log(self, number: int) -> Path:
        return self._directory / f"log{number + 1}"


@contextmanager
def etcd(directory: Path) -> Iterator[tuple[int, int]]:
    """One member on its own: the port for its clients, and its process id."""
    program = shutil.which("etcd")
    if program is None:
        raise NotInstalled("etcd (Debian: apt-get install etcd-server)")
    port, peer_port = free_port(), free_port()
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    process = spawn(
        [
            program, "--name", "etcd", "--data-dir", str(directory / "etcd"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"etcd={peer}", "--log-level", "warn", "--logger", "zap",
            *ETCD_LIMITS,
        ],
        directory / "etcd.log",
    )  # fmt: skip
    try:
        yield port, process.pid
    finally:
        stop(process.pid)


@contextmanager
def warren_nodes() -> Iterator[tuple[WarrenNodes, int]]:
    """Not started yet; and the process id of their etcd."""
    with TemporaryDirectory(prefix="warren-bench-") as name, ExitStack() as stack:
        directory = Path(name)
        port, pid = stack.enter_context(etcd(directory))
        nodes = WarrenNodes(directory, port)
        stack.callback(nodes.stop)
        yield nodes, pid


@contextmanager
def warren_cluster() -> Iterator[Cluster]:
    with warren_nodes() as (nodes, etcd_pid):
        brokers = nodes.start(together=False)
        operator = WarrenOperator(brokers[0].http_port)
        yield Cluster("Warren", brokers, operator, (etcd_pid,), nodes.etcd_port)


@contextmanager
def rabbitmq_cluster() -> Iterator[Cluster]:
    program, epmd = RABBITMQ_BIN / "rabbitmq-server", shutil.which("epmd")
    if not program.exists() or epmd is None:
        raise NotInstalled("RabbitMQ (Debian: apt-get install rabbitmq-server)")
    with TemporaryDirectory(prefix="rabbitmq-bench-") as name, ExitStack() as stack:
        directory, epmd_port = Path(name), free_port()
        mapper = spawn([epmd, "-port", str(epmd_port), "-address", "127.0.0.1"], directory / "epmd")
        stack.callback(stop, mapper.pid)
        nodes, environments = [], []
        for number in range(NODES):
            home = directory / f"rabbit{number + 1}"
            home.mkdir()
            environments.append(rabbitmq_node_environment(home, epmd_port))
            nodes.append(start_rabbitmq_node(home, environments[-1], stack))
        operator = RabbitmqOperator(RABBITMQ_BIN / "rabbitmqctl", {**os.environ, **environments[0]})
        yield Cluster("RabbitMQ", nodes, operator)


def rabbitmq_node_environment(home: Path, epmd_port: int) -> dict[str, str]:
    environment = rabbitmq_environment(home, free_port(), epmd_port)
    return {**environment, "RABBITMQ_NODENAME": f"{home.name}@localhost"}


def start_rabbitmq_node(home: Path, environment: dict[str, str], stack: ExitStack) -> Broker:
    port = int(environment["RABBITMQ_NODE_PORT"])
    cookie = home / ".erlang.cookie"
    cookie.write_text(COOKIE)
    cookie.chmod(0o400)
    with (home / "rabbit.conf").open("a") as config:
        config.write("cluster_formation.peer_discovery_backend = classic_config\n")
        for number in range(NODES):
            member = f"rabbit{number + 1}@localhost"
            config.write(f"cluster_formation.classic_config.nodes.{number + 1} = {member}\n")
    began = time.monotonic()
    script = spawn([str(RABBITMQ_BIN / "rabbitmq-server")], home / "log", environment)
    stack.callback(stop, script.pid)
    wait_until_ready(port, script, home / "log")
    elapsed = time.monotonic() - began
    node = int((home / "pid").read_text())
    stack.callback(stop, node)
    return Broker("RabbitMQ", port, node, elapsed)


CLUSTERS: Final = {"warren": warren_cluster, "rabbitmq": rabbitmq_cluster}
