"""A broker of the tests' own: started on free ports, ready when `start` returns, ended by its pid.

`WARREN_TEST_COMMAND` names another program that takes the arguments of `warren server`, which is
how the tests that restart or configure the broker are checked against a reference broker.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import functools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

READY_WITHIN_S: Final = 120.0
STOPPED_WITHIN_S: Final = 60.0
ANSWERED_WITHIN_S: Final = 60.0
_POLL_S: Final = 0.02
# See clock_getcpuclockid(3): a process has a clock, which others may read.
_CPU_CLOCK_OF_PROCESS: Final = 2


class Address(NamedTuple):
    host: str
    port: int


# Below what systems give to outgoing connections, of which tests make many: a port that was free a
# moment ago stays free until it is used, and while a broker is being started again. Above those
# that `warren cluster` takes by itself. Tests of other processes look for ports here, too, so
# whoever has one locks the byte of its number in a file; the system takes that lock back when the
# process ends.
_PORTS: Final = range(26_000, 32_000)
_PORTS_FILE: Final = Path(tempfile.gettempdir()) / f"warren-test-ports-{os.getuid()}"
_given_ports: set[int] = set()


@functools.cache
def _port_locks() -> IO[bytes]:
    """One file, open until the end: closing it anywhere would undo all locks."""
    return _PORTS_FILE.open("ab", buffering=0)


def free_port() -> int:
    """Never the same one twice, nor one that tests of another process have."""
    for port in random.SystemRandom().sample(_PORTS, 1_000):
        if port in _given_ports:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            fcntl.lockf(_port_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            probe.bind(("127.0.0.1", port))
            _given_ports.add(port)
            return port
    raise AssertionError("no port is free")


def broker_command() -> str:
    beside_python = Path(sys.executable).with_name("warren")
    return os.environ.get("WARREN_TEST_COMMAND", str(beside_python))


def cpu_s_of(pid: int | None) -> float:
    """What a process has used of processors, however many others wanted them; 0 if unknown."""
    return 0.0 if pid is None else time.clock_gettime((~pid << 3) | _CPU_CLOCK_OF_PROCESS)


class BrokerProcess:
    """`warren server` with its data under `directory`; can be stopped, killed and started again."""

    def __init__(self, directory: Path, config: str = "", bind: str = "127.0.0.1") -> None:
        self.address = Address("127.0.0.1", free_port())
        self.http_port = free_port()
        self.log_path = directory / "broker.log"
        self._bind = bind
        self._data_dir = directory / "data"
        self._config_path = directory / "broker.conf" if config else None
        self._process: subprocess.Popen[bytes] | None = None
        self.command = broker_command()
        self.environment: dict[str, str] = {}
        self.options: list[str] = []
        if self._config_path:
            self._config_path.write_text(config)

    def configure(self, config: str) -> None:
        """From the next start on; only where there was a configuration to begin with."""
        if self._config_path:
            self._config_path.write_text(config)

    @property
    def data_dir(self) -> Path:
        return self._data_dir

    def start(self) -> None:
        self.launch()
        self.await_ready()

    def launch(self) -> subprocess.Popen[bytes]:
        """Start it and do not wait; for tests of starts that do not come to their end."""
        command = [
            self.command, "server", "--bind", self._bind,
            "--port", str(self.address.port),
            "--http-port", str(self.http_port),
            "--data-dir", str(self._data_dir),
            *self.options,
        ]  # fmt: skip
        if self._config_path:
            command += ["--config", str(self._config_path)]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
            )  # fmt: skip
        return self._process

    def await_ready(self) -> None:
        assert self._process is not None
        url = f"http://127.0.0.1:{self.http_port}/api/health/checks/ready"
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            assert self._process.poll() is None, f"the broker ended at once:\n{self.log()}"
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    if answer.status == 200:
                        return
            except (OSError, urllib.error.URLError):
                time.sleep(_POLL_S)
        self.kill()
        raise AssertionError(f"the broker did not get ready:\n{self.log()}")

    def ask(self, path: str) -> Any:
        """The answer of its HTTP API to the administrator."""
        token = base64.b64encode(b"guest:guest").decode()
        url = f"http://127.0.0.1:{self.http_port}{path}"
        request = urllib.request.Request(url, headers={"Authorization": f"Basic {token}"})
        with urllib.request.urlopen(request, timeout=ANSWERED_WITHIN_S) as answer:
            return json.load(answer)

    def stop(self) -> None:
        """Ask for a clean stop and wait for it."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the broker ignored SIGTERM:\n{self.log()}") from None
        self._process = None

    def kill(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    @property
    def was_killed(self) -> bool:
        """Whether it has ended by SIGKILL, whoever sent that."""
        return self._process is not None and self._process.poll() == -signal.SIGKILL

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def cpu_s(self) -> float:
        return cpu_s_of(self.pid)

    def resident_bytes(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the process has no resident size: is it gone?")

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
