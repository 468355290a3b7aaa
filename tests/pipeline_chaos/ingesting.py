"""A real `warren pipeline ingest`, its processes, and what its lake has."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from broker_process import broker_command

PATIENCE_S: Final = 900.0
POLL_S: Final = 0.1
# In local mode Spark runs a failed task again only if it is told to.
MASTER: Final = "local[2,4]"


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not in {PATIENCE_S:g} s: {what}"
        time.sleep(POLL_S)


class IngestProcess:
    """The job as a command, in a session of its own, so that all of it can be ended."""

    def __init__(self, directory: Path, options: list[str]) -> None:
        self.lake = directory / "lake"
        self._options = ["--lake", str(self.lake), "--master", MASTER, *options]
        self._log = directory / "ingest.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        command = [broker_command(), "pipeline", "ingest", *self._options, *more]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def run_once(self) -> None:
        """Take in all that is there, to the end."""
        self.start("--once")
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

    def workers(self) -> list[int]:
        """Python workers, which are what there is of executors beside the JVM."""
        return [pid for pid in self._of_session() if b"pyspark.daemon" in command_line(pid)]

    def machine(self) -> list[int]:
        """The JVM: driver and executors in one."""
        return [pid for pid in self._of_session() if b"org.apache.spark" in command_line(pid)]

    def _of_session(self) -> list[int]:
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if pid != self.pid and session_of(pid) == self.pid]

    def commits(self) -> int:
        return commits_in(self.lake)

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4_000:]


def commits_in(lake: Path) -> int:
    """The number of the newest batch, from 1 on; 0 if there is none."""
    names = [path.stem for path in (lake / "_commits").glob("[0-9]*.json")]
    return 1 + int(max(names)) if names else 0


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


def numbers_in(lake: Path) -> Counter[int]:
    """Bodies in the table, read file by file: whoever does not know the lake reads it like this."""
    counted: Counter[int] = Counter()
    for path in sorted((lake / "messages").rglob("*.parquet")):
        values = pq.ParquetFile(path).read(["value"]).column("value").to_pylist()
        counted.update(int(value) for value in values)
    return counted


def check_lake(lake: Path, confirmed: set[int], published: int) -> None:
    counted = numbers_in(lake)
    twice = [number for number, count in counted.items() if count > 1]
    assert not twice, f"{len(twice)} messages are there more than once, such as {min(twice)}"
    missing = confirmed - set(counted)
    assert not missing, f"{len(missing)} confirmed messages are missing, such as {min(missing)}"
    strange = set(counted) - set(range(published))
    assert not strange, f"nobody published {strange}"
