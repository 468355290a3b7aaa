"""What docs/SPARK.md has people run, run as it stands."""

from __future__ import annotations

from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from documents import ROOT, Reader, blocks_of


def test_a_queue_as_a_dataframe_as_the_guide_has_it(
    reader: Reader, spark: SparkSession, channel: BlockingChannel
) -> None:
    blocks = [b for b in blocks_of(ROOT / "docs" / "SPARK.md") if b.language == "python"]
    assert len(blocks) == 6
    try:
        for block in blocks:
            reader.do(block)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
        channel.queue_delete("orders")
