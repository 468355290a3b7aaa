"""`warren cluster`: etcd and a few nodes on this machine, to try a cluster with one command.

All are child processes. Each is in a session of its own, so that Ctrl-C reaches this process alone
and the children are stopped in order: nodes first, then etcd, which they need to say goodbye.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import typer

from warren.client.http import ApiConnection, HttpAddress, HttpRequest

HOST: Final = "127.0.0.1"
AMQP_PORT: Final = 5672
HTTP_PORT: Final = 15672
CLUSTER_PORT: Final = 25672
ETCD_PORT: Final = 2379
# How far from a usual port to look for one that nobody has.
PORTS_TRIED_MAX: Final = 200
READY_S_MAX: Final = 180.0
STOP_S_MAX: Final = 20.0
POLL_S: Final = 0.1
EXIT_UNAVAILABLE: Final = 69
# A virtual host with all that is in it is deleted in one transaction.
ETCD_LIMITS: Final = ("--max-txn-ops", "65536", "--max-request-bytes", "33554432")


class CannotRunError(Exception):
    """Something is missing or has ended; the text says what."""


@dataclass
class Child:
    name: str
    command: Sequence[str]
    log: Path
    ready_url: str
    amqp_url: str = ""
    http_url: str = ""
    process: subprocess.Popen[bytes] | None = None

    def start(self, environment: dict[str, str]) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment, start_new_session=True,
            )  # fmt: skip

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def is_ready(self) -> bool:
        parts = urlsplit(self.ready_url)
        connection = ApiConnection(HttpAddress(parts.hostname or "", parts.port or 80))
        try:
            return connection.request(HttpRequest("GET", parts.path), timeout_s=2).status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def end(self) -> str:
        code = self.process.poll() if self.process is not None else None
        how = f"by {signal.Signals(-code).name}" if code and code < 0 else f"with code {code}"
        return f"{self.name} has ended {how}; its log is {self.log}"

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


class LocalCluster:
    """`run` returns when it is told to stop, by a signal or since everything has ended; others
    `start` it, do as they like with its nodes, and `stop` it."""

    def __init__(
        self, directory: Path, node_count: int, say: Callable[[str], None] | None = None
    ) -> None:
        self._say = say or _say
        self._directory = directory
        self._taken: set[int] = set()
        self.is_stopping = False
        etcd_port = self._port(ETCD_PORT)
        self.etcd = self._make_etcd(etcd_port, self._port(etcd_port + 1))
        self.nodes = [self._make_node(i + 1, etcd_port) for i in range(node_count)]

    def run(self) -> None:
        try:
            self.start()
            if not self.is_stopping:
                self._say(self._how_to_use())
            self._watch()
        finally:
            self.stop()

    def start(self) -> None:
        """Returns when clients can connect to every node, or a signal came: an exception in the
        midst of starting a process would leave one that nobody knows. Raises CannotRunError."""
        self._take_signals()
        for group in ([self.etcd], self.nodes):
            for child in group if not self.is_stopping else ():
                self.start_one(child)
            for child in group:
                self._await(lambda child=child: child.is_ready, child)  # type: ignore[misc]

    def start_one(self, child: Child) -> None:
        """Also again, after its end."""
        secret = _secret(self._directory / "secret")
        child.start({**os.environ, "WARREN_CLUSTER_SECRET": secret})

    def _await(self, is_ready: Callable[[], bool], child: Child) -> None:
        deadline = time.monotonic() + READY_S_MAX
        while not self.is_stopping and not is_ready():
            if not child.is_running:
                raise CannotRunError(f"{child.end()}\n{_last_line(child.log)}")
            if time.monotonic() > deadline:
                raise CannotRunError(f"{child.name} is not ready yet; its log is {child.log}")
            time.sleep(POLL_S)

    def _watch(self) -> None:
        """The others go on without a node; without etcd, or a node, there is nothing to go on."""
        running = list(self.nodes)
        while not self.is_stopping:
            for child in [node for node in running if not node.is_running]:
                running.remove(child)
                self._say(child.end())
            if not self.etcd.is_running:
                raise CannotRunError(self.etcd.end())
            if not running:
                raise CannotRunError("no node is left")
            time.sleep(POLL_S)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL is for what nobody wants again: nodes then hand nothing over first."""
        self.is_stopping = True
        self._take_signals()
        self._say("stopping ...")
        for group in (self.nodes, [self.etcd]):
            for child in group:
                child.send(number)
            deadline = time.monotonic() + STOP_S_MAX
            for child in group:
                self._await_end(child, deadline)
        self._say("all have stopped")

    def _await_end(self, child: Child, deadline: float) -> None:
        if child.process is None:
            return
        try:
            child.process.wait(max(deadline - time.monotonic(), POLL_S))
        except subprocess.TimeoutExpired:
            self._say(f"{child.name} did not stop in time and is killed")
            child.send(signal.SIGKILL)
            child.process.wait()

    def _take_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: object) -> None:
        """The second one is for those who cannot wait: as safe as a power cut."""
        if self.is_stopping:
            for child in (*self.nodes, self.etcd):
                child.send(signal.SIGKILL)
        self.is_stopping = True

    # What is run.

    def _make_etcd(self, port: int, peer_port: int) -> Child:
        program = shutil.which("etcd")
        if program is None:
            raise CannotRunError(
                "a cluster keeps its topology in etcd, and there is no 'etcd' on the PATH; "
                "install it (Debian: apt-get install etcd-server)"
            )
        client, peer = f"http://{HOST}:{port}", f"http://{HOST}:{peer_port}"
        command = (
            program, "--name", "etcd", "--data-dir", str(self._directory / "etcd"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"etcd={peer}", "--log-level", "warn", "--logger", "zap",
            *ETCD_LIMITS,
        )  # fmt: skip
        return Child("etcd", command, self._directory / "etcd.log", f"{client}/health")

    def _make_node(self, number: int, etcd_port: int) -> Child:
        name = f"n{number}@localhost"
        amqp, http, links = map(self._port, (AMQP_PORT, HTTP_PORT, CLUSTER_PORT))
        command = (
            sys.executable, "-m", "warren.cli.main", "server", "--name", name, "--bind", HOST,
            "--port", str(amqp), "--http-port", str(http), "--cluster-port", str(links),
            "--data-dir", str(self._directory / f"n{number}"),
            "--metadata", f"etcd://{HOST}:{etcd_port}",
        )  # fmt: skip
        url = f"http://{HOST}:{http}"
        log = self._directory / f"n{number}.log"
        ready_url = f"{url}/api/health/checks/ready"
        return Child(name, command, log, ready_url, f"amqp://{HOST}:{amqp}", url)

    def _port(self, wanted: int) -> int:
        """The first from there on that nobody has, and none that was given out before."""
        for port in range(wanted, wanted + PORTS_TRIED_MAX):
            if port not in self._taken and _is_free(port):
                self._taken.add(port)
                return port
        raise CannotRunError(f"no port is free from {wanted} to {wanted + PORTS_TRIED_MAX - 1}")

    def _how_to_use(self) -> str:
        rows = [("node", "AMQP", "HTTP API")]
        rows += [(node.name, node.amqp_url, node.http_url) for node in self.nodes]
        table = "\n".join(f"  {name:<16}{amqp:<26}{http}" for name, amqp, http in rows)
        return (
            f"A cluster of {len(self.nodes)} nodes is ready; connect to any of them, as guest with "
            f"password guest.\n\n{table}\n\n"
            f"Data and logs are in {self._directory}. Ctrl-C stops it, the same command starts it "
            "again."
        )


def run_cluster(directory: Path, node_count: int) -> None:
    """Exits with a line on stderr if it cannot."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        LocalCluster(directory.resolve(), node_count).run()
    except (CannotRunError, OSError) as error:
        for line in str(error).splitlines():
            print(f"Error: {line}", file=sys.stderr)
        raise typer.Exit(EXIT_UNAVAILABLE) from None


def _secret(path: Path) -> str:
    """The same at every start, for nodes that were started by other means."""
    if not path.exists():
        with suppress(FileExistsError), open(path, "x", opener=_private) as file:
            file.write(secrets.token_urlsafe())
    return path.read_text()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1].removeprefix("Error: ") if lines else ""


def _say(text: str) -> None:
    print(text, flush=True)
