"""Three nodes and three members of etcd, each a process that can be hurt and healed."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

from broker_process import Address, broker_command
from cluster_chaos.disks import SmallDisk
from cluster_chaos.network import HUB, Network
from etcd_process import ROOMY, EtcdMember

AMQP_PORT: Final = 5672
HTTP_PORT: Final = 15672
CLUSTER_PORT: Final = 25672
SECRET: Final = "known to all nodes of this world"
READY_S_MAX: Final = 300.0
# Files that fit a small disk, and no alarm before it is really full.
SMALL: Final = """
msg_store_file_size_limit = 1MiB
warren.journal_file_size_limit = 1MiB
disk_free_limit.absolute = 1
"""
_TOKEN: Final = base64.b64encode(b"guest:guest").decode()


class HubMember(EtcdMember):
    host = HUB


class ChaosNode:
    """`warren server` in a namespace of its own."""

    def __init__(
        self, network: Network, number: int, directory: Path, metadata: str, small: bool
    ) -> None:
        directory.mkdir()
        self.number = number
        self.disk = SmallDisk(directory / "disk") if small else None
        data = (directory if self.disk is None else self.disk.path) / "data"
        self.name = f"n{number + 1}@chaos"
        self.host = network.address(number)
        self.amqp = Address(self.host, AMQP_PORT)
        self.log_path = directory / "log"
        config = directory / "conf"
        config.write_text("loopback_users = none\n" + (SMALL if small else ""))
        self._command = [
            *network.inside(number), broker_command(), "server", "--bind", self.host,
            "--port", str(AMQP_PORT), "--http-port", str(HTTP_PORT),
            "--cluster-port", str(CLUSTER_PORT), "--name", self.name,
            "--data-dir", str(data), "--metadata", metadata,
            "--cluster-secret", SECRET, "--config", str(config),
        ]  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.send(number)
            self.process.wait(60)
            self.process = None

    def is_ready(self) -> bool:
        try:
            return bool(self.ask("/api/health/checks/ready", within_s=3))
        except OSError:
            return False

    def ask(self, path: str, method: str = "GET", body: Any = None, within_s: float = 10) -> Any:
        """The answer to the administrator; raises OSError, HTTPError is one."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{self.host}:{HTTP_PORT}{path}", data, method=method,
            headers={"Authorization": f"Basic {_TOKEN}", "Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=within_s) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""


class World:
    def __init__(self, directory: Path, has_small_disks: bool = False, size: int = 3) -> None:
        self.network = Network(size)
        peers = {f"m{i}": 2380 + 10 * i for i in range(3)}
        self.members = [HubMember(name, peers, directory, ROOMY) for name in peers]
        for member in self.members:
            member.port = peers[member.name] - 1
        self.metadata = "etcd://" + ",".join(member.endpoint for member in self.members)
        self.nodes = [
            ChaosNode(self.network, i, directory / f"n{i + 1}", self.metadata, has_small_disks)
            for i in range(size)
        ]

    def start(self) -> None:
        self.network.set_up()
        for member in self.members:
            member.start()
        for member in self.members:
            member.wait_ready()
        for node in self.nodes:
            if node.disk is not None:
                node.disk.mount()
            node.start()
        self.await_ready()

    def revive(self) -> None:
        """Whoever runs nodes starts those again that could not start, as when cut off from etcd."""
        for node in self.nodes:
            if node.process is not None and not node.is_running:
                last = node.log().rstrip().rpartition("\n")[2]
                assert last.startswith("Error: "), f"{node.name} has ended:\n{node.log()[-3000:]}"
                node.start()

    def await_ready(self) -> None:
        deadline = time.monotonic() + READY_S_MAX
        for node in self.nodes:
            while not node.is_ready():
                self.revive()
                assert time.monotonic() < deadline, (
                    f"{node.name} is not ready:\n{node.log()[-3000:]}"
                )
                time.sleep(0.1)

    def stop(self) -> None:
        for node in self.nodes:
            if node.is_running:
                node.send(signal.SIGCONT)
                node.end()
            if node.disk is not None:
                node.disk.unmount()
        for member in self.members:
            member.stop(signal.SIGKILL)
        self.network.tear_down()
