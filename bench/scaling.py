"""Does a message cost the same when there is much of everything?

Each dimension is tried at 1, 100 and 10 000, everything else equal; the figure to watch is the CPU
time a message costs the broker, and how it compares with the smallest size.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from bench.brokers import Broker
from bench.load import WARREN_PERF, LoadFailed, Measurement, command_for, measure, median, tool
from bench.report import Table, rate, times
from bench.scenarios import DECLARE, topic

SIZES: Final = (1, 100, 10_000)
OPEN_SECONDS_MAX: Final = 120.0
SETTLE_SECONDS: Final = 1.0
FLOW: Final = "--queue qs --size 100 --prefetch 200 --ack-every 50"
COLUMNS: Final = ("growing", "broker", "how many", "msg/s", "CPU us/msg", "CPU, 1 = fewest")


@dataclass(frozen=True)
class Dimension:
    name: str
    load: Callable[[int], str]
    program: Sequence[str] | None = None
    """The backlog is held by `warren perf`; mqload consumes as fast as it can."""


DIMENSIONS: Final = (
    Dimension("connections", lambda _: FLOW),
    # Three of each, because mqload lets one client use at most 4096 queues.
    Dimension("queues", lambda n: f"{FLOW} --queues {n} --producers 3 --consumers 3"),
    Dimension("bindings", topic),
    Dimension("backlog", lambda n: f"{FLOW} --backlog {n}", WARREN_PERF),
)


def scaling(
    brokers: Sequence[Broker], repeats: int, seconds: float, say: Callable[[str], None]
) -> Table:
    table = Table("Cost of a message as things grow", COLUMNS)
    for dimension in DIMENSIONS:
        for broker in brokers:
            smallest: float | None = None
            for size in SIZES:
                say(f"{dimension.name}: {broker.name}, {size}")
                try:
                    result = at_size(broker, dimension, size, repeats, seconds)
                except LoadFailed as failure:
                    table.failures.append(f"{dimension.name}, {broker.name}: {failure}")
                    continue
                smallest = smallest or result.cpu_us
                table.rows.append(
                    (
                        dimension.name,
                        broker.name,
                        str(size),
                        rate(result.rate),
                        f"{result.cpu_us:.2f}",
                        times(result.cpu_us, smallest),
                    )
                )
    table.notes.append(f"Median of {repeats} runs of {seconds:g} s each.")
    return table


def at_size(
    broker: Broker, dimension: Dimension, size: int, repeats: int, seconds: float
) -> Measurement:
    options = [*DECLARE.split(), *dimension.load(size).split(), "--time", str(seconds)]
    with idle_connections(broker, size if dimension.name == "connections" else 0):
        return median([measure(broker, options, dimension.program) for _ in range(repeats)])


@contextmanager
def idle_connections(broker: Broker, count: int) -> Iterator[None]:
    """So many connections, each with an open channel, that do nothing meanwhile."""
    if count == 0:
        yield
        return
    before = open_files(broker.pid)
    load = ["--idle-conns", str(count), "--idle-channel", "--time", "3600", "--max-seconds", "3600"]
    process = subprocess.Popen(command_for(broker, load, tool()), stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: open_files(process.pid) > count)
        time.sleep(SETTLE_SECONDS)  # the last few are still shaking hands
        yield
    finally:
        process.kill()
        process.wait()
        wait_for(lambda: open_files(broker.pid) <= before + count // 10 + 1)


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + OPEN_SECONDS_MAX
    while not is_so():
        if time.monotonic() > deadline:
            raise LoadFailed("idle connections did not open or close in time")
        time.sleep(0.1)
