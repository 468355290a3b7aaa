"""A process of the tests' own that works on a lake beside the job, until it is told to stop.

Its last line of output is what it did, as JSON; it ends with an error at the first thing that is
wrong.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

ENDED_WITHIN_S: Final = 120.0


class SideProcess:
    """`python -m pipeline_chaos.MODULE LAKE`."""

    def __init__(self, module: str, directory: Path, lake: str) -> None:
        self._command = [sys.executable, "-m", f"pipeline_chaos.{module}", lake]
        self._log = directory / f"{module}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.did: dict[str, int] = {}
        """Summed up over all runs that ended in order."""

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log,
                cwd=Path(__file__).parents[1],
            )  # fmt: skip

    def check(self) -> None:
        """See that nothing has gone wrong so far."""
        assert self._process is not None, "it was started"
        assert self._process.poll() is None, f"ended:\n{self._tail()}"

    def stop(self) -> None:
        """Have it end in order, and add up what it did."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=ENDED_WITHIN_S)
        assert process.returncode == 0, f"ended with {process.returncode}:\n{self._tail()}"
        for name, number in json.loads(output).items():
            self.did[name] = self.did.get(name, 0) + number

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-4_000:]


def stopped_by_signal() -> threading.Event:
    """Return what is set once this process is asked to end."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    return stopping


def tell(did: dict[str, Any]) -> None:
    print(json.dumps(did), flush=True)
