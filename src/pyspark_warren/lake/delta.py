"""A Delta table of a lake: batches are committed by delta-rs, each once.

Spark runs a batch again if it does not know that it was done. So each commit carries *application
transactions*, which Delta keeps in the table's log: the number of the batch under the id of the
query, and for each queue the offset behind its newest row. Both are looked up before a commit:

    batch number <= that of the table         the batch is in already: nothing to do
    an offset below the queue's               another checkpoint has filled this table: refused

The look and the commit use one snapshot of the table. delta-rs lets two commits with the same
application id stand only if the second one has seen the first. So a driver that was taken for dead
and goes on cannot add its batch a second time: its snapshot is too old, and the commit is refused.
With a fresh snapshot between the two, the same commit would be accepted, so nothing here refreshes
a snapshot without looking again.

The two tables of a lake are two commits with a transaction each: killed in between, the batch is
run again, and only the table that lacks it takes it.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa

from pyspark_warren.errors import WarrenError
from pyspark_warren.lake import HOUR, PARTITION_COLUMNS, QUEUE
from pyspark_warren.lake.data_files import DataFile
from pyspark_warren.lake.schemas import normal_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltalake import DeltaTable

    from pyspark_warren.lake.storage import Storage

COMMIT_TRIES_MAX: Final = 10
# A reader opens the newest checkpoint of the log and so many commits behind it, at most.
CHECKPOINT_COMMITS: Final = 50
RETENTION_S: Final = 168 * 3_600
COMMIT_ID: Final = "warren.commit"
_MISSING: Final = (
    "Delta tables need one package more: pip install 'pyspark-warren[delta]' "
    "(or write plain Parquet: --table-format parquet)"
)


class LakeTakenOver(WarrenError):
    """Another driver has committed this batch meanwhile."""


class ForeignCheckpoint(WarrenError):
    """The table has what this query is about to add, from a query with another checkpoint."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of one query, the same however often Spark runs it."""

    query: str
    number: int
    may_go_back: bool = False
    """Take offsets below those that the table has: the stream may have been declared again."""


