"""What Spark calls in its workers, called without Spark: quick, and easily put into trouble."""

from __future__ import annotations

import shutil
from pathlib import Path

import pika
import pyarrow as pa
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from broker_process import BrokerProcess, free_port
from pyspark_warren import WarrenDataSource
from pyspark_warren.amqp_connection import AmqpConnection
from pyspark_warren.batch_reader import WarrenBatchReader
from pyspark_warren.endpoints import parse_endpoints
from pyspark_warren.errors import (
    BrokerUnavailable,
    DataLost,
    InvalidOption,
    NotAStream,
    NotAuthorised,
    PublishFailed,
    QueueMissing,
)
from pyspark_warren.http_client import QueueClient
from pyspark_warren.options import parse_sink_options, parse_source_options
from pyspark_warren.publications import Encoder
from pyspark_warren.publisher import Publisher
from pyspark_warren.schema import spark_schema
from pyspark_warren.stream_reader import WarrenStreamReader
from spark.cutting_proxy import CuttingProxy

PERSISTENT = pika.BasicProperties(delivery_mode=2)
RECORDS = 60


def fill(channel: BlockingChannel, queue: str, count: int = RECORDS, size: int = 1) -> None:
    """Each is confirmed before the next is sent, so each is a chunk."""
    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number * size, PERSISTENT)


def batch_reader(**options: str) -> WarrenBatchReader:
    return WarrenBatchReader(parse_source_options(options))


def stream_reader(**options: str) -> WarrenStreamReader:
    return WarrenStreamReader(parse_source_options(options))


def offsets_of(
    reader: WarrenBatchReader | WarrenStreamReader, partitions: list[InputPartition]
) -> list[int]:
    """In the order in which they come."""
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


def all_offsets(**options: str) -> list[int]:
    reader = batch_reader(**options)
    return offsets_of(reader, list(reader.partitions()))


@pytest.fixture
def shrinking(channel: BlockingChannel, queue: str) -> str:
    """A stream that keeps little."""
    arguments = {
        "x-queue-type": "stream",
        "x-max-length-bytes": 3_000,
        "x-stream-max-segment-size-bytes": 1_000,
    }
    channel.queue_declare(queue, durable=True, arguments=arguments)
    return queue


# Answers that do not come, or not to their end


def test_a_selection_that_breaks_off_is_asked_for_again(
    channel: BlockingChannel, stream: str, broker: BrokerProcess
) -> None:
    fill(channel, stream, size=10_000)
    with CuttingProxy(("127.0.0.1", broker.http_port), 500_000, cuts=3) as proxy:
        options = {"url": f"http://127.0.0.1:{proxy.port}", "queue": stream}
        assert all_offsets(**options, filterRoutingKey="#") == list(range(RECORDS))
        assert proxy.cuts_made > 0


def test_answers_that_break_off_are_gone_on_with(
    channel: BlockingChannel, stream: str, broker: BrokerProcess
) -> None:
    fill(channel, stream, size=10_000)
    with CuttingProxy(("127.0.0.1", broker.http_port), 500_000, cuts=3) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        assert all_offsets(url=url, queue=stream, minPartitions="1") == list(range(RECORDS))
        assert proxy.cuts_made == 2


