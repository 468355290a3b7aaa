"""A real etcd for tests: one member, free ports, its own directory, ended by its own id."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from broker_process import free_port

READY_S_MAX = 120.0
ROOMY = ("--max-txn-ops", "65536", "--max-request-bytes", "33554432")
# Its own defaults: quicker ones make leaders of a busy machine lose their office.
TIMES = ("--heartbeat-interval", "100", "--election-timeout", "1000")


class EtcdMember:
    """`peers` maps the names of all members to their peer ports."""

    host = "127.0.0.1"

    def __init__(
        self, name: str, peers: dict[str, int], directory: Path, options: Sequence[str] = ROOMY
    ) -> None:
        self.options = options
        self.name = name
        self.peers = peers
        self.directory = directory
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        program = shutil.which("etcd")
        assert program is not None, "etcd is not installed (Debian: apt-get install etcd-server)"
        peer = f"http://{self.host}:{self.peers[self.name]}"
        client = f"http://{self.endpoint}"
        cluster = ",".join(f"{n}=http://{self.host}:{port}" for n, port in self.peers.items())
        command = [
            program, "--name", self.name, "--data-dir", str(self.directory / self.name),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", cluster, "--initial-cluster-token", str(self.directory),
            "--log-level", "error", "--logger", "zap", *TIMES, *self.options,
        ]  # fmt: skip
        with (self.directory / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait_ready(self) -> None:
        deadline = time.monotonic() + READY_S_MAX
        while True:
            try:
                with urllib.request.urlopen(f"http://{self.endpoint}/health", timeout=2) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            log = self.directory / f"{self.name}.log"
            assert self.process is not None
            assert self.process.poll() is None, f"etcd ended: {log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"etcd is not ready: {log.read_text()[-2000:]}"
            time.sleep(0.02)

    def stop(self, with_signal: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(with_signal)
            self.process.wait(60)
            self.process = None


class EtcdCluster:
    def __init__(self, members: int = 1, options: Sequence[str] = ROOMY) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="warren-etcd-")
        directory = Path(self._directory.name)
        peers = {f"m{i}": free_port() for i in range(members)}
        self.members = [EtcdMember(name, peers, directory, options) for name in peers]

    @property
    def url(self) -> str:
        return "etcd://" + ",".join(member.endpoint for member in self.members)

    def start(self) -> EtcdCluster:
        for member in self.members:
            member.start()
        for member in self.members:
            member.wait_ready()
        return self

    def stop(self) -> None:
        for member in self.members:
            member.stop(signal.SIGKILL)
        self._directory.cleanup()
