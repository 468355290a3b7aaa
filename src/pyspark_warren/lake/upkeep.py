"""Upkeep of Delta tables while they are filled: small files put together, old ones deleted.

A table that gets a batch every few seconds has thousands of files an hour. Every so many batches, a
thread looks for partitions with many small files and has delta-rs put them together, beside the
batches that go on: a compaction and an append do not conflict in Delta. Readers keep the version
that they have opened, since the small files stay until their retention is over (`VACUUM`).

`VACUUM` deletes what no version of the last `retention_s` needs. The full one also lists the table
and deletes files that no version ever had, which killed tasks have left. It is why the retention
has to be longer than any batch takes: what a batch under way has written is in no version yet.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark_warren.lake import HOUR, QUEUE, TABLES
from pyspark_warren.lake.data_files import GROUP_ROWS, DataFile
from pyspark_warren.lake.delta import DeltaLakeTable, delta_package, without_clean_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark_warren.lake.storage import Storage

FILES_MIN: Final = 16
SMALL_BYTES: Final = 32 * 1_048_576
# Size of the files that come of it.
TOGETHER_BYTES: Final = 256 * 1_048_576
COMPACTED_EVERY: Final = 50
FULL_VACUUM_EVERY_S: Final = 86_400.0
# delta-rs reads so many partitions side by side; each takes memory, and batches need some, too.
TASKS_MAX: Final = 2
# Sorting for --z-order spills to the disk beyond this.
SPILL_BYTES: Final = 512 * 1_048_576
# As delta-rs spells what pyarrow calls so.
_CODECS: Final = {
    "zstd": "ZSTD",
    "snappy": "SNAPPY",
    "gzip": "GZIP",
    "lz4": "LZ4_RAW",
    "uncompressed": "UNCOMPRESSED",
}


def _silent(text: str) -> None:
    pass


@dataclass
class Upkeep:
    """Upkeep of a lake's tables. May be pickled before the first batch."""

    storage: Storage
    files_min: int = FILES_MIN
    """Small files of a partition that are worth putting together; 0 for never."""
    z_order: tuple[str, ...] = ()
    """Columns by which rows are brought close to each other when files are put together."""
    compression: str = "zstd"
    batches_every: int = COMPACTED_EVERY
    failure: str = ""
    """Why the last upkeep failed; it does no harm to the table, and is tried again."""
    _batches: int = 0
    _thread: threading.Thread | None = field(default=None, repr=False)
    _vacuumed_at: float = field(default_factory=time.time)

    def count_batch(self) -> None:
        """Start the upkeep in a thread when it is due and none is running."""
        self._batches += 1
        is_busy = self._thread is not None and self._thread.is_alive()
        if self._batches < self.batches_every or is_busy:
            return
        self._batches = 0
        self._thread = threading.Thread(target=self._run_aside, name="upkeep", daemon=True)
        self._thread.start()

    def finish(self, say: Callable[[str], None] = _silent) -> None:
        """Wait for the thread, and do all that is due, with what no version has."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._try(say, is_full=True)
        if self.failure:
            say(f"upkeep failed, and the next one will try again: {self.failure}")

    def run(self, say: Callable[[str], None] = _silent, *, is_full: bool = False) -> None:
        for name in TABLES:
            table = DeltaLakeTable.open(self.storage, name)
            if table is None:
                continue
            fewer = self.files_min and compact(
                table, self.files_min, self.z_order, self.compression
            )
            if fewer:
                say(f"{name}: put {fewer} files together")
            vacuum(table, is_full=is_full)
            clean_log(table)

    def _run_aside(self) -> None:
        now = time.time()
        is_full = now - self._vacuumed_at > FULL_VACUUM_EVERY_S
        self._try(_silent, is_full=is_full)
        if is_full:
            self._vacuumed_at = now

    def _try(self, say: Callable[[str], None], *, is_full: bool) -> None:
        """Do the upkeep; another job that has the same lake may have been faster."""
        try:
            self.run(say, is_full=is_full)
            self.failure = ""
        except Exception as error:  # noqa: BLE001 - the next one may do; the batches are in
            self.failure = str(error)


def compact(
    table: DeltaLakeTable,
    files_min: int = FILES_MIN,
    z_order: tuple[str, ...] = (),
    compression: str = "zstd",
) -> int:
    """Put small files of crowded partitions together; return how many were read for it."""
    crowded = _crowded(table.files(), max(2, files_min))
    if not crowded:
        return 0
    settings: dict[str, Any] = {
        # All of these queues at all of these hours: a few partitions more do no harm.
        "partition_filters": [
            (QUEUE, "in", sorted({queue for queue, _ in crowded})),
            (HOUR, "in", sorted({hour for _, hour in crowded})),
        ],
        "target_size": TOGETHER_BYTES,
        "max_concurrent_tasks": TASKS_MAX,
        "max_spill_size": SPILL_BYTES,
        "writer_properties": delta_package().WriterProperties(
            compression=_CODECS[compression], max_row_group_size=GROUP_ROWS
        ),
        "post_commithook_properties": without_clean_up(),
    }
    optimize = table.raw.optimize
    found = optimize.z_order(list(z_order), **settings) if z_order else optimize.compact(**settings)
    table.refresh()
    return int(found["numFilesRemoved"])


def _crowded(files: list[DataFile], files_min: int) -> set[tuple[str, str]]:
    small: dict[tuple[str, str], int] = {}
    for file in files:
        if file.size < SMALL_BYTES:
            key = (file.queue, file.hour)
            small[key] = small.get(key, 0) + 1
    return {key for key, number in small.items() if number >= files_min}


def vacuum(table: DeltaLakeTable, *, is_full: bool = False) -> int:
    """Delete files that no version of the table's retention needs; return their number."""
    # The retention is the table's own, so that every tool that vacuums it keeps to the same.
    deleted = table.raw.vacuum(
        dry_run=False,
        enforce_retention_duration=False,
        full=is_full,
        post_commithook_properties=without_clean_up(),
    )
    table.refresh()
    return len(deleted)


def clean_log(table: DeltaLakeTable) -> None:
    """Delete versions from the log that are older than the retention and in a checkpoint."""
    # Another process that is at it has deleted what this one was about to; the rest can wait.
    with contextlib.suppress(FileNotFoundError):
        table.raw.cleanup_metadata()
