"""A standalone cluster of Spark's own: a master and workers, each a process, on loopback.

pip's pyspark has no scripts that start them, but all that these would start.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from typing import Final

import pyspark

from broker_process import free_port

HOST: Final = "127.0.0.1"
WORKERS: Final = 2
READY_WITHIN_S: Final = 300.0
_POLL_S: Final = 0.1
_PARENT: Final = 1
"""Place in /proc/PID/stat, behind the name."""


class StandaloneCluster:
    """Each worker has one core, for one executor."""

    def __init__(self, directory: Path) -> None:
        self.url = f"spark://{HOST}:{free_port()}"
        self._directory = directory
        self._master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        port = self.url.rpartition(":")[2]
        where = ["--host", HOST, "--webui-port", "0"]
        master = "org.apache.spark.deploy.master.Master"
        self._master = self._launch("master", [master, *where, "--port", port])
        for number in range(WORKERS):
            work = str(self._directory / f"work-{number}")
            size = ["--cores", "1", "--memory", "1g", "--work-dir", work]
            worker = ["org.apache.spark.deploy.worker.Worker", *where, *size, self.url]
            self.workers.append(self._launch(f"worker-{number}", worker))
        self._await_workers()

    def end(self) -> None:
        """Executors end with their workers."""
        for process in [*self.workers, self._master]:
            if process is not None:
                process.kill()
                process.wait()

    def executors(self) -> list[int]:
        """Processes that the workers have started."""
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        parents = {worker.pid for worker in self.workers}
        return [pid for pid in pids if _parent_of(pid) in parents]

    def _launch(self, name: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
        }  # fmt: skip
        with self._log(name).open("wb") as log:
            return subprocess.Popen(
                [str(home / "bin" / "spark-class"), *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
            )  # fmt: skip

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _await_workers(self) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        logs = [self._log(f"worker-{number}") for number in range(WORKERS)]
        while not all("Successfully registered with master" in log.read_text() for log in logs):
            assert time.monotonic() < deadline, [log.read_text()[-2_000:] for log in logs]
            time.sleep(_POLL_S)


def _parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        behind_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
        return int(behind_name.split()[_PARENT])
    return 0
