"""Starts the brokers to compare: own directory, free loopback ports, and ended by their ids.

Both are ready when they answer an AMQP protocol header with connection.start, which is also how
the time from start to ready is taken.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

READY_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 20.0
PROTOCOL_HEADER: Final = b"AMQP\0\0\x09\x01"
RABBITMQ_BIN: Final = Path("/usr/lib/rabbitmq/bin")


@dataclass(frozen=True)
class Broker:
    name: str
    port: int
    pid: int
    start_seconds: float
    http_port: int = 0

    def rss_kb(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise RuntimeError(f"{self.name} (process {self.pid}) is gone")


class NotInstalled(Exception):
    """This machine has no such broker."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers_amqp(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(PROTOCOL_HEADER)
        return client.recv(1) == b"\x01"
    return False


def wait_until_ready(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while not answers_amqp(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"broker did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.005)


def stop(pid: int) -> None:
    """SIGTERM, and SIGKILL when that is not heeded; the caller reaps its own children."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while time.monotonic() < deadline:
            time.sleep(0.05)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            os.kill(pid, 0)
        os.kill(pid, signal.SIGKILL)


def allow_many_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def spawn(
    command: Sequence[str], log: Path, environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=log.parent,
            start_new_session=True,
        )


@contextmanager
def warren(options: Sequence[str] = ()) -> Iterator[Broker]:
    with TemporaryDirectory(prefix="warren-bench-") as directory:
        port, http_port, log = free_port(), free_port(), Path(directory, "log")
        command = [str(Path(sys.executable).with_name("warren")), "server", "--bind", "127.0.0.1"]
        command += ["--port", str(port), "--http-port", str(http_port)]
        command += ["--data-dir", str(Path(directory, "data")), *options]
        started = time.monotonic()
        process = spawn(command, log)
        try:
            wait_until_ready(port, process, log)
            yield Broker("Warren", port, process.pid, time.monotonic() - started, http_port)
        finally:
            stop(process.pid)


@contextmanager
def rabbitmq() -> Iterator[Broker]:
    program, epmd = RABBITMQ_BIN / "rabbitmq-server", shutil.which("epmd")
    if not program.exists() or epmd is None:
        raise NotInstalled("RabbitMQ (Debian: apt-get install rabbitmq-server)")
    with TemporaryDirectory(prefix="rabbitmq-bench-") as name, ExitStack() as stack:
        directory, port, epmd_port = Path(name), free_port(), free_port()
        # Erlang would leave a daemon behind; one that is already there and ours it only uses.
        mapper = spawn([epmd, "-port", str(epmd_port), "-address", "127.0.0.1"], directory / "epmd")
        stack.callback(stop, mapper.pid)
        started = time.monotonic()
        environment = rabbitmq_environment(directory, port, epmd_port)
        script = spawn([str(program)], directory / "log", environment)
        stack.callback(stop, script.pid)
        wait_until_ready(port, script, directory / "log")
        elapsed = time.monotonic() - started
        node = int((directory / "pid").read_text())
        stack.callback(stop, node)
        yield Broker("RabbitMQ", port, node, elapsed)


def rabbitmq_environment(directory: Path, port: int, epmd_port: int) -> dict[str, str]:
    files = {
        "RABBITMQ_CONFIG_FILE": ("rabbit.conf", f"listeners.tcp.1 = 127.0.0.1:{port}\n"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": (
            "advanced.config",
            "[{kernel,[{inet_dist_use_interface,{127,0,0,1}}]}].\n",
        ),
        "RABBITMQ_CONF_ENV_FILE": ("env.conf", ""),
        "RABBITMQ_ENABLED_PLUGINS_FILE": ("plugins", "[].\n"),
    }
    for name, text in files.values():
        (directory / name).write_text(text)
    return {
        **{variable: str(directory / name) for variable, (name, _) in files.items()},
        "HOME": str(directory),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(epmd_port),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "logs"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
        "LC_ALL": "C.UTF-8",
    }


STARTERS: Final = {"warren": warren, "rabbitmq": rabbitmq}
