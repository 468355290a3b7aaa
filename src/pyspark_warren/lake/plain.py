"""A table of plain Parquet files: append-only, and readable by whatever lists a folder.

There is no log that says which files count, so this promises less than a Delta table does:

- Once a batch is done, each of its rows is in the table once, and stays so. A batch that is run
  again replaces its own files: their names have the query and the number of the batch, and what an
  earlier try has left is deleted first. A record of the newest batch is written last, to `_batches`
  beside the tables; a batch that it has is not run again.
- A file appears as a whole: it is written to `_staging` beside the tables and then moved. On
  an object store a move is a copy and a deletion, and the copy appears as a whole.
- While a batch is under way, and after a kill until the job runs again, readers may see a part of
  its rows. A batch that is run again takes its files away and brings them back.
- Two drivers at a time are not noticed, files are never put together, and nothing is removed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pyspark_warren.lake import HOUR, PARTITION_COLUMNS, QUEUE, STAGING
from pyspark_warren.lake.data_files import DataFile
from pyspark_warren.lake.schemas import normal_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark_warren.lake.delta import Batch
    from pyspark_warren.lake.storage import Storage

BATCHES: Final = "_batches"
_SUFFIX: Final = ".parquet"


@dataclass(frozen=True, slots=True)
class _Record:
    """The newest batch of a query that is done."""

    batch: int
    rows: int


class PlainTable:
    """One table, for one job at a time."""

    def __init__(self, storage: Storage, name: str) -> None:
        self.name = name
        self._filesystem, self._lake = storage.open()
        self._root = f"{self._lake}/{name}"
        self._batches = f"{self._lake}/{BATCHES}/{name}"
        self._tried: Batch | None = None

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the newest file, with those of the partition; None if there is none."""
        found = list(self._parts())
        if not found:
            return None
        newest = max(found, key=lambda info: info.mtime_ns or 0)
        with self._filesystem.open_input_file(newest.path) as file:
            schema = normal_schema(pq.read_schema(file))
        return pa.schema([*schema, *((name, pa.string()) for name in PARTITION_COLUMNS)])

    def newest_batch(self, query: str) -> int | None:
        record = self._record(query)
        return None if record is None else record.batch

    def rows_of(self, query: str) -> int:
        record = self._record(query)
        return 0 if record is None else record.rows

    def has(self, batch: Batch) -> bool:
        """If the table lacks the batch, take away what an earlier try has left of it."""
        newest = self.newest_batch(batch.query)
        if newest is not None and newest >= batch.number:
            return True
        self._forget(batch)
        return False

    def commit(self, batch: Batch, files: Sequence[DataFile]) -> None:
        """Record the batch: its files are in place already."""
        rows = self.rows_of(batch.query) + sum(file.rows for file in files)
        self._write(batch.query, _Record(batch.number, rows))

    def files(self) -> list[DataFile]:
        return [self._file(info) for info in self._parts()]

    def _forget(self, batch: Batch) -> None:
        # Listing the table takes long. Only a batch that was tried before has files: the first one
        # of this run, perhaps, and one that has failed in this run.
        was_tried = self._tried is None or self._tried == batch
        self._tried = batch
        if not was_tried:
            return
        prefix = batch_prefix(batch)
        for info in self._parts():
            if info.base_name.startswith(f"{prefix}-"):
                self._filesystem.delete_file(info.path)
        staging = f"{self._lake}/{STAGING}/{self.name}/{prefix}"
        if self._is_there(staging):
            self._filesystem.delete_dir(staging)

    def _is_there(self, path: str) -> bool:
        return bool(self._filesystem.get_file_info(path).type != fs.FileType.NotFound)

    def _parts(self) -> Iterator[fs.FileInfo]:
        chosen = fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        for info in self._filesystem.get_file_info(chosen):
            if info.path.endswith(_SUFFIX):
                yield info

    def _file(self, info: fs.FileInfo) -> DataFile:
        below = info.path.removeprefix(self._root).lstrip("/")
        partition = dict(part.split("=", 1) for part in below.split("/")[:-1])
        with self._filesystem.open_input_file(info.path) as file:
            footer = pq.read_metadata(file)
        first, last = _span(footer)
        return DataFile(
            self.name, below, info.size, footer.num_rows, unquote(partition[QUEUE]),
            unquote(partition[HOUR]), first, last,
        )  # fmt: skip

    def _record(self, query: str) -> _Record | None:
        path = f"{self._batches}/{query}.json"
        if not self._is_there(path):
            return None
        with self._filesystem.open_input_stream(path) as stream:
            return _Record(**json.loads(stream.read()))

    def _write(self, query: str, record: _Record) -> None:
        """Replace the record in one step, whenever this process ends."""
        self._filesystem.create_dir(self._batches, recursive=True)
        draft = f"{self._batches}/.{query}.draft"
        with self._filesystem.open_output_stream(draft) as stream:
            stream.write(json.dumps(asdict(record)).encode())
        self._filesystem.move(draft, f"{self._batches}/{query}.json")


def batch_prefix(batch: Batch) -> str:
    """Return how the names of a batch's files begin."""
    return f"{batch.query[:8]}-{batch.number:010d}"


def _span(footer: pq.FileMetaData) -> tuple[int, int]:
    names = [footer.schema.column(number).path for number in range(footer.num_columns)]
    column = names.index("offset")
    found = [
        footer.row_group(group).column(column).statistics for group in range(footer.num_row_groups)
    ]
    return min(each.min for each in found), max(each.max for each in found)
