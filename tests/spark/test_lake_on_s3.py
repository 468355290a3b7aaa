"""A lake in a real S3-compatible store: of two commits of one batch it takes one.

`scripts/chaos --ingest --s3` hurts an ingest into such a lake for longer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from lake_world import QUERY, SCHEMA, rows_of, write
from object_store import ObjectStore
from pipeline_chaos.chaos import Chaos
from pipeline_chaos.lake_counts import ENGINES, Count
from pyspark_warren.lake import MESSAGES
from pyspark_warren.lake.delta import Batch, DeltaLakeTable, LakeTakenOver
from pyspark_warren.lake.storage import Storage

ROUNDS: Final = 10
ROWS: Final = 5


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    store = ObjectStore(tmp_path)
    store.start()
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    yield store
    store.stop()


def test_of_two_drivers_that_commit_a_batch_at_the_same_moment_one_is_refused(
    store: ObjectStore,
) -> None:
    storage = Storage.of(store.url("lake"))
    drivers = [DeltaLakeTable.create(storage, MESSAGES, SCHEMA) for _ in range(2)]
    for number in range(ROUNDS):
        assert commit_by_all(drivers, storage, number) == ["refused", "taken"]
    expected = Count(ROUNDS * ROWS, ROUNDS * ROWS)
    assert {name: count(storage.url) for name, count in ENGINES.items()} == dict.fromkeys(
        ENGINES, expected
    )


def commit_by_all(drivers: list[DeltaLakeTable], storage: Storage, number: int) -> list[str]:
    """Each finds the batch missing before any of them commits it."""
    batch = Batch(QUERY, number)
    rows = rows_of(range(number * ROWS, (number + 1) * ROWS))
    together = threading.Barrier(len(drivers))
    outcomes: list[str] = []

    def drive(table: DeltaLakeTable) -> None:
        is_in = table.has(batch)
        files = write(storage, rows, batch)
        together.wait()
        assert not is_in, "it is missing until both have looked"
        try:
            table.commit(batch, files)
            outcomes.append("taken")
        except LakeTakenOver:
            outcomes.append("refused")

    threads = [threading.Thread(target=drive, args=(table,)) for table in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(outcomes)


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[Chaos]:
    chaos = Chaos(tmp_path, seed=1, on_store=True)
    yield chaos
    chaos.publisher.stop()
    chaos.end()


def test_a_lake_on_s3_has_each_message_once_after_kill_9_of_driver_and_upkeep(
    chaos: Chaos,
) -> None:
    """Readers go on meanwhile, and count it in the end: delta-rs, DuckDB, polars and Spark."""
    chaos.begin()
    chaos.harm("driver")
    chaos.harm("upkeep")
    chaos.check()
    assert set(chaos.readers.did) == set(ENGINES)
