"""Starves a process: it shares one processor with programs that never sleep."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

BURNERS: Final = 2
LIVES_S: Final = 120
"""A program that never sleeps ends by itself, even if nobody is there to end it."""
LOW_PRIORITY: Final = 10
_BURN: Final = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
"""


@contextmanager
def starved(pid: int) -> Iterator[None]:
    """Give a process, for as long as this lasts, about a twentieth of one processor."""
    before = os.sched_getaffinity(pid)
    chosen = {min(before)}
    command = [sys.executable, "-c", _BURN, str(LIVES_S)]
    burners = [subprocess.Popen(command) for _ in range(BURNERS)]
    for burner in burners:
        os.sched_setaffinity(burner.pid, chosen)
    _confine(pid, chosen)
    os.setpriority(os.PRIO_PROCESS, pid, LOW_PRIORITY)
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
        _confine(pid, before)


def _confine(pid: int, processors: set[int]) -> None:
    """Let all threads of a process, some of which may be ending, run on these."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), processors)
