"""A job as a command, and its processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker_process import broker_command

PATIENCE_S: Final = 900.0
POLL_S: Final = 0.1
# In local mode Spark runs a failed task again only if it is told to.
MASTER: Final = "local[2,4]"

# Every Java here lives for seconds: compiling what it does as well as can be is never paid back.
JAVA: Final = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not in {PATIENCE_S:g} s: {what}"
        time.sleep(POLL_S)


class JobProcess:
    """`warren pipeline NAME` in a session of its own, so that all of it can be ended."""

    def __init__(self, name: str, directory: Path, options: list[str]) -> None:
        self._command = [broker_command(), "pipeline", name, "--master", MASTER, *options]
        self._log = directory / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *more],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**JAVA, **os.environ},
            )  # fmt: skip

    def run_to_end(self, *more: str) -> None:
        """Start it, and see it end well by itself."""
        self.start(*more)
        assert self._process is not None
        try:
            code = self._process.wait(PATIENCE_S)
        finally:
            self.kill_all()
        assert code == 0, f"ended with {code}:\n{self.log()}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was started"
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        assert self._process is not None, "it was started"
        return self._process.wait(PATIENCE_S)

    def kill_all(self) -> None:
        """The driver, its JVM and all workers."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pid in self._of_session():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def freeze(self) -> None:
        """Stop all of it where it is, as if its machine hung."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let all of it go on as if no time had passed."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in [self.pid, *self._of_session()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def workers(self) -> list[int]:
        """Python workers, which are what there is of executors beside the JVM."""
        return [pid for pid in self._of_session() if b"pyspark.daemon" in command_line(pid)]

    def machine(self) -> list[int]:
        """The JVM: driver and executors in one."""
        return [pid for pid in self._of_session() if b"org.apache.spark" in command_line(pid)]

    def _of_session(self) -> list[int]:
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if pid != self.pid and session_of(pid) == self.pid]

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4_000:]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
