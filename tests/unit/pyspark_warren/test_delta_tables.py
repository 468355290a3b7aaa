"""A lake's Delta tables: each batch once, whoever commits it and however often."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lake_tables import offsets_in, table_in
from lake_world import QUERY, SCHEMA, new_table, row_of, rows_of, take, write
from pyspark_warren.errors import WarrenError
from pyspark_warren.lake import MESSAGES
from pyspark_warren.lake.delta import (
    CHECKPOINT_COMMITS,
    Batch,
    DeltaLakeTable,
    ForeignCheckpoint,
    LakeTakenOver,
)
from pyspark_warren.lake.opening import LakeFormat, OtherLayout, find_table
from pyspark_warren.lake.plain import PlainTable
from pyspark_warren.lake.schemas import SchemaDiffers
from pyspark_warren.lake.storage import Storage
from pyspark_warren.lake.upkeep import Upkeep, compact, vacuum

ODD_NAMES = [
    "a/b c=%", "a%2Fb", "ü{}[]", "x?y#z&'\"", "..", "trailing ", "12", ".dot", "_under", "A", "a",
    "a:b*c\\d", "new\nline",
]  # fmt: skip


def opened(storage: Storage) -> DeltaLakeTable:
    table = DeltaLakeTable.open(storage, MESSAGES)
    assert table is not None
    return table


def with_arrow(path: str) -> pa.Table:
    return DeltaTable(path).to_pyarrow_dataset().to_table()


def with_polars(path: str) -> pa.Table:
    return pl.scan_delta(path).collect().to_arrow()


def with_duckdb(path: str) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("rows", DeltaTable(path).to_pyarrow_dataset())
        return connection.sql("SELECT * FROM rows").to_arrow_table()


def with_pandas(path: str) -> pa.Table:
    return pa.Table.from_pandas(DeltaTable(path).to_pandas())


READERS: list[Callable[[str], pa.Table]] = [with_arrow, with_polars, with_duckdb, with_pandas]


def test_a_batch_that_is_run_again_is_in_the_table_once(tmp_path: Path) -> None:
    table, storage = new_table(tmp_path)
    assert take(table, storage, 0, rows_of(range(10)))
    assert not take(table, storage, 0, rows_of(range(10)))
    assert not take(opened(storage), storage, 0, rows_of(range(10)))
    assert take(opened(storage), storage, 1, rows_of(range(10, 20)))
    assert not take(table, storage, 1, rows_of(range(10, 20)))
    assert offsets_in(tmp_path) == list(range(20))
    assert (table.newest_batch(QUERY), table.rows_of(QUERY)) == (1, 20)


@pytest.mark.parametrize("others", [1, 3, 2 * CHECKPOINT_COMMITS + 1])
def test_a_driver_that_was_taken_for_dead_is_refused(tmp_path: Path, others: int) -> None:
    """It has found its batch missing, written it, and then slept while another driver went on."""
    table, storage = new_table(tmp_path, retention_s=1)
    sleeper = opened(storage)
    batch = Batch(QUERY, 0)
    assert not sleeper.has(batch)
    files = write(storage, rows_of(range(2)), batch)
    for number in range(others):
        assert take(table, storage, number, rows_of(range(2 * number, 2 * number + 2)))
    with pytest.raises(LakeTakenOver, match=r"batch 0 of query .* two jobs run with one"):
        sleeper.commit(batch, files)
    assert offsets_in(tmp_path) == list(range(2 * others))


def test_the_batch_of_a_lost_answer_is_known_to_be_in(tmp_path: Path) -> None:
    """The store has taken a commit and the driver was told that it failed: it looks who it was."""
    table, storage = new_table(tmp_path)
    batch = Batch(QUERY, 0)
    assert not table.has(batch)
    files = write(storage, rows_of(range(2)), batch)
    commit, tries = table._commit, []

    def commit_twice(batch: Batch, files: list[object], commit_id: str) -> None:
        tries.append(commit_id)
        commit(batch, files, commit_id)  # type: ignore[arg-type]
        commit(batch, files, commit_id)  # type: ignore[arg-type]

    table._commit = commit_twice  # type: ignore[assignment, method-assign]
    table.commit(batch, files)
    assert len(tries) == 1
    assert offsets_in(tmp_path) == [0, 1]


def test_what_another_checkpoint_has_brought_is_refused_and_what_follows_it_is_not(
    tmp_path: Path,
) -> None:
    table, storage = new_table(tmp_path)
    take(table, storage, 0, rows_of(range(10)))
    other = Batch("another query", 0)
    assert not table.has(other)
    with pytest.raises(ForeignCheckpoint, match="'q' up to offset 9, and this batch begins at 9"):
        table.commit(other, write(storage, rows_of(range(9, 12)), other))
    table.commit(other, write(storage, rows_of(range(10, 12)), other))
    assert offsets_in(tmp_path) == list(range(12))


def test_a_stream_that_was_declared_again_is_taken_if_that_is_allowed(tmp_path: Path) -> None:
    table, storage = new_table(tmp_path)
    take(table, storage, 0, rows_of(range(10)))
    again = Batch(QUERY, 1, may_go_back=True)
    assert not table.has(again)
    table.commit(again, write(storage, rows_of(range(3)), again))
    assert len(offsets_in(tmp_path)) == 13


def test_queues_of_any_name_are_read_back_before_and_after_compaction(tmp_path: Path) -> None:
    table, storage = new_table(tmp_path, retention_s=1)
    for number in range(2):
        rows = [row_of(number, queue) for queue in ODD_NAMES]
        assert take(table, storage, number, rows)
    expected = {(queue, number) for queue in ODD_NAMES for number in range(2)}

    def check() -> None:
        for read in READERS:
            found = read(f"{tmp_path}/{MESSAGES}")
            rows = zip(found["queue"].to_pylist(), found["offset"].to_pylist(), strict=True)
            assert sorted(rows) == sorted(expected), read.__name__
        files = opened(storage).files()
        assert {file.queue for file in files} == set(ODD_NAMES)
        assert all((tmp_path / MESSAGES / file.path).is_file() for file in files)

    check()
    assert compact(table, files_min=2) == 2 * len(ODD_NAMES)
    check()
    time.sleep(1.5)
    vacuum(opened(storage), is_full=True)
    check()
    assert len(list((tmp_path / MESSAGES).rglob("queue=*/**/*.parquet"))) == len(ODD_NAMES)


def test_rows_with_like_values_are_brought_together(tmp_path: Path) -> None:
    table, storage = new_table(tmp_path)
    for number in range(3):
        take(table, storage, number, rows_of(range(6 * number, 6 * number + 6)))
    assert compact(table, files_min=3, z_order=("routing_key",)) == 3
    (file,) = table.files()
    keys = pq.ParquetFile(tmp_path / MESSAGES / file.path).read()["routing_key"].to_pylist()
    assert keys == [f"key.{number}" for number in range(3) for _ in range(6)]


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4", "uncompressed"])
def test_files_are_put_together_in_the_compression_that_they_had(
    tmp_path: Path, codec: str
) -> None:
    table, storage = new_table(tmp_path)
    for number in range(2):
        take(table, storage, number, rows_of(range(2 * number, 2 * number + 2)), codec)
    before = codecs_in(table, tmp_path)
    assert compact(table, files_min=2, compression=codec) == 2
    after = codecs_in(table, tmp_path)
    assert len(before) == 1
    assert after == before
    assert offsets_in(tmp_path) == list(range(4))


def codecs_in(table: DeltaLakeTable, lake: Path) -> set[str]:
    paths = [lake / MESSAGES / file.path for file in table.files()]
    return {pq.read_metadata(path).row_group(0).column(0).compression for path in paths}


def test_a_queue_whose_folder_no_file_system_takes_is_refused(tmp_path: Path) -> None:
    _, storage = new_table(tmp_path)
    with pytest.raises(WarrenError, match="file systems take 255"):
        write(storage, [row_of(0, "ü" * 60)], Batch(QUERY, 0))


def test_files_of_killed_tasks_go_with_a_full_vacuum_and_no_others(tmp_path: Path) -> None:
    table, storage = new_table(tmp_path, retention_s=1)
    take(table, storage, 0, rows_of(range(5)))
    write(storage, rows_of(range(5, 9)), Batch(QUERY, 1))  # and killed
    orphans = set((tmp_path / MESSAGES).rglob("queue=*/**/*.parquet"))
    assert len(orphans) == 2
    time.sleep(1.5)
    vacuum(table)
    assert set((tmp_path / MESSAGES).rglob("queue=*/**/*.parquet")) == orphans
    vacuum(table, is_full=True)
    assert len(list((tmp_path / MESSAGES).rglob("queue=*/**/*.parquet"))) == 1
    assert offsets_in(tmp_path) == list(range(5))


def test_readers_see_whole_batches_while_files_are_put_together(tmp_path: Path) -> None:
    """Appends, compactions and readers at once: counts never shrink, and nothing fails."""
    _, storage = new_table(tmp_path)
    rows, batches = 20, 30
    stopped = threading.Event()
    failures: list[BaseException] = []
    counts: list[int] = []

    def until_stopped(action: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                while not stopped.is_set():
                    action()
            except BaseException as error:  # noqa: BLE001 - shown by the assertion below
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def look() -> None:
        offsets = with_arrow(f"{tmp_path}/{MESSAGES}")["offset"]
        assert len(offsets) == pc.count_distinct(offsets).as_py()
        counts.append(len(offsets))

    upkeep = Upkeep(storage, files_min=4)
    threads = [until_stopped(look), until_stopped(upkeep.run)]
    writer = opened(storage)
    try:
        for number in range(batches):
            offsets = range(number * rows, (number + 1) * rows)
            assert take(writer, storage, number, rows_of(offsets))
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert counts == sorted(counts)
    assert all(count % rows == 0 for count in counts)
    upkeep.finish()
    assert offsets_in(tmp_path) == list(range(rows * batches))
    assert len(opened(storage).files()) < batches


def test_transactions_outlive_checkpoints_and_the_cleaning_of_the_log(tmp_path: Path) -> None:
    table, storage = new_table(tmp_path, retention_s=1)
    log = tmp_path / MESSAGES / "_delta_log"
    for number in range(CHECKPOINT_COMMITS + 1):
        take(table, storage, number, rows_of(range(number, number + 1)))
    time.sleep(1.5)
    for number in range(CHECKPOINT_COMMITS + 1, 2 * CHECKPOINT_COMMITS + 2):
        take(table, storage, number, rows_of(range(number, number + 1)))
    table.raw.cleanup_metadata()
    assert not (log / f"{0:020d}.json").exists()
    fresh = opened(storage)
    assert fresh.newest_batch(QUERY) == 2 * CHECKPOINT_COMMITS + 1
    assert not take(fresh, storage, 0, rows_of(range(1)))
    with pytest.raises(ForeignCheckpoint):
        fresh.commit(Batch("another", 0), write(storage, rows_of(range(1)), Batch("another", 0)))


def test_statistics_are_those_of_the_rows(tmp_path: Path) -> None:
    table, storage = new_table(tmp_path)
    take(table, storage, 0, rows_of(range(5, 9)))
    (found,) = pa.table(DeltaTable(tmp_path / MESSAGES).get_add_actions(flatten=True)).to_pylist()
    first, last = row_of(5), row_of(8)
    assert (found["num_records"], found["min.offset"], found["max.offset"]) == (4, 5, 8)
    assert (found["min.timestamp"], found["max.timestamp"]) == (
        first["timestamp"], last["timestamp"],
    )  # fmt: skip
    assert (found["min.routing_key"], found["max.routing_key"]) == ("key.0", "key.2")
    assert (found["min.body.id"], found["max.body.id"]) == (5, 8)
    assert (found["null_count.offset"], found["null_count.routing_key"]) == (0, 0)
    rows = DeltaTable(tmp_path / MESSAGES).to_pyarrow_dataset()
    assert rows.count_rows(filter=pc.field("offset") == 7) == 1
    later = pc.field("timestamp") > last["timestamp"]
    assert rows.count_rows(filter=later) == 0


# Schemas


def changed_schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list({**{c.name: c.type for c in SCHEMA}, **columns}.items()))


WIDER_BODY = pa.struct([("id", pa.int64()), ("total", pa.float64())])


def test_new_columns_are_refused_with_what_differs_or_merged(tmp_path: Path) -> None:
    table, storage = new_table(tmp_path)
    take(table, storage, 0, rows_of(range(2)))
    wider = changed_schema(body=WIDER_BODY, extra=pa.string())
    with pytest.raises(SchemaDiffers, match=r"new here: body.total double, extra string\. With"):
        LakeFormat(storage).open(MESSAGES, wider)
    merging = LakeFormat(storage, schema_evolution="merge")
    merged, schema = merging.open(MESSAGES, wider)
    batch = Batch(QUERY, 1)
    assert not merged.has(batch)
    rows = [{**row_of(2), "body": {"id": 2, "total": 0.5}, "extra": "e"}]
    merged.commit(batch, write(storage, rows, batch, schema))
    # A job that does not have the new columns writes null there.
    again, schema = merging.open(MESSAGES, SCHEMA)
    batch = Batch(QUERY, 2)
    assert not again.has(batch)
    again.commit(batch, write(storage, rows_of(range(3, 4)), batch, schema))
    for compacted in (False, True):
        if compacted:
            assert compact(opened(storage), files_min=2) == 3
        for read in READERS:
            found = read(f"{tmp_path}/{MESSAGES}").sort_by("offset")
            bodies = [dict(body) for body in found["body"].to_pylist()]
            assert [body["id"] for body in bodies] == [0, 1, 2, 3], read.__name__
            assert [body["total"] for body in bodies] == [None, None, 0.5, None], read.__name__
            assert found["extra"].to_pylist() == [None, None, "e", None], read.__name__


def test_missing_columns_are_refused_unless_merged_and_types_are_never_changed(
    tmp_path: Path,
) -> None:
    _, storage = new_table(tmp_path)
    fewer = pa.schema([column for column in SCHEMA if column.name != "body"])
    with pytest.raises(SchemaDiffers, match="missing here: body"):
        LakeFormat(storage).open(MESSAGES, fewer)
    other = changed_schema(body=pa.struct([("id", pa.string())]))
    for evolution in ("refuse", "merge"):
        with pytest.raises(SchemaDiffers, match=r"body.id is string here and int64 in the table"):
            LakeFormat(storage, schema_evolution=evolution).open(MESSAGES, other)  # type: ignore[arg-type]


def test_a_lake_is_not_taken_for_one_of_another_format(tmp_path: Path) -> None:
    _, storage = new_table(tmp_path)
    with pytest.raises(OtherLayout, match="is a Delta table: leave out --table-format"):
        LakeFormat(storage, "parquet").open(MESSAGES, SCHEMA)
    old = tmp_path / "old"
    (old / "_commits").mkdir(parents=True)
    with pytest.raises(OtherLayout, match="warren pipeline convert --lake"):
        LakeFormat(Storage.of(str(old))).open(MESSAGES, SCHEMA)


def test_a_table_of_somebody_else_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / MESSAGES, SCHEMA, partition_by=["queue"])
    with pytest.raises(OtherLayout, match="is a Delta table by queue, and a lake's are by queue,"):
        LakeFormat(Storage.of(str(tmp_path))).open(MESSAGES, SCHEMA)


def test_a_machine_without_deltalake_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage.of(str(tmp_path))
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(WarrenError, match=r"pip install 'pyspark-warren\[delta\]'"):
        LakeFormat(storage).open(MESSAGES, SCHEMA)
    plain, schema = LakeFormat(storage, "parquet").open(MESSAGES, SCHEMA)
    assert isinstance(plain, PlainTable)
    assert schema == SCHEMA
    assert find_table(storage, MESSAGES) is None


def test_rows_are_sorted_into_their_hours(tmp_path: Path) -> None:
    table, storage = new_table(tmp_path)
    take(table, storage, 0, rows_of(range(0, 3_000, 500)))
    assert [(file.hour, file.rows) for file in sorted(table.files(), key=lambda f: f.hour)] == [
        ("2026-08-01-12", 2), ("2026-08-01-13", 2), ("2026-08-01-14", 2),
    ]  # fmt: skip
    assert set(table_in(tmp_path)["hour"].to_pylist()) == {
        f"2026-08-01-{hour}" for hour in (12, 13, 14)
    }
