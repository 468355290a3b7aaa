"""Idle cost: the CPU time, system calls and wake-ups of a message at low rates.

At full speed the message costs; at low rates what surrounds it does: the loop is woken, the journal
is committed, nodes send each other a frame each time. So here the rate is given, and all that the
kernel counts is divided by the messages: for one node, and for a cluster of three that mirrors.

Calls and syncs are counted by strace in a run of their own, as it slows down what it watches.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.brokers import Broker, NotInstalled, warren
from bench.clusters import CLUSTERS
from bench.load import LoadFailed, Measurement, disturbances, measure, run
from bench.report import Table, pair
from bench.scenarios import DURABLE

LOADS: Final = (
    (1, 1), (1, 10), (1, 100), (1, 1000), (1, 10_000), (50, 500), (50, 5000), (500, 5000),
    (2000, 2000),
)  # fmt: skip
"""Queues, and messages per second of all of them."""
MIRRORED_RATE_MAX: Final = 5000
ACKS: Final = "--prefetch 200 --ack-every 1"
SECONDS_MAX: Final = 120
ATTACH_SECONDS_MAX: Final = 10
SYNCS: Final = frozenset({"fsync", "fdatasync", "sync_file_range"})
COLUMNS: Final = (
    "queues", "msg/s", "reached", "CPU us/msg", "of it kernel", "read and write calls",
    "wake-ups", "KiB read and written", "all calls", "syncs", "confirm p50 / p99 ms",
)  # fmt: skip


@dataclass(frozen=True)
class Usage:
    """Sums of what the kernel has counted for some processes."""

    cpu_s: float
    user_ticks: int
    kernel_ticks: int
    calls: int
    octets: int
    wake_ups: int

    def since(self, before: Usage) -> Usage:
        return Usage(*(getattr(self, n) - getattr(before, n) for n in Usage.__dataclass_fields__))

    @property
    def kernel_share(self) -> float:
        return self.kernel_ticks / max(self.user_ticks + self.kernel_ticks, 1)


def usage_of(pids: Sequence[int]) -> Usage:
    cpu_ns = user = kernel = calls = octets = wake_ups = 0
    for process in (Path("/proc", str(pid)) for pid in pids):
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        user, kernel = user + int(fields[11]), kernel + int(fields[12])
        counts = _numbers((process / "io").read_text())
        calls += counts["syscr"] + counts["syscw"]
        octets += counts["rchar"] + counts["wchar"]
        for task in (process / "task").iterdir():
            with suppress(FileNotFoundError):  # a thread that has ended meanwhile
                cpu_ns += int((task / "schedstat").read_text().split()[0])
                wake_ups += _numbers((task / "status").read_text())["voluntary_ctxt_switches"]
    return Usage(cpu_ns / 1e9, user, kernel, calls, octets, wake_ups)


def _numbers(text: str) -> dict[str, int]:
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name: int(value) for name, value in pairs if value.strip().isdigit()}


def counted_calls(summary: str) -> tuple[int, int]:
    """All system calls in a summary of `strace -c`, and the syncs among them."""
    calls = syncs = 0
    for line in summary.splitlines():
        words = line.split()
        if len(words) >= 5 and words[0].replace(".", "").isdigit() and words[-1] != "total":
            calls += int(words[3])
            syncs += int(words[3]) if words[-1] in SYNCS else 0
    return calls, syncs


@contextmanager
def traced(pids: Sequence[int], counts: list[tuple[int, int]]) -> Iterator[None]:
    """Append to `counts` what the processes called meanwhile; nothing without strace."""
    program = shutil.which("strace")
    if program is None:
        yield
        return
    with TemporaryDirectory(prefix="warren-bench-") as directory:
        summary = Path(directory, "summary")
        options = [option for pid in pids for option in ("-p", str(pid))]
        process = subprocess.Popen(
            [program, "-f", "-c", "-o", str(summary), *options], stderr=subprocess.DEVNULL
        )
        try:
            _await_tracer(pids)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
        counts.append(counted_calls(summary.read_text()))


def _await_tracer(pids: Sequence[int]) -> None:
    deadline = time.monotonic() + ATTACH_SECONDS_MAX
    for status in (Path("/proc", str(pid), "status") for pid in pids):
        while _numbers(status.read_text())["TracerPid"] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)


def idle_cost(seconds: float, say: Callable[[str], None]) -> list[Table]:
    one = Table("Cost at low rates, one node", COLUMNS)
    three = Table("Cost at low rates, three nodes with mirrored queues, etcd included", COLUMNS)
    with warren() as broker:
        _measure(one, broker, [broker.pid], seconds, say)
    try:
        with CLUSTERS["warren"]() as cluster:
            cluster.operator.set_policy("ha", "^mirrored", {"ha-mode": "all"})
            _measure(three, cluster.nodes[0], cluster.pids, seconds, say)
    except (NotInstalled, RuntimeError, OSError) as failure:
        three.failures.append(str(failure))
    return [one, three]


def _measure(
    table: Table, broker: Broker, pids: Sequence[int], seconds: float, say: Callable[[str], None]
) -> None:
    at_rest = usage_of(pids)
    time.sleep(seconds)
    cpu_ms = usage_of(pids).since(at_rest).cpu_s / seconds * 1000
    found = []
    for queues, rate in LOADS:
        if len(pids) > 1 and rate > MIRRORED_RATE_MAX:
            continue
        say(f"idle-cost: {len(pids)} processes, {queues} queues, {rate} msg/s")
        try:
            found.append(_add_row(table, broker, pids, (queues, rate, seconds)))
        except LoadFailed as failure:
            table.failures.append(f"{queues} queues, {rate} msg/s: {failure}")
    table.notes += disturbances(found)
    table.notes.append(
        f"1 KB persistent, confirms, each message acknowledged, {seconds:g} s each. At rest the "
        f"broker uses {cpu_ms:.1f} ms of CPU per second, which is part of each figure."
    )


def _add_row(
    table: Table, broker: Broker, pids: Sequence[int], load: tuple[int, int, float]
) -> Measurement:
    queues, rate, seconds = load
    named = f"--queue mirrored-{queues}-{rate} --queues {queues} --durable"
    run(broker, f"{named} --declare --publish-only --count 1 --max-seconds {SECONDS_MAX}".split())
    run(broker, f"{named} --drain --expect 1".split())
    os.sync()
    options = f"{named} {DURABLE} {ACKS} --size 1024 --rate {rate} --time {seconds}"
    options += f" --max-seconds {SECONDS_MAX}"
    counts: list[tuple[int, int]] = []
    with traced(pids, counts):
        watched = measure(broker, options.split())
    before = usage_of(pids)
    found = measure(broker, options.split())
    used = usage_of(pids).since(before)
    run(broker, f"{named} --publish-only --count 1 --delete-after".split())
    messages = max(found.rate * seconds, 1)
    calls = [f"{n / max(watched.rate * seconds, 1):.2f}" for each in counts for n in each]
    table.rows.append(
        (
            str(queues), str(rate), f"{found.rate:.0f}", f"{used.cpu_s / messages * 1e6:.0f}",
            f"{used.kernel_share:.0%}", f"{used.calls / messages:.2f}",
            f"{used.wake_ups / messages:.2f}", f"{used.octets / messages / 1024:.1f}",
            *(calls or ("-", "-")), pair(found.confirm_p50_ms, found.confirm_p99_ms),
        )
    )  # fmt: skip
    return found
