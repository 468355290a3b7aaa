"""What docs/SPARK.md has people run, run as it stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from broker_process import BrokerProcess
from documents import ROOT, Reader, blocks_of


@pytest.fixture
def reader(tmp_path: Path, broker: BrokerProcess) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    reader.ports = {"5672": broker.address.port, "15672": broker.http_port}
    yield reader
    reader.close()


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
