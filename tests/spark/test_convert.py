"""`warren pipeline convert`: a lake of the old layout goes on as one of Delta tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from lake_tables import offsets_in, table_in
from pyspark_warren.errors import InvalidOption, WarrenError
from pyspark_warren.jobs import ConvertOptions, IngestOptions, convert, ingest
from pyspark_warren.lake import QUARANTINE
from spark.old_lake import OldIngest

SCHEMA = "id BIGINT NOT NULL, at TIMESTAMP"


def publish(channel: BlockingChannel, queue: str, numbers: range) -> None:
    for number in numbers:
        body = b'{"id": %d, "at": "2026-08-01T12:00:00Z"}' % number if number % 10 else b"what?"
        channel.basic_publish("", queue, body)


@pytest.fixture
def old(
    spark: SparkSession, channel: BlockingChannel, stream: str, http_url: str, tmp_path: Path
) -> OldIngest:
    """A lake with two batches in place, and a third that is committed and not moved."""
    publish(channel, stream, range(30))
    old = OldIngest(spark, tmp_path / "lake", http_url, stream, SCHEMA, dies_at_batch=2)
    with pytest.raises(StreamingQueryException):
        old.run()
    return old


def test_a_lake_is_converted_and_its_ingest_goes_on_where_it_was(
    spark: SparkSession, channel: BlockingChannel, old: OldIngest
) -> None:
    """Spark does not know that batch 2 was done, so it runs it again: it must not come twice."""
    publish(channel, old.queue, range(30, 45))
    lake = str(old.root)
    options = IngestOptions(
        url=old.url, queue=old.queue, lake=lake, format="json", schema=SCHEMA, once=True,
        offsets_max=10,
    )  # fmt: skip
    with pytest.raises(WarrenError, match="warren pipeline convert --lake"):
        ingest(spark, options)
    assert convert(spark, ConvertOptions(lake=lake)).rows == {"messages": 27, "quarantine": 3}
    assert offsets_in(lake) == [number for number in range(30) if number % 10]
    done = ingest(spark, options)
    assert (done.messages, done.quarantined) == (13, 2)
    rows = table_in(lake)
    assert rows["offset"].to_pylist() == [number for number in range(45) if number % 10]
    assert [body["id"] for body in rows["body"].to_pylist()] == rows["offset"].to_pylist()
    assert {f"{body['at']:%Y-%m-%dT%H:%M}" for body in rows["body"].to_pylist()} == {
        "2026-08-01T12:00"
    }
    assert offsets_in(lake, QUARANTINE) == list(range(0, 45, 10))
    leftovers = [path for path in old.root.rglob("*") if path.name.startswith("_commits")]
    assert leftovers == []
    with pytest.raises(InvalidOption, match="converted already"):
        convert(spark, ConvertOptions(lake=lake))


def test_a_conversion_that_was_killed_is_run_again(
    spark: SparkSession, old: OldIngest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed when both tables are committed and some old files are deleted."""
    from pyspark_warren.lake.old_layout import OldLayout

    remove = OldLayout.remove

    def die(self: OldLayout, paths: list[str]) -> None:
        self._delete(paths[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(OldLayout, "remove", die)
    options = ConvertOptions(lake=str(old.root))
    with pytest.raises(KeyboardInterrupt):
        convert(spark, options)
    monkeypatch.setattr(OldLayout, "remove", remove)
    assert convert(spark, options).rows["messages"] == 27
    assert offsets_in(old.root) == [number for number in range(30) if number % 10]
