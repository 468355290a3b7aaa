"""Exactly once: whatever is killed while a lake is filled, it has each confirmed message once.

`scripts/chaos --ingest` does the same with many more faults, and a process for each start.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipeline_chaos.chaos import Chaos, kill
from pipeline_chaos.ingesting import PATIENCE_S, check_lake, command_line, commits_in, wait_until
from pyspark_warren.errors import WarrenError
from pyspark_warren.jobs import IngestOptions, Watch, ingest


class Ingesting:
    """The job in the session of the tests, which is quicker to start again than a process."""

    def __init__(self, spark: SparkSession, options: IngestOptions) -> None:
        self._spark = spark
        self._options = options
        self._watch = Watch()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._watch.stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the job does not come to an end"

    def _run(self) -> None:
        while not self._watch.is_stopping:
            try:
                ingest(self._spark, self._options, self._watch)
            except (WarrenError, PySparkException):
                continue  # as whoever runs it would


def workers() -> list[int]:
    """Python workers of the session of the tests."""
    machines = [pid for pid in descendants(os.getpid()) if b"java" in command_line(pid)]
    below = [pid for machine in machines for pid in descendants(machine)]
    return [pid for pid in below if b"pyspark.daemon" in command_line(pid)]


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue  # it has ended
        for child in children:
            found += [child, *descendants(child)]
    return found


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[Chaos]:
    chaos = Chaos(tmp_path, seed=1)
    yield chaos
    chaos.publisher.stop()
    chaos.end()


def test_each_message_is_in_the_lake_once_after_kills_of_driver_workers_and_broker(
    spark: SparkSession, chaos: Chaos
) -> None:
    chaos.begin()
    lake = chaos.ingest.lake

    def await_batch() -> None:
        before = commits_in(lake)
        wait_until("another batch", lambda: commits_in(lake) > before)

    await_batch()
    chaos.ingest.send(signal.SIGKILL)
    chaos.ingest.wait()
    url = f"http://127.0.0.1:{chaos.broker.http_port}"
    options = IngestOptions(url=url, queue="numbers", lake=str(lake), every_s=0, compact_files=6)
    job = Ingesting(spark, options)
    try:
        await_batch()
        kill(workers())
        await_batch()
        chaos.broker.kill()
        chaos.broker.start()
        await_batch()
        chaos.publisher.stop()
    finally:
        job.stop()
    last = IngestOptions(url=url, queue="numbers", lake=str(lake), once=True)
    ingest(spark, last)
    check_lake(lake, chaos.publisher.confirmed, chaos.publisher.published)
