"""An ingest whose broker is gone, or whose records are: it says so, and goes on when it can."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from broker_process import BrokerProcess
from lake_tables import offsets_in
from pipeline_chaos.ingesting import commits_in
from pipeline_chaos.job_process import wait_until
from pyspark_warren.errors import WarrenError
from pyspark_warren.jobs import IngestOptions, ingest

PERSISTENT = pika.BasicProperties(delivery_mode=2)
LATER = 60


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path)
    broker.start()
    yield broker
    broker.kill()


def fill(broker: BrokerProcess, queue: str, count: int) -> None:
    parameters = pika.ConnectionParameters(*broker.address, heartbeat=0)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    for _ in range(count):
        channel.basic_publish("", queue, b"body", PERSISTENT)
    connection.close()


def test_records_that_are_gone_end_an_ingest_unless_it_may_go_on_behind_them(
    spark: SparkSession, channel: BlockingChannel, queue: str, http_url: str, tmp_path: Path
) -> None:
    arguments = {
        "x-queue-type": "stream",
        "x-max-length-bytes": 3_000,
        "x-stream-max-segment-size-bytes": 1_000,
    }
    channel.queue_declare(queue, durable=True, arguments=arguments)
    given = {"url": http_url, "queue": queue, "lake": str(tmp_path), "once": True}
    for _ in range(2):
        channel.basic_publish("", queue, b"first", PERSISTENT)
    assert ingest(spark, IngestOptions(**given)).messages == 2
    for _ in range(LATER):
        channel.basic_publish("", queue, b"later" * 20, PERSISTENT)
    with pytest.raises(WarrenError, match=r"were removed before they were read.*failOnDataLoss"):
        ingest(spark, IngestOptions(**given))
    assert offsets_in(tmp_path) == [0, 1]
    ingest(spark, IngestOptions(**given, fail_on_data_loss=False))
    first, second, *later = offsets_in(tmp_path)
    assert (first, second) == (0, 1)
    assert later[0] > 2
    assert later == list(range(later[0], 2 + LATER))


def test_a_broker_that_is_gone_ends_an_ingest_with_the_reason_and_the_next_goes_on(
    spark: SparkSession, mortal: BrokerProcess, tmp_path: Path
) -> None:
    fill(mortal, "lasting", 20)
    lake = tmp_path / "lake"
    url = f"http://127.0.0.1:{mortal.http_port}"
    given = {"url": url, "queue": "lasting", "lake": str(lake)}
    errors: list[WarrenError] = []

    def run() -> None:
        try:
            ingest(spark, IngestOptions(**given, failover_timeout=1, every_s=0))
        except WarrenError as error:
            errors.append(error)

    running = threading.Thread(target=run)
    running.start()
    wait_until("a batch is done", lambda: commits_in(lake) > 0 or not running.is_alive())
    mortal.kill()
    running.join()
    assert f"no answer from {url} in 1 s" in str(errors[0])
    mortal.start()
    fill(mortal, "lasting", 10)
    ingest(spark, IngestOptions(**given, once=True))
    assert offsets_in(lake) == list(range(30))
