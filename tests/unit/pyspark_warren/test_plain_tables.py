"""A lake's plain Parquet files: each row of a batch that is done is there once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from lake_world import QUERY, SCHEMA, row_of, rows_of, take, write
from pyspark_warren.lake import MESSAGES
from pyspark_warren.lake.delta import Batch
from pyspark_warren.lake.opening import LakeFormat, OtherLayout
from pyspark_warren.lake.plain import PlainTable
from pyspark_warren.lake.schemas import SchemaDiffers
from pyspark_warren.lake.storage import Storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.of(str(tmp_path))


def files_in(storage: Storage) -> list[Path]:
    return sorted(Path(storage.below(MESSAGES).url).rglob("*.parquet"))


def offsets_in(storage: Storage) -> Counter[int]:
    """Return the offsets as a reader finds them that only lists the folder."""
    files = files_in(storage)
    return Counter(n for f in files for n in pq.ParquetFile(f).read()["offset"].to_pylist())


def test_a_batch_that_is_run_again_replaces_its_files(storage: Storage) -> None:
    """Killed before the batch was recorded: the next driver splits its rows otherwise."""
    take(PlainTable(storage, MESSAGES), storage, 0, rows_of(range(4)))
    killed = PlainTable(storage, MESSAGES)
    batch = Batch(QUERY, 1)
    assert not killed.has(batch)
    rows = [*rows_of(range(4, 8)), row_of(8, "another")]
    assert len(write(storage, rows, batch, is_plain=True)) == 2
    table = PlainTable(storage, MESSAGES)
    assert take(table, storage, 1, rows_of(range(4, 8)))
    assert not take(table, storage, 1, rows_of(range(4, 8)))
    assert offsets_in(storage) == Counter(range(8))
    assert (table.newest_batch(QUERY), table.rows_of(QUERY)) == (1, 8)


def test_a_batch_that_failed_in_this_run_is_run_again(storage: Storage) -> None:
    table = PlainTable(storage, MESSAGES)
    for number in range(2):
        assert take(table, storage, number, rows_of(range(2 * number, 2 * number + 2)))
    batch = Batch(QUERY, 2)
    assert not table.has(batch)
    write(storage, rows_of(range(4, 6)), batch, is_plain=True)  # and the driver's query failed
    assert take(table, storage, 2, rows_of(range(4, 6)))
    assert offsets_in(storage) == Counter(range(6))


def test_a_second_try_of_a_task_replaces_the_first(storage: Storage) -> None:
    batch = Batch(QUERY, 0)
    for _ in range(2):
        write(storage, rows_of(range(3)), batch, is_plain=True)
    assert offsets_in(storage) == Counter(range(3))


def test_a_folder_has_nothing_but_parquet_and_polars_reads_it(storage: Storage) -> None:
    table = PlainTable(storage, MESSAGES)
    for number in range(2):
        rows = [row_of(number, queue) for queue in ("a/b c=%", "ü")]
        take(table, storage, number, rows)
    root = Path(storage.below(MESSAGES).url)
    assert {path.suffix for path in root.rglob("*") if path.is_file()} == {".parquet"}
    rows = pl.read_parquet(root, hive_partitioning=True)
    assert sorted(zip(rows["queue"], rows["offset"], strict=True)) == [
        ("a/b c=%", 0), ("a/b c=%", 1), ("ü", 0), ("ü", 1),
    ]  # fmt: skip
    assert {(file.queue, file.first_offset) for file in table.files()} == {
        (queue, number) for queue in ("a/b c=%", "ü") for number in range(2)
    }


def test_other_columns_and_the_other_format_are_refused(storage: Storage) -> None:
    take(PlainTable(storage, MESSAGES), storage, 0, rows_of(range(2)))
    fewer = SCHEMA.remove(SCHEMA.get_field_index("body"))
    with pytest.raises(SchemaDiffers, match="missing here: body"):
        LakeFormat(storage, "parquet").open(MESSAGES, fewer)
    with pytest.raises(OtherLayout, match="give --table-format parquet"):
        LakeFormat(storage).open(MESSAGES, SCHEMA)
