"""Large bodies that go to many queues: kept once in the body store, or once for each queue.

Persistent messages with confirms to ten durable queues, and to one, twice: as Warren comes (bodies
of 4 KiB and more are written once, to `*.rdq`, and the queues refer to them), and with
`queue_index_embed_msgs_below` above every body, so that each queue writes it down itself. That is
what a broker without the body store would do. Both are measured in turns, each with a broker of its
own. First without consumers, so that everything stays, and the queues are drained afterwards; then
with consumers that keep up, where less has to be written.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.brokers import Broker, warren
from bench.load import LoadFailed, run
from bench.report import Table

QUEUES: Final = (10, 1)
SECONDS_MAX: Final = 170
# Bodies published in a run, whatever their size.
BYTES: Final = 64 * 1024 * 1024
SIZES: Final = (16 * 1024, 256 * 1024)
MODES: Final = {"stored once": 4_096, "in each queue": 1_048_576}
PUBLISH: Final = "--exchange fx --exchange-type fanout --declare --persistent --confirm 50"
CONSUME: Final = "--prefetch 50 --ack-every 10"
COLUMNS: Final = (
    "body", "queues", "bodies are", "publish/s", "CPU us/msg", "KiB written/msg", "drain/s",
    "CPU us/msg", "consumed at once: publish/s", "CPU us/msg", "KiB written/msg",
)  # fmt: skip
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Costs:
    """Of one load; `rate` and the costs are per message published, or delivered when drained."""

    rate: float
    cpu_us: float
    kib_written: float


@dataclass(frozen=True)
class Run:
    kept: Costs
    drained: Costs
    consumed: Costs


def bodies(repeats: int, say: Callable[[str], None]) -> Table:
    table = Table("Large persistent bodies to durable queues, with confirms", COLUMNS)
    for size, queues in product(SIZES, QUEUES):
        runs: dict[str, list[Run]] = {mode: [] for mode in MODES}
        for repeat, mode in product(range(repeats), MODES):
            what = f"bodies of {size // 1024} KiB to {queues} queues, {mode}"
            say(f"{what}: run {repeat + 1} of {repeats}")
            try:
                runs[mode].append(_run(size, queues, MODES[mode]))
            except LoadFailed as failure:
                table.failures.append(f"{what}: {failure}")
        for mode, results in runs.items():
            if results:
                table.rows.append((f"{size // 1024} KiB", str(queues), mode, *_cells(results)))
    table.notes.append(
        f"Medians of {repeats} runs in turns, {BYTES // 2**20} MiB of bodies each. Rates and costs "
        "are per message published, of the drain per message delivered. Written is what the "
        "process has given to the disk, `write_bytes` of /proc/PID/io."
    )
    return table


def _run(size: int, queues: int, embed_below: int) -> Run:
    count = BYTES // size
    with ExitStack() as stack:
        directory = stack.enter_context(TemporaryDirectory(prefix="warren-bench-"))
        config = Path(directory, "warren.conf")
        config.write_text(f"queue_index_embed_msgs_below = {embed_below}\n")
        broker = stack.enter_context(warren(["--config", str(config)]))
        named = f"--queue qb --queues {queues} --durable --size {size}"
        publish = f"{named} {PUBLISH} --count {count}"
        consume = f"{CONSUME} --consumers {queues}"
        kept = _costs(broker, f"{publish} --publish-only", "publish", count)
        drain = f"{named} --drain {consume} --expect {count * queues}"
        drained = _costs(broker, drain, "consume", count * queues)
        consumed = _costs(broker, f"{publish} {consume} --delete-after", "publish", count)
        return Run(kept, drained, consumed)


def _costs(broker: Broker, options: str, verb: str, messages: int) -> Costs:
    cpu_s, written = _cpu_s(broker), _bytes_written(broker)
    report = run(broker, [*options.split(), "--max-seconds", str(SECONDS_MAX)])
    done = report["published" if verb == "publish" else "consumed"]
    if done < messages:
        raise LoadFailed(f"{done} of {messages} messages in {SECONDS_MAX} s: {report}")
    cpu_us = (_cpu_s(broker) - cpu_s) * 1e6 / messages
    kib_written = (_bytes_written(broker) - written) / 1024 / messages
    return Costs(report[f"{verb}_rate"], cpu_us, kib_written)


def _cpu_s(broker: Broker) -> float:
    fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _bytes_written(broker: Broker) -> int:
    for line in Path(f"/proc/{broker.pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    raise RuntimeError("this system does not count what a process writes")


def _cells(results: list[Run]) -> list[str]:
    def median(of: Callable[[Run], Costs]) -> Costs:
        columns = zip(*(astuple(of(result)) for result in results), strict=True)
        return Costs(*map(statistics.median, columns))

    kept, drained, consumed = (median(of) for of in (_kept, _drained, _consumed))
    return [
        f"{kept.rate:.0f}", f"{kept.cpu_us:.0f}", f"{kept.kib_written:.0f}",
        f"{drained.rate:.0f}", f"{drained.cpu_us:.0f}",
        f"{consumed.rate:.0f}", f"{consumed.cpu_us:.0f}", f"{consumed.kib_written:.0f}",
    ]  # fmt: skip


def _kept(result: Run) -> Costs:
    return result.kept


def _drained(result: Run) -> Costs:
    return result.drained


def _consumed(result: Run) -> Costs:
    return result.consumed
