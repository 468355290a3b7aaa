"""Process statistics of the broker during a run: CPU and memory, as Linux counts them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


class ProcessMeter:
    """CPU and memory of some processes since the meter was made, and what others used."""

    def __init__(self, pids: list[int]) -> None:
        self.pids = pids
        self.rss_peak_kb = 0
        self._started = time.monotonic()
        self._cpu = self._cpu_seconds()
        self._own = time.process_time()
        self._machine = _machine_busy_seconds()

    def sample(self) -> int:
        """Resident memory of all of them, in KiB."""
        rss_kb = sum(_rss_kb(pid) for pid in self.pids)
        self.rss_peak_kb = max(self.rss_peak_kb, rss_kb)
        return rss_kb

    def cpu_seconds(self) -> float:
        return self._cpu_seconds() - self._cpu

    def other_busy_cores(self) -> float:
        """How much of the machine neither the broker nor we used: more than ~0.3 disturbs."""
        busy = _machine_busy_seconds() - self._machine
        ours = self.cpu_seconds() + time.process_time() - self._own
        return (busy - ours) / max(time.monotonic() - self._started, 0.001)

    def _cpu_seconds(self) -> float:
        return sum(_cpu_ticks(pid) for pid in self.pids) / TICKS_PER_SECOND


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""  # the process is gone, or this is not Linux


def _cpu_ticks(pid: int) -> int:
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) if fields else 0


def _rss_kb(pid: int) -> int:
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def _machine_busy_seconds() -> float:
    lines = _read("/proc/stat").splitlines()
    if not lines:
        return 0.0
    user, nice, system, _idle, _wait, interrupt, soft, *_ = map(int, lines[0].split()[1:])
    return (user + nice + system + interrupt + soft) / TICKS_PER_SECOND