class DeltaLakeTable:
    """One table. Not for use by several threads at a time: each opens its own."""

    def __init__(self, storage: Storage, name: str, table: DeltaTable) -> None:
        self.name = name
        self._storage = storage
        self._table = table
        # delta-rs reads the log for each question after a transaction.
        self._marks: dict[str, int | None] = {}

    @classmethod
    def open(cls, storage: Storage, name: str) -> DeltaLakeTable | None:
        """Return the table, or None if there is none."""
        delta = delta_package()
        place = storage.below(name)
        options = place.delta_options()
        if not delta.DeltaTable.is_deltatable(place.url, options):
            return None
        return cls(storage, name, delta.DeltaTable(place.url, storage_options=options))

    @classmethod
    def create(
        cls, storage: Storage, name: str, schema: pa.Schema, retention_s: float = RETENTION_S
    ) -> DeltaLakeTable:
        """Create the table, unless another process has done so just now."""
        place = storage.below(name)
        if place.is_local:
            filesystem, root = place.open()
            filesystem.create_dir(root, recursive=True)
        table = delta_package().DeltaTable.create(
            place.url,
            schema,
            mode="ignore",
            partition_by=list(PARTITION_COLUMNS),
            configuration=_configuration(retention_s),
            storage_options=place.delta_options(),
        )
        return cls(storage, name, table)

    @property
    def schema(self) -> pa.Schema:
        return normal_schema(pa.schema(self._table.schema().to_arrow()))

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self._table.metadata().partition_columns)

    @property
    def version(self) -> int:
        return int(self._table.version())

    @property
    def raw(self) -> DeltaTable:
        """The table as delta-rs has it."""
        return self._table

    def refresh(self) -> None:
        """Go on to the newest version; what was known of an older one is forgotten."""
        before = self.version
        self._table.update_incremental()
        if self.version != before:
            self._marks.clear()

    def retain(self, retention_s: float) -> None:
        """Set for how long files and versions that are no longer needed are kept."""
        wanted = _configuration(retention_s)
        known = self._table.metadata().configuration
        changed = {name: value for name, value in wanted.items() if known.get(name) != value}
        if changed:
            self._table.alter.set_table_properties(changed)
            self.refresh()

    def add_columns(self, schema: pa.Schema) -> None:
        """Make the table's schema this one, which has all of its columns and more."""
        nothing = schema.empty_table()
        delta_package().write_deltalake(self._table, nothing, mode="append", schema_mode="merge")
        self.refresh()

    # Batches

    def newest_batch(self, query: str) -> int | None:
        return self._mark(self._batch_app(query))

    def rows_of(self, query: str) -> int:
        """Return how many rows came from a query, over all of its runs."""
        return self._mark(self._rows_app(query)) or 0

    def has(self, batch: Batch) -> bool:
        """Look at the table as it is now: the snapshot that `commit` will build on."""
        self.refresh()
        newest = self.newest_batch(batch.query)
        return newest is not None and newest >= batch.number

    def commit(self, batch: Batch, files: Sequence[DataFile]) -> None:
        """Add the files of a batch that `has` has just found missing.

        Raises
        ------
        LakeTakenOver
            If another process has committed this batch, or a later one, since then.
        ForeignCheckpoint
            If the table has rows that the files have, too.
        """
        commit_id = uuid.uuid4().hex
        for tries_left in reversed(range(COMMIT_TRIES_MAX)):
            since = self.version
            try:
                self._check_offsets(batch, files)
                self._commit(batch, files, commit_id)
            except (delta_package().exceptions.DeltaError, OSError) as error:
                # Another process has committed meanwhile, or the log of this old snapshot is gone
                # by now, or it is in and what failed came after it, such as the store's answer.
                self._open_anew()
                if self._has_commit(commit_id, since):
                    return
                if self.has(batch):
                    raise self._taken_over(batch) from error
                if not isinstance(error, delta_package().exceptions.CommitFailedError):
                    raise
                if not tries_left:
                    raise WarrenError(
                        f"{self._storage.url}: table {self.name} cannot be committed to, "
                        f"{COMMIT_TRIES_MAX} times by now: {error}"
                    ) from error
            else:
                return

    def _open_anew(self) -> None:
        place = self._storage.below(self.name)
        options = place.delta_options()
        self._table = delta_package().DeltaTable(place.url, storage_options=options)
        self._marks.clear()

    def _taken_over(self, batch: Batch) -> LakeTakenOver:
        return LakeTakenOver(
            f"batch {batch.number} of query {batch.query} was committed to "
            f"{self._storage.url}/{self.name} by another process meanwhile: two jobs run with one "
            "checkpoint. This one ends, and nothing is in the table twice. Stop the other one "
            "before this one is started again"
        )

    def _check_offsets(self, batch: Batch, files: Sequence[DataFile]) -> None:
        if batch.may_go_back and self.newest_batch(batch.query) is not None:
            return
        for queue, (first, _) in _spans(files).items():
            known = self._mark(_queue_app(queue))
            if known is not None and first < known:
                raise ForeignCheckpoint(
                    f"{self._storage.url}/{self.name} has queue {queue!r} up to offset "
                    f"{known - 1}, and this batch begins at {first}: the lake was filled from "
                    "another checkpoint, or the stream was deleted and declared again. Give the "
                    f"lake its checkpoint back, begin at offset {known}, or begin another lake"
                )

    def _commit(self, batch: Batch, files: Sequence[DataFile], commit_id: str) -> None:
        delta = delta_package()
        now_ms = int(time.time() * 1_000)
        rows = sum(file.rows for file in files)
        marks = {
            self._batch_app(batch.query): batch.number,
            self._rows_app(batch.query): self.rows_of(batch.query) + rows,
            **{_queue_app(queue): last + 1 for queue, (_, last) in _spans(files).items()},
        }
        self._table.create_write_transaction(
            [_action(delta, file, now_ms) for file in files],
            mode="append",
            schema=self.schema,
            partition_by=list(PARTITION_COLUMNS),
            commit_properties=delta.CommitProperties(
                app_transactions=[
                    delta.transaction.Transaction(name, version, now_ms)
                    for name, version in marks.items()
                ],
                custom_metadata={COMMIT_ID: commit_id, "warren.batch": str(batch.number)},
                max_commit_retries=COMMIT_TRIES_MAX,
            ),
            post_commithook_properties=without_clean_up(),
        )
        seen = self.version
        self.refresh()
        if self.version == seen + 1:  # nobody else has committed
            self._marks |= marks

    def _has_commit(self, commit_id: str, since: int) -> bool:
        entries = self._table.history(max(1, self.version - since))
        return any(entry.get(COMMIT_ID) == commit_id for entry in entries)

    def _mark(self, name: str) -> int | None:
        """Return the version of an application transaction."""
        if name not in self._marks:
            self._marks[name] = self._table.transaction_version(name)
        return self._marks[name]

    def _batch_app(self, query: str) -> str:
        return f"warren-batch/{query}/{self.name}"

    def _rows_app(self, query: str) -> str:
        return f"warren-rows/{query}/{self.name}"

    # Files

    def files(self) -> list[DataFile]:
        """Return the files of this snapshot."""
        actions = pa.table(self._table.get_add_actions(flatten=True))
        return [self._file(row) for row in actions.to_pylist()]

    def _file(self, row: dict[str, Any]) -> DataFile:
        rows, first, last = row["num_records"], row.get("min.offset"), row.get("max.offset")
        return DataFile(
            self.name, unquote(row["path"]), row["size_bytes"], -1 if rows is None else rows,
            row[f"partition.{QUEUE}"], row[f"partition.{HOUR}"],
            -1 if first is None else first, -1 if last is None else last,
        )  # fmt: skip


