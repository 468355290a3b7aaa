"""Data files of a lake, written by Spark's tasks: Parquet, one file for each queue and hour.

A task gets the rows of its part of a batch, good and bad mixed, and writes both tables in one pass.
It returns what it wrote, a row for each file; nothing of it counts until the driver commits it.

Rows are gathered until a row group is worth writing. So many files are open at a time: if a task
meets more queues and hours, the file that was used least recently is finished, and a second one is
begun if its partition comes again.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, get_type_hints
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyspark_warren.errors import WarrenError
from pyspark_warren.lake import (
    HOUR,
    HOUR_FORMAT,
    MESSAGES,
    QUARANTINE,
    QUEUE,
    REASON,
    STAGING,
)
from pyspark_warren.lake.statistics import delta_statistics
from pyspark_warren.lake.storage import NAME_BYTES_MAX, Storage

if TYPE_CHECKING:
    from pyarrow import fs

FILES_OPEN_MAX: Final = 64
GROUP_ROWS: Final = 131_072
GROUP_BYTES: Final = 64 * 1_048_576
# Over all files of a task; the largest heap is written when there is more.
GATHERED_BYTES_MAX: Final = 128 * 1_048_576
# Bodies repeat too seldom for a dictionary, and nobody asks for the least of them.
_PLAIN: Final = frozenset({"value", "offset", "timestamp"})
_WITHOUT_STATISTICS: Final = frozenset({"value"})
_ARROW_TYPES: Final = {str: pa.string(), int: pa.int64()}
_SPARK_TYPES: Final = {str: "STRING", int: "BIGINT"}


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file that a task has written, or that a table has."""

    table: str
    path: str
    """Below the table's root, with slashes."""
    size: int
    rows: int
    queue: str
    hour: str
    first_offset: int
    last_offset: int
    statistics: str = ""
    """JSON, as Delta has it."""


_HINTS: Final = get_type_hints(DataFile)
WRITTEN_SCHEMA: Final = pa.schema(
    [(f.name, _ARROW_TYPES[_HINTS[f.name]]) for f in fields(DataFile)]
)
WRITTEN_DDL: Final = ", ".join(
    f"`{f.name}` {_SPARK_TYPES[_HINTS[f.name]]}" for f in fields(DataFile)
)


@dataclass(frozen=True, slots=True)
class WritePlan:
    """All that a task needs to know to write its part of a batch."""

    lake: Storage
    schemas: dict[str, pa.Schema]
    """Columns of each table's files: all but those of the partition."""
    name: str
    """How names of files begin: those of one batch of one query do so, and no others."""
    compression: str = "zstd"
    is_repeatable: bool = False
    """Name files by task, so that a second try replaces them; else each name is new."""


def partition_path(queue: str, hour: str) -> str:
    """Return the folder of a partition, by Hive's rules. Raises WarrenError if it is too long."""
    names = f"{QUEUE}={_escaped(queue)}", f"{HOUR}={_escaped(hour)}"
    for name in names:
        if len(name) > NAME_BYTES_MAX:
            raise WarrenError(
                f"queue {queue!r} makes a folder name of {len(name)} bytes, and file systems take "
                f"{NAME_BYTES_MAX}: ingest it under a shorter name, or one with fewer odd letters"
            )
    return "/".join(names)


def _escaped(value: str) -> str:
    return quote(value, safe="")


def write_files(batches: Iterator[pa.RecordBatch], plan: WritePlan) -> Iterator[pa.RecordBatch]:
    """Write one task's rows; for `mapInArrow`. Yields `WRITTEN_SCHEMA`."""
    from pyspark import TaskContext

    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    writers = {table: _TableWriter(plan, table, task) for table in plan.schemas}
    for batch in batches:
        with plan.lake.explained():
            for table, rows in _by_table(batch).items():
                if rows.num_rows and table in writers:
                    writers[table].add(rows)
    with plan.lake.explained():
        written = [file for writer in writers.values() for file in writer.finish()]
    columns = list(zip(*map(astuple, written), strict=True)) or [()] * len(WRITTEN_SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, WRITTEN_SCHEMA, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=WRITTEN_SCHEMA)


