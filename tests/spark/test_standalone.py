"""A standalone cluster gives what one machine gives, whichever of its processes are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from lake_tables import table_in
from pipeline_chaos.faults import kill
from pipeline_chaos.ingesting import commits_in
from pipeline_chaos.job_process import wait_until
from pyspark_warren.jobs import IngestOptions, ingest
from spark.standalone_cluster import StandaloneCluster

MESSAGES = 200
BATCH_OFFSETS = 50
ENDS_WITHIN_S = 900


@pytest.fixture
def cluster(tmp_path: Path, spark: SparkSession) -> Iterator[StandaloneCluster]:
    """After the session, which finds Java and Python for this one, too."""
    cluster = StandaloneCluster(tmp_path)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def filled(channel: BlockingChannel, stream: str) -> str:
    for number in range(MESSAGES):
        properties = pika.BasicProperties(
            delivery_mode=2, message_id=str(number), headers={"number": number}
        )
        channel.basic_publish("", stream, os.urandom(number % 50), properties)
    return stream


def rows_of(spark: SparkSession, path: Path) -> list[dict[str, Any]]:
    rows = spark.read.parquet(str(path)).orderBy("offset").collect()
    return [row.asDict(recursive=True) for row in rows]


def rows_in(lake: Path) -> list[dict[str, Any]]:
    return list(table_in(lake).to_pylist())


def test_a_standalone_cluster_that_loses_an_executor_and_a_worker_has_the_same_rows(
    spark: SparkSession, cluster: StandaloneCluster, filled: str, http_url: str, tmp_path: Path
) -> None:
    """The same stream is taken in by the cluster, with kills in the middle, and by one machine."""
    lake = tmp_path / "lake"
    driver = Path(__file__).with_name("standalone_driver.py")
    arguments = [cluster.url, http_url, filled, str(tmp_path), str(BATCH_OFFSETS)]
    log = tmp_path / "driver.log"
    with log.open("wb") as output:
        job = subprocess.Popen([sys.executable, driver, *arguments], stdout=output, stderr=output)
    try:
        wait_until("the first batch is done", lambda: commits_in(lake) > 0 or ended(job))
        kill(cluster.executors()[:1])
        wait_until("the next batch is done", lambda: commits_in(lake) > 1 or ended(job))
        cluster.workers[-1].send_signal(signal.SIGKILL)
        code = job.wait(ENDS_WITHIN_S)
    finally:
        job.kill()
        job.wait()
    assert code == 0, log.read_text()[-4_000:]
    here = tmp_path / "here"
    ingest(spark, IngestOptions(url=http_url, queue=filled, lake=str(here), once=True))
    expected = rows_in(here)
    assert [row["offset"] for row in expected] == list(range(MESSAGES))
    assert rows_in(lake) == expected
    read = spark.read.format("warren").option("url", http_url).option("queue", filled).load()
    expected = [row.asDict(recursive=True) for row in read.orderBy("offset").collect()]
    assert rows_of(spark, tmp_path / "read") == expected


def ended(job: subprocess.Popen[bytes]) -> bool:
    return job.poll() is not None
