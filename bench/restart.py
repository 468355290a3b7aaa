"""How long a broker with many messages takes to start, and what that costs in memory.

    one queue      a million messages of 1 KB
    many queues    1500 lazy queues with a thousand messages of 1 KB each

The queues are filled and the broker is killed, and then stopped, and started again each time. Ready
is when it answers an AMQP protocol header; memory is compared with a broker that has nothing, a
moment later, when what a start sets going has come to an end. What a start costs must not grow
with what is in the queues, so there are figures to keep below.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.brokers import Broker, free_port, spawn, stop, wait_until_ready
from bench.load import LoadFailed, run
from bench.report import Table

READY_SECONDS_MAX: Final = 5.0
RSS_GROWTH_MIB_MAX: Final = 100.0
SETTLE_SECONDS: Final = 3.0
FILL_SECONDS_MAX: Final = 300
QUEUES: Final = 1_500
PUBLISH: Final = "--declare --durable --persistent --size 1024 --publish-only --confirm 500"
COLUMNS: Final = ("messages", "after", "start to ready s", "RSS growth MiB")


@dataclass(frozen=True)
class Filling:
    title: str
    options: Callable[[int], str]


FILLINGS: Final = (
    Filling("one queue", lambda count: f"--queue qr {PUBLISH} --count {count}"),
    Filling(
        f"{QUEUES} lazy queues",
        lambda count: (
            f"--queue ql --queues {QUEUES} --queue-arg x-queue-mode=lazy {PUBLISH} "
            f"--count {count * 3 // 2}"
        ),
    ),
)


class Restartable:
    """A Warren that keeps its directory from one start to the next."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._port = free_port()

    def start(self) -> Broker:
        log = self._directory / "log"
        command = [str(Path(sys.executable).with_name("warren")), "server", "--bind", "127.0.0.1"]
        command += ["--port", str(self._port), "--http-port", str(free_port())]
        command += ["--data-dir", str(self._directory / "data")]
        began = time.monotonic()
        self._process = spawn(command, log)
        wait_until_ready(self._port, self._process, log)
        return Broker("Warren", self._port, self._process.pid, time.monotonic() - began)

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process.pid)
            self._process.wait()


def restarts(messages: int, say: Callable[[str], None]) -> Table:
    table = Table(f"Restarting with {messages:,} messages and more", COLUMNS)
    for filling in FILLINGS:
        say(f"restart: {filling.title}")
        with TemporaryDirectory(prefix="warren-bench-") as directory:
            warren = Restartable(Path(directory))
            try:
                _measure(table, filling, messages, warren)
            except (LoadFailed, RuntimeError) as failure:
                table.failures.append(f"{filling.title}: {failure}")
            finally:
                warren.kill()
    table.notes.append(
        f"To be ready in {READY_SECONDS_MAX:.0f} s, with {RSS_GROWTH_MIB_MAX:.0f} MiB more than "
        "a broker that has nothing."
    )
    return table


def _measure(table: Table, filling: Filling, messages: int, warren: Restartable) -> None:
    broker = warren.start()
    time.sleep(SETTLE_SECONDS)
    empty_kb = broker.rss_kb()
    options = f"{filling.options(messages)} --max-seconds {FILL_SECONDS_MAX}"
    run(broker, options.split())
    for way, end in (
        ("a kill", warren.kill),
        ("another kill", warren.kill),
        ("a stop", warren.stop),
    ):
        end()
        broker = warren.start()
        time.sleep(SETTLE_SECONDS)
        growth_mib = (broker.rss_kb() - empty_kb) / 1024
        figures = (f"{broker.start_seconds:.2f}", f"{growth_mib:.0f}")
        table.rows.append((filling.title, way, *figures))
        if broker.start_seconds > READY_SECONDS_MAX or growth_mib > RSS_GROWTH_MIB_MAX:
            table.failures.append(f"{filling.title} after {way}: {' s, '.join(figures)} MiB")