def _by_table(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    if REASON not in batch.schema.names:  # nothing was decoded
        return {MESSAGES: batch}
    reasons = batch.column(REASON)
    if reasons.null_count == len(reasons):
        return {MESSAGES: batch}
    is_bad = pc.is_valid(reasons)
    return {MESSAGES: batch.filter(pc.invert(is_bad)), QUARANTINE: batch.filter(is_bad)}


@dataclass(slots=True)
class _OpenFile:
    """A file that is being written, and the rows that wait for their row group."""

    queue: str
    hour: str
    draft: str
    """Where it is written, below the lake."""
    path: str
    """Where it belongs, below the table."""
    stream: Any
    writer: pq.ParquetWriter
    footers: list[pq.FileMetaData]
    gathered: list[pa.RecordBatch] = field(default_factory=list)
    gathered_rows: int = 0
    gathered_bytes: int = 0
    first_offset: int | None = None
    last_offset: int = -1

    def gather(self, rows: pa.RecordBatch) -> None:
        span = pc.min_max(rows.column("offset")).as_py()
        known = span["min"] if self.first_offset is None else self.first_offset
        self.first_offset = min(known, span["min"])
        self.last_offset = max(self.last_offset, span["max"])
        self.gathered.append(rows)
        self.gathered_rows += rows.num_rows
        self.gathered_bytes += rows.nbytes

    def flush(self) -> None:
        if self.gathered:
            self.writer.write_table(pa.Table.from_batches(self.gathered), row_group_size=GROUP_ROWS)
        self.gathered = []
        self.gathered_rows = self.gathered_bytes = 0


class _TableWriter:
    """Writes one task's rows of one table."""

    def __init__(self, plan: WritePlan, table: str, task: int) -> None:
        self._plan = plan
        self._table = table
        self._schema = plan.schemas[table]
        self._task = task
        self._filesystem: fs.FileSystem | None = None
        self._lake = ""
        self._open: OrderedDict[tuple[str, str], _OpenFile] = OrderedDict()
        self._begun = 0
        self._done: list[DataFile] = []

    def add(self, rows: pa.RecordBatch) -> None:
        for (queue, hour), part in _by_partition(rows):
            file = self._file_of(queue, hour)
            file.gather(fitted(part, self._schema))
            if file.gathered_rows >= GROUP_ROWS or file.gathered_bytes >= GROUP_BYTES:
                file.flush()
        while sum(file.gathered_bytes for file in self._open.values()) > GATHERED_BYTES_MAX:
            max(self._open.values(), key=lambda file: file.gathered_bytes).flush()

    def finish(self) -> list[DataFile]:
        while self._open:
            self._close_oldest()
        return self._done

    def _file_of(self, queue: str, hour: str) -> _OpenFile:
        key = (queue, hour)
        if key not in self._open:
            if len(self._open) == FILES_OPEN_MAX:
                self._close_oldest()
            self._open[key] = self._begin(queue, hour)
        self._open.move_to_end(key)
        return self._open[key]

    def _begin(self, queue: str, hour: str) -> _OpenFile:
        if self._filesystem is None:
            self._filesystem, self._lake = self._plan.lake.open()
        name = f"{self._plan.name}-{self._task:05d}-{self._begun:03d}"
        self._begun += 1
        below = partition_path(queue, hour)
        unique = uuid.uuid4().hex[:12]
        if self._plan.is_repeatable:
            path = f"{below}/{name}.parquet"
            draft = f"{STAGING}/{self._table}/{self._plan.name}/{unique}.parquet"
        else:
            path = f"{below}/{name}-{unique}.parquet"
            draft = f"{self._table}/{path}"
        stream = self._create(draft)
        footers: list[pq.FileMetaData] = []
        leaves = _leaves(self._schema)
        writer = pq.ParquetWriter(
            stream,
            self._schema,
            compression=_codec(self._plan.compression),
            use_dictionary=[name for name in leaves if name not in _PLAIN],
            write_statistics=[name for name in leaves if name not in _WITHOUT_STATISTICS],
            metadata_collector=footers,
        )
        return _OpenFile(queue, hour, draft, path, stream, writer, footers)

    def _close_oldest(self) -> None:
        _, file = self._open.popitem(last=False)
        file.flush()
        file.writer.close()
        size = file.stream.tell()
        file.stream.close()
        footer = file.footers[0]
        final = f"{self._table}/{file.path}"
        if file.draft != final:
            self._move(file.draft, final)
        assert file.first_offset is not None, "a file is begun for rows"
        done = DataFile(
            self._table, file.path, size, footer.num_rows, file.queue, file.hour,
            file.first_offset, file.last_offset, delta_statistics(footer),
        )  # fmt: skip
        self._done.append(done)

    def _create(self, path: str) -> Any:
        assert self._filesystem is not None, "it is open by now"
        self._filesystem.create_dir(f"{self._lake}/{path.rpartition('/')[0]}", recursive=True)
        return self._filesystem.open_output_stream(f"{self._lake}/{path}")

    def _move(self, source: str, target: str) -> None:
        assert self._filesystem is not None, "it is open by now"
        self._filesystem.create_dir(f"{self._lake}/{target.rpartition('/')[0]}", recursive=True)
        self._filesystem.move(f"{self._lake}/{source}", f"{self._lake}/{target}")


def _by_partition(rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, str], pa.RecordBatch]]:
    """Yield the rows of each queue and hour, in UTC, in the order that they have."""
    queues, moments = rows.column(QUEUE), rows.column("timestamp")
    if queues.null_count or moments.null_count:
        raise WarrenError("a row has no queue or no timestamp, so it belongs to no partition")
    hours = pc.floor_temporal(moments.cast(pa.timestamp("us", "UTC")), unit="hour")
    keys = pa.table({QUEUE: queues, HOUR: hours.cast(pa.int64())})
    found = keys.group_by([QUEUE, HOUR], use_threads=False).aggregate([]).to_pylist()
    for key in found:
        hour = datetime.fromtimestamp(key[HOUR] // 1_000_000, UTC).strftime(HOUR_FORMAT)
        part = rows
        if len(found) > 1:
            is_here = pc.and_(
                pc.equal(queues, key[QUEUE]), pc.equal(keys[HOUR].combine_chunks(), key[HOUR])
            )
            part = rows.filter(is_here)
        yield (key[QUEUE], hour), part


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of the table, with its types: Spark has other time zones and nulls."""
    arrays = []
    for column in schema:
        if column.name not in rows.schema.names:
            arrays.append(pa.nulls(rows.num_rows, column.type))
            continue
        array = rows.column(column.name)
        arrays.append(array if array.type == column.type else array.cast(column.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _leaves(schema: pa.Schema) -> list[str]:
    """Return Parquet's names of the columns, those within structures, maps and lists included."""
    found: list[str] = []

    def visit(path: str, kind: pa.DataType) -> None:
        if pa.types.is_struct(kind):
            for child in kind:
                visit(f"{path}.{child.name}", child.type)
        elif pa.types.is_map(kind):
            visit(f"{path}.key_value.key", kind.key_type)
            visit(f"{path}.key_value.value", kind.item_type)
        elif pa.types.is_list(kind):
            visit(f"{path}.list.element", kind.value_type)
        else:
            found.append(path)

    for column in schema:
        visit(column.name, column.type)
    return found


def _codec(name: str) -> str:
    return "none" if name == "uncompressed" else name
