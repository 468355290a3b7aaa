"""`warren server` as a process: ready soon, small when idle, and gone when told."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from pamqp.commands import Connection

from broker_process import cpu_s_of
from warren.wire.methods import decode_method, encode_method

WITHIN_S = 120.0
AMQP_HEADER = b"AMQP\0\0\x09\x01"


class Server:
    """A broker on ports of its own choice; its log tells which."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        command = [
            sys.executable, "-m", "warren.cli.main", "server", "--port", "0", "--http-port", "0",
            "--data-dir", str(directory / "data"), *arguments,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        self.stderr: IO[str] = self.process.stderr
        self.lines: list[str] = []

    def wait_ready(self) -> None:
        for line in self.stderr:
            self.lines.append(line)
            if "node is ready" in line:
                self.ready_after_cpu_s = cpu_s_of(self.process.pid)
                facts = dict(word.split("=", 1) for word in line.split() if "=" in word)
                self.port = int(facts["amqp"].rpartition(":")[2])
                self.http_port = int(facts["http"].rpartition(":")[2])
                return
        raise AssertionError(f"ended before it was ready: {self.lines}")

    def rest_of_log(self) -> str:
        self.process.wait(WITHIN_S)
        return "".join(self.lines) + self.stderr.read()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.stderr.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    server.wait_ready()
    yield server
    server.end()


def ready_status(port: int) -> int:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/api/health/checks/ready", timeout=WITHIN_S
        ) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_a_started_server_speaks_amqp_and_says_that_it_is_ready(server: Server) -> None:
    assert ready_status(server.http_port) == 200
    with socket.create_connection(("127.0.0.1", server.port), timeout=WITHIN_S) as client:
        client.sendall(AMQP_HEADER)
        assert client.recv(11)[7:] == b"\0\x0a\0\x0a", "connection.start"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(server: Server, number: signal.Signals) -> None:
    server.process.send_signal(number)
    log = server.rest_of_log()
    assert server.process.returncode == 0
    assert f"stopping signal={number.name}" in log
    assert log.rstrip().endswith("node has stopped name=" + log.rpartition("name=")[2].strip())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=WITHIN_S)


def test_a_connection_in_its_handshake_does_not_delay_the_stop(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=WITHIN_S) as client:
        client.sendall(AMQP_HEADER)
        client.recv(11)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(WITHIN_S)
    assert server.process.returncode == 0
    assert "did not close in time" not in server.rest_of_log()


def open_connection(port: int) -> socket.socket:
    """A logged-in client, by hand: one that never answers a connection.close."""
    client = socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S)
    start_ok = Connection.StartOk(mechanism="PLAIN", response="\0guest\0guest", locale="en_US")
    methods = (start_ok, Connection.TuneOk(100, 131072, 0), Connection.Open())
    client.sendall(AMQP_HEADER + b"".join(frame(encode_method(method)) for method in methods))
    received = b""
    while b"\0\x0a\0\x29" not in received:
        received += client.recv(4096)
    return client


def frame(payload: bytes) -> bytes:
    return struct.pack(">BHI", 1, 0, len(payload)) + payload + b"\xce"


def test_an_open_connection_is_told_why_it_ends(server: Server) -> None:
    """320, with RabbitMQ's words."""
    with open_connection(server.port) as client:
        server.process.send_signal(signal.SIGTERM)
        header = client.recv(7, socket.MSG_WAITALL)
        payload = client.recv(int.from_bytes(header[3:]), socket.MSG_WAITALL)
        close = decode_method(payload)
        assert isinstance(close, Connection.Close)
        assert (close.reply_code, close.reply_text) == (
            320,
            "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
        )
        client.sendall(frame(encode_method(Connection.CloseOk())))
        server.process.wait(WITHIN_S)
    assert server.process.returncode == 0
    assert "did not close in time" not in server.rest_of_log()


def test_a_second_signal_stops_it_at_once(server: Server) -> None:
    """The client here never answers the close, so a clean stop would wait for it, and return 0."""
    with open_connection(server.port):
        server.process.send_signal(signal.SIGTERM)
        next(line for line in server.stderr if "node is stopping" in line)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(WITHIN_S)
    assert server.process.returncode == 1


def test_after_a_kill_the_next_one_starts_on_the_same_directory(tmp_path: Path) -> None:
    first = Server(tmp_path)
    first.wait_ready()
    first.process.kill()
    first.end()
    second = Server(tmp_path)
    second.wait_ready()
    assert ready_status(second.http_port) == 200
    second.end()


def test_a_port_in_use_ends_it_with_a_reason(tmp_path: Path, server: Server) -> None:
    second = Server(tmp_path / "second", "--port", str(server.port))
    log = second.rest_of_log()
    assert second.process.returncode == 69
    assert log == (
        f"Error: cannot listen for AMQP on 127.0.0.1:{server.port}: address already in use; "
        "stop the program that uses it, or choose another with --port or listeners.tcp\n"
    )
    second.end()


def test_a_data_directory_in_use_ends_it_with_a_reason(tmp_path: Path, server: Server) -> None:
    second = Server(tmp_path)
    log = second.rest_of_log()
    assert second.process.returncode == 69
    assert f"in use by another broker (pid {server.process.pid})" in log
    second.end()


def test_settings_without_effect_are_said_at_the_start(tmp_path: Path) -> None:
    config = tmp_path / "warren.conf"
    config.write_text("cluster_keepalive_interval = 10000\n")
    server = Server(tmp_path, "--config", str(config))
    server.wait_ready()
    assert (
        "[warning] setting has no effect in this version key=cluster_keepalive_interval"
        in "".join(server.lines)
    )
    server.end()


def test_it_is_ready_soon(server: Server) -> None:
    """Less than a second of work, which is what it takes if it has a processor to itself; the
    bound leaves room for a slow one."""
    assert server.ready_after_cpu_s < 5


def test_an_idle_server_is_small(server: Server) -> None:
    """The bound is the project's own: an idle node stays under 60 MiB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    (resident_kib,) = (int(x.split()[1]) for x in status.splitlines() if x.startswith("VmRSS"))
    assert resident_kib < 60 * 1024


def test_an_idle_server_sleeps(server: Server) -> None:
    """Waking up for nothing is what keeps a machine from saving power."""
    time.sleep(0.5)
    before_s, at = cpu_s_of(server.process.pid), time.monotonic()
    time.sleep(2)
    used_s = cpu_s_of(server.process.pid) - before_s
    assert used_s / (time.monotonic() - at) < 0.05
