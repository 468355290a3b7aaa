"""Batches on their way into a lake, without Spark: those that come too late, or too early."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lake_world import QUERY, SCHEMA, new_table, rows_of, take
from pyspark_warren.errors import WarrenError
from pyspark_warren.lake import MESSAGES
from pyspark_warren.lake.batches import BatchWriter, LakeBehind
from pyspark_warren.lake.delta import Batch
from pyspark_warren.lake.opening import LakeFormat
from pyspark_warren.lake.upkeep import Upkeep


@pytest.fixture
def writer(tmp_path: Path) -> BatchWriter:
    _, storage = new_table(tmp_path)
    lake = LakeFormat(storage, retention_s=100)
    return BatchWriter(lake, {MESSAGES: SCHEMA}, "checkpoint", upkeep=Upkeep(storage))


def test_a_batch_that_a_vacuum_may_have_met_is_refused(writer: BatchWriter) -> None:
    writer._check_age(7, 49)
    with pytest.raises(WarrenError, match=r"batch 7 took 51 s .* for 100 s: nothing of it was"):
        writer._check_age(7, 51)


def test_a_batch_behind_a_gap_is_refused(writer: BatchWriter) -> None:
    table, schema = writer.lake.open(MESSAGES, SCHEMA)
    writer._tables[MESSAGES] = table
    assert schema == SCHEMA
    writer._check_order(Batch(QUERY, 0))
    with pytest.raises(LakeBehind, match=r"says that 1 batches are in the lake, and .* has none"):
        writer._check_order(Batch(QUERY, 1))
    take(table, writer.lake.storage, 0, rows_of(range(2)))
    writer._check_order(Batch(QUERY, 1))
    with pytest.raises(LakeBehind, match="has those up to 0"):
        writer._check_order(Batch(QUERY, 2))


def test_a_writer_is_sent_to_the_server_of_spark_connect(writer: BatchWriter) -> None:
    again = pickle.loads(pickle.dumps(writer))
    assert again.lake == writer.lake
    assert again.schemas == writer.schemas