def test_a_connection_that_was_closed_while_it_was_idle_is_no_fault(
    stream: str, broker: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    with CuttingProxy(("127.0.0.1", broker.http_port), 0, cuts=0) as proxy:
        dead = f"http://127.0.0.1:{free_port()}"
        url = f"http://127.0.0.1:{proxy.port},{dead}"
        with QueueClient(parse_endpoints(url), "/") as client:
            assert client.extent(stream).end == 0
            proxy.hang_up()
            assert client.extent(stream).end == 0
    assert caplog.text == ""


def test_a_broker_that_is_gone_fails_a_task_after_a_while(
    channel: BlockingChannel, stream: str, broker: BrokerProcess, http_url: str
) -> None:
    fill(channel, stream, 1, size=10_000)
    (partition,) = batch_reader(url=http_url, queue=stream).partitions()
    dead = f"http://127.0.0.1:{free_port()}"
    reader = batch_reader(url=dead, queue=stream, failoverTimeout="1")
    with pytest.raises(BrokerUnavailable, match=rf"no answer from {dead} in 1 s"):
        list(reader.read(partition))
    with CuttingProxy(("127.0.0.1", broker.http_port), 2_000, cuts=10**9) as proxy:
        cut_short = f"http://127.0.0.1:{proxy.port}"
        reader = batch_reader(url=cut_short, queue=stream, failoverTimeout="1")
        with pytest.raises(BrokerUnavailable, match="broke off"):
            list(reader.read(partition))


def test_rows_for_a_broker_that_is_gone_fail_after_a_while() -> None:
    dead = f"amqp://127.0.0.1:{free_port()}"
    with pytest.raises(BrokerUnavailable, match=r"no broker in 1 s; last: .*refused"):
        publish(url=dead, routingKey="any", failoverTimeout="1")


# Records that are gone


def test_a_query_that_begins_with_what_is_gone_fails_unless_told_otherwise(
    channel: BlockingChannel, shrinking: str, http_url: str
) -> None:
    fill(channel, shrinking, size=100)
    options = {"url": http_url, "queue": shrinking, "startingOffsets": "0"}
    with pytest.raises(DataLost, match=r"were removed before they were read.*failOnDataLoss"):
        stream_reader(**options).initialOffset()
    initial = stream_reader(**options, failOnDataLoss="false").initialOffset()
    assert 0 < initial[shrinking] < RECORDS


def test_what_goes_between_two_batches_is_an_error_unless_told_otherwise(
    channel: BlockingChannel, shrinking: str, http_url: str
) -> None:
    fill(channel, shrinking, 2, size=100)
    options = {"url": http_url, "queue": shrinking, "startingOffsets": "earliest"}
    reader = stream_reader(**options)
    start = reader.initialOffset()
    assert start == {shrinking: 0}
    fill(channel, shrinking, size=100)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == {shrinking: RECORDS + 2}
    with pytest.raises(DataLost, match="failOnDataLoss"):
        reader.partitions(start, end)
    lenient = stream_reader(**options, failOnDataLoss="false")
    found = offsets_of(lenient, list(lenient.partitions(start, end)))
    assert found == list(range(found[0], RECORDS + 2))
    assert found[0] > 0


@pytest.mark.parametrize("columns", [{}, {"columns": "offset"}], ids=["all", "a selection"])
def test_what_goes_while_a_task_reads_is_an_error_unless_told_otherwise(
    channel: BlockingChannel, shrinking: str, http_url: str, columns: dict[str, str]
) -> None:
    fill(channel, shrinking, 2, size=100)
    options = {"url": http_url, "queue": shrinking, "endingOffsets": "2", **columns}
    (partition,) = batch_reader(**options).partitions()
    fill(channel, shrinking, size=100)
    with pytest.raises(DataLost, match="failOnDataLoss"):
        offsets_of(batch_reader(**options), [partition])
    assert offsets_of(batch_reader(**options, failOnDataLoss="false"), [partition]) == []


def test_a_stream_declared_again_is_another(
    channel: BlockingChannel, stream: str, http_url: str
) -> None:
    fill(channel, stream, 5)
    options = {"url": http_url, "queue": stream}
    start = stream_reader(**options).initialOffset()
    assert start == {stream: 5}
    channel.queue_delete(stream)
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    fill(channel, stream, 2)
    with pytest.raises(DataLost, match="ends at offset 2, but was read up to 5: it is another"):
        stream_reader(**options).latestOffset(start, ReadAllAvailable())
    lenient = stream_reader(**options, failOnDataLoss="false")
    end = lenient.latestOffset(start, ReadAllAvailable())
    assert offsets_of(lenient, list(lenient.partitions(start, end))) == [0, 1]


# Wrong ways to ask


def test_a_queue_that_is_no_stream_has_no_batches(
    channel: BlockingChannel, queue: str, http_url: str
) -> None:
    channel.queue_declare(queue, durable=True)
    with pytest.raises(NotAStream, match="declare one with x-queue-type=stream and bind it"):
        stream_reader(url=http_url, queue=queue).initialOffset()


def test_who_may_not_and_what_is_not_there_is_said_at_once(stream: str, http_url: str) -> None:
    with pytest.raises(QueueMissing, match=f"no '{stream}-not' in virtual host '/'"):
        stream_reader(url=http_url, queue=f"{stream}-not").initialOffset()
    stranger = http_url.replace("guest:guest", "guest:wrong")
    with pytest.raises(NotAuthorised, match="refuses user 'guest'"):
        stream_reader(url=stranger, queue=stream).initialOffset()


# Several queues, and partitions


def test_several_streams_are_one_frame_and_share_a_batch(
    channel: BlockingChannel, stream: str, http_url: str
) -> None:
    other = f"{stream}-other"
    arguments = {"x-queue-type": "stream"}
    channel.queue_declare(other, durable=True, arguments=arguments)
    try:
        fill(channel, stream, 30)
        fill(channel, other, 10)
        options = {"url": http_url, "queue": f"{stream},{other}", "startingOffsets": "earliest"}
        assert sorted(all_offsets(**options)) == sorted([*range(30), *range(10)])
        reader = stream_reader(**options, minPartitions="4")
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(20))
        assert end == {stream: 15, other: 5}
        partitions = reader.partitions(start, end)
        assert len(partitions) == 4
        assert sorted(offsets_of(reader, list(partitions))) == sorted([*range(15), *range(5)])
        again = reader.partitions(start, end)
        assert [p.value for p in again] == [p.value for p in partitions]
    finally:
        channel.queue_delete(other)


