"""What the README says about Spark, run as it stands."""

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


def test_a_queue_in_spark_as_the_readme_has_it(
    reader: Reader, spark: SparkSession, channel: BlockingChannel
) -> None:
    for block in blocks_of(ROOT / "README.md"):
        if block.section == "Five minutes to a queue in Spark":
            reader.do(block)
    assert reader.names["clicks"].count() == 1000
    assert channel.queue_delete("clicks")
