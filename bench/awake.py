"""Processors that do not sleep while a latency is measured.

At a thousand messages a second a broker waits most of the time, and so do the processors. One of a
virtual machine that goes to sleep is given back to the host, and comes back when the host finds the
time: that takes milliseconds, many of them where the host is busy, at each of the dozen wake-ups
between a publish and its confirm. What is measured then is the host.

So each processor is given something to do that gives way to everything else (SCHED_IDLE). It is the
same for all brokers, and takes no time from them.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SECONDS_MAX: Final = 120.0
"""Should nobody end it."""


@contextmanager
def processors_awake() -> Iterator[None]:
    count = os.cpu_count() or 1
    busy = [multiprocessing.Process(target=_stay_awake, daemon=True) for _ in range(count)]
    for process in busy:
        process.start()
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.join()


def _stay_awake() -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    end = time.monotonic() + SECONDS_MAX
    while time.monotonic() < end:
        pass