def test_a_small_read_is_one_partition_unless_told_otherwise(
    channel: BlockingChannel, stream: str, http_url: str
) -> None:
    fill(channel, stream)
    assert len(batch_reader(url=http_url, queue=stream).partitions()) == 1
    assert len(batch_reader(url=http_url, queue=stream, minPartitions="3").partitions()) == 3


# Files


def test_files_of_a_broker_have_what_it_sends(
    channel: BlockingChannel, stream: str, http_url: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    fill(channel, stream)
    directory = broker.ask(f"/api/warren/streams/%2F/{stream}")["directory"]
    beside = {"url": http_url, "queue": stream, "path": directory}
    assert all_offsets(**beside) == list(range(RECORDS))
    reader = stream_reader(**beside, startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(10))
    assert offsets_of(reader, list(reader.partitions(start, end))) == list(range(10))
    copy = shutil.copytree(directory, tmp_path / "copy", ignore=shutil.ignore_patterns("*.index"))
    assert all_offsets(path=str(copy)) == list(range(RECORDS))
    assert all_offsets(path=str(copy), startingOffsets="7", endingOffsets="9") == [7, 8]


def test_files_alone_are_not_followed(tmp_path: Path) -> None:
    source = WarrenDataSource({"path": str(tmp_path)})
    reader = source.streamReader(spark_schema(include_headers=True))
    with pytest.raises(InvalidOption, match="option url: is missing; files do not say how far"):
        reader.initialOffset()


# Publishing


def publish(**options: str) -> int:
    parsed = parse_sink_options(options)
    batch = pa.record_batch({"value": pa.array([b"one", b"two", b"three"])})
    with Publisher(parsed.endpoints, parsed.vhost, parsed.patience_s) as publisher:
        for frames in Encoder(parsed).encode(batch, publisher.frame_max):
            publisher.publish(frames)
        publisher.finish()
        return publisher.confirmed


def test_a_message_that_a_queue_refuses_fails_with_the_reason(
    channel: BlockingChannel, queue: str, amqp_url: str
) -> None:
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    with pytest.raises(PublishFailed, match=r"refused a message \(nack\).*reject-publish"):
        publish(url=amqp_url, routingKey=queue)


def test_confirms_that_are_cut_off_are_waited_for_again(
    channel: BlockingChannel, queue: str, broker: BrokerProcess
) -> None:
    """At least once: what was sent and not confirmed is sent again."""
    channel.queue_declare(queue, durable=True)
    with CuttingProxy(broker.address, 0, cuts=0) as proxy:
        (endpoint,) = parse_endpoints(f"amqp://127.0.0.1:{proxy.port}")
        AmqpConnection(endpoint, "/").abort()
        until_open = proxy.bytes_passed
    with CuttingProxy(broker.address, until_open + 1, cuts=1) as proxy:
        assert publish(url=f"amqp://127.0.0.1:{proxy.port}", routingKey=queue) == 3
        assert proxy.cuts_made == 1
    assert channel.queue_declare(queue, passive=True).method.message_count >= 3
