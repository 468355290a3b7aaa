"""One Spark session and one broker for all tests of this folder: both are slow to start."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from broker_process import BrokerProcess
from documents import Reader
from pyspark_warren.java import ensure_java
from pyspark_warren.worker_python import use_this_python

# Spark starts several processes for whatever it does; on a busy machine that takes its time.
TIMEOUT_S = 3_000
# Every Java that tests start lives for seconds: compiling what it does as well as can be costs a
# third of all its processor time, and is never paid back.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_here = item.path.is_relative_to(Path(__file__).parent)
        if is_here and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    ensure_java()
    use_this_python()
    # For workers to connect; others may want the processors.
    os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] = "300"
    session = (
        SparkSession.builder.master("local[2]")
        .appName("warren tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "1")
        # One worker process is kept for the next task, instead of one for each.
        .config("spark.python.worker.reuse", "true")
        .config("spark.python.authenticate.socketTimeout", "300s")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("broker"))
    process.start()
    yield process
    process.kill()


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters(*broker.address, heartbeat=0))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


@pytest.fixture
def queue(channel: BlockingChannel) -> Iterator[str]:
    """A name for a queue, which is deleted afterwards if there is one."""
    name = f"spark-{uuid.uuid4().hex[:8]}"
    yield name
    channel.queue_delete(name)


@pytest.fixture
def stream(channel: BlockingChannel, queue: str) -> str:
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream"})
    return queue


@pytest.fixture
def http_url(broker: BrokerProcess) -> str:
    return f"http://guest:guest@127.0.0.1:{broker.http_port}"


@pytest.fixture
def amqp_url(broker: BrokerProcess) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.address.port}"


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


@pytest.fixture
def reader(tmp_path: Path, broker: BrokerProcess) -> Iterator[Reader]:
    """Runs what a document says, against the broker of these tests."""
    reader = Reader(tmp_path)
    reader.ports = {"5672": broker.address.port, "15672": broker.http_port}
    yield reader
    reader.close()
