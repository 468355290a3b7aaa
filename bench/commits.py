"""Tens of thousands of commits to one Delta table, and whether they get slower with their number.

A job that takes a small batch every few seconds makes 20 000 commits within a day or two. Each one
here writes a file of 5 000 rows by the code that Spark's tasks run, and commits it by the code that
the driver runs, with an upkeep thread beside it, as a job has it: compaction, vacuum, checkpoints,
log clean-up. Bodies are a few bytes, since commits do not read them. The stream's clock runs faster
than the wall: so many commits make an hour. Retention is short, so that what a week would delete
is deleted within the run.

Timed is what the driver does for a batch: the look for its transaction and the commit. Medians,
because the upkeep thread runs beside some of them; the mean says what that adds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from bench.report import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_warren.lake.delta import DeltaLakeTable

COMMITS: Final = 20_000
ROWS: Final = 5_000
SLICES: Final = 10
COMMITS_PER_HOUR: Final = 400
RETENTION_S: Final = 30.0
QUEUE: Final = "orders"
BEGINNING_US: Final = 1_780_000_000_000_000
HOUR_US: Final = 3_600_000_000
SLOWER_MAX: Final = 2.0
# Committed once before all others, and never again: it has to outlive the log.
EARLY: Final = "an earlier query"
EARLY_BATCH: Final = 7
QUERY: Final = "the query"
COLUMNS: Final = (
    "commits", "median ms", "99 % ms", "mean ms", "median CPU ms", "files in the table",
    "files of the log", "log, KiB",
)  # fmt: skip


@dataclass(frozen=True)
class Load:
    """How many commits there are, and of what."""

    commits: int
    rows: int = ROWS
    retention_s: float = RETENTION_S


@dataclass
class Run:
    """What was measured, and what the table has in the end."""

    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    rows: int = 0
    newest_batch: int | None = None
    early_batch: int | None = None
    first_version_is_gone: bool = False

    def slower(self, times_ms: list[float]) -> float:
        """How many times as long the last tenth took as the first one, by medians."""
        tenth = max(1, len(times_ms) // SLICES)
        return statistics.median(times_ms[-tenth:]) / statistics.median(times_ms[:tenth])


def commits(count: int, say: Callable[[str], None]) -> Table:
    load = Load(count)
    table = Table(f"{count:,} commits of {ROWS:,} rows to one Delta table", COLUMNS)
    with TemporaryDirectory(prefix="warren-bench-lake-") as lake:
        run = commit_many(Path(lake), load, table, say)
    wall, cpu = run.slower(run.wall_ms), run.slower(run.cpu_ms)
    if wall > SLOWER_MAX:
        table.failures.append(f"the last tenth took {wall:.2f} times as long as the first")
    table.failures += lost_in(run, load)
    table.notes.append(
        f"The last tenth beside the first, by medians: {wall:.2f} times the time, {cpu:.2f} times "
        f"the CPU; at most {SLOWER_MAX:g} is wanted. Rows in the table, counted: {run.rows:,}. The "
        "transactions of both queries outlived the first versions of the log."
    )
    return table


def lost_in(run: Run, load: Load) -> list[str]:
    """What should be in the table, and is not."""
    lost = []
    rows = load.commits * load.rows
    if run.rows != rows:
        lost.append(f"{run.rows:,} rows of {rows:,} are in the table")
    if run.newest_batch != load.commits - 1:
        lost.append(f"the newest batch is {run.newest_batch}, not {load.commits - 1}")
    if run.early_batch != EARLY_BATCH:
        lost.append(f"the earlier query's batch is {run.early_batch}, not {EARLY_BATCH}")
    if not run.first_version_is_gone:
        lost.append("the log was never cleaned up, so this proves nothing about it")
    return lost


def commit_many(lake: Path, load: Load, table: Table, say: Callable[[str], None]) -> Run:
    """Fill a lake; `table` gets ten rows about it."""
    from pyspark_warren.lake import MESSAGES
    from pyspark_warren.lake.data_files import DataFile, WritePlan, write_files
    from pyspark_warren.lake.delta import Batch, DeltaLakeTable
    from pyspark_warren.lake.storage import Storage
    from pyspark_warren.lake.upkeep import Upkeep

    storage = Storage.of(str(lake))
    delta = DeltaLakeTable.create(storage, MESSAGES, schema(), load.retention_s)
    delta.commit(Batch(EARLY, EARLY_BATCH), [])
    upkeep = Upkeep(storage)
    run = Run()
    plan = WritePlan(storage, {MESSAGES: file_schema()}, "commits")
    per_slice = -(-load.commits // SLICES)
    numbered = enumerate(batches(load))
    while chunk := list(islice(numbered, per_slice)):
        for number, batch in chunk:
            written = [DataFile(*row.values()) for part in write_files(iter([batch]), plan)
                       for row in part.to_pylist()]  # fmt: skip
            started, started_cpu = time.perf_counter(), time.process_time()
            missing = not delta.has(Batch(QUERY, number))
            assert missing, "each batch is committed once"
            delta.commit(Batch(QUERY, number), written)
            run.wall_ms.append(1e3 * (time.perf_counter() - started))
            run.cpu_ms.append(1e3 * (time.process_time() - started_cpu))
            upkeep.count_batch()
        add_row(table, run, len(chunk), delta, lake / MESSAGES / "_delta_log")
        say(f"commits: {chunk[-1][0] + 1:,} of {load.commits:,}, median {table.rows[-1][1]} ms")
    upkeep.finish()
    assert not upkeep.failure, upkeep.failure
    look(run, storage.below(MESSAGES).url, lake / MESSAGES / "_delta_log", load.commits * load.rows)
    return run


def batches(load: Load) -> Iterator[pa.RecordBatch]:
    """Rows as the source has them, for one batch after the other."""
    import numpy as np
    import pyarrow as pa

    rows = load.rows
    names = pa.array([QUEUE] * rows)
    for number in range(load.commits):
        offsets = np.arange(number * rows, (number + 1) * rows)
        moment = BEGINNING_US + number * HOUR_US // COMMITS_PER_HOUR
        yield pa.record_batch(
            {
                "value": pa.array([b"body"] * rows, pa.binary()),
                "queue": names,
                "offset": pa.array(offsets),
                "timestamp": pa.array(np.full(rows, moment), pa.timestamp("us", "UTC")),
                "routing_key": names,
                "reason": pa.nulls(rows, pa.string()),
            }
        )


def file_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        {
            "value": pa.binary(),
            "offset": pa.int64(),
            "timestamp": pa.timestamp("us", "UTC"),
            "routing_key": pa.string(),
        }
    )


def schema() -> pa.Schema:
    import pyarrow as pa

    partitions = [pa.field("queue", pa.string()), pa.field("hour", pa.string())]
    return pa.schema([*file_schema(), *partitions])


def add_row(table: Table, run: Run, commits: int, delta: DeltaLakeTable, log: Path) -> None:
    wall, cpu = sorted(run.wall_ms[-commits:]), run.cpu_ms[-commits:]
    sizes = [path.stat().st_size for path in log.iterdir() if path.is_file()]
    table.rows.append(
        (
            f"to {len(run.wall_ms):,}",
            f"{statistics.median(wall):.1f}",
            f"{wall[len(wall) * 99 // 100]:.1f}",
            f"{statistics.fmean(wall):.1f}",
            f"{statistics.median(cpu):.1f}",
            f"{len(delta.files()):,}",
            f"{len(sizes):,}",
            f"{sum(sizes) / 1024:,.0f}",
        )
    )


def look(run: Run, url: str, log: Path, expected: int) -> None:
    """Read the table as a process does that has never seen it, row by row."""
    import numpy as np

    from pyspark_warren.lake import MESSAGES
    from pyspark_warren.lake.delta import DeltaLakeTable
    from pyspark_warren.lake.storage import Storage

    fresh = DeltaLakeTable.open(Storage.of(url.removesuffix(f"/{MESSAGES}")), MESSAGES)
    assert fresh is not None, "the table was made"
    seen = np.zeros(expected, bool)
    for part in fresh.raw.to_pyarrow_dataset().to_batches(columns=["offset"]):
        offsets = part["offset"].to_numpy()
        assert not seen[offsets].any(), "each row is there once"
        seen[offsets] = True
    run.rows = int(seen.sum())
    run.newest_batch = fresh.newest_batch(QUERY)
    run.early_batch = fresh.newest_batch(EARLY)
    run.first_version_is_gone = not (log / f"{0:020d}.json").exists()