def without_clean_up() -> Any:
    """Return what keeps a commit from deleting old versions from the log, which upkeep does.

    Of two processes that do so at the same moment, delta-rs lets one fail: it wants to delete what
    the other has just deleted. That would look like a commit that failed.
    """
    return delta_package().PostCommitHookProperties(cleanup_expired_logs=False)


def delta_package() -> Any:
    """Return the package `deltalake`, loaded when a Delta table is used. Raises WarrenError."""
    try:
        import deltalake
        import deltalake.exceptions
        import deltalake.transaction
    except ModuleNotFoundError as error:
        if error.name != "deltalake":
            raise
        raise WarrenError(_MISSING) from None
    return deltalake


def _configuration(retention_s: float) -> dict[str, str]:
    # Versions whose files are gone cannot be read, so their log is kept for no longer.
    kept = f"interval {max(1, round(retention_s))} seconds"
    return {
        "delta.checkpointInterval": str(CHECKPOINT_COMMITS),
        "delta.deletedFileRetentionDuration": kept,
        "delta.logRetentionDuration": kept,
    }


def _queue_app(queue: str) -> str:
    return f"warren-queue/{queue}"


def _spans(files: Sequence[DataFile]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for file in files:
        first, last = found.get(file.queue, (file.first_offset, file.last_offset))
        found[file.queue] = min(first, file.first_offset), max(last, file.last_offset)
    return found


def _action(delta: Any, file: DataFile, now_ms: int) -> Any:
    # delta-rs encodes the path once more, as the protocol has it: what is in the log is a URL.
    return delta.transaction.AddAction(
        path=file.path,
        size=file.size,
        partition_values={QUEUE: file.queue, HOUR: file.hour},
        modification_time=now_ms,
        data_change=True,
        stats=file.statistics,
    )
