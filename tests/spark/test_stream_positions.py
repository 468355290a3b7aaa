"""Where streams begin and end, by Kafka's options, and what a query says of its progress."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess
from pyspark_warren import progress
from pyspark_warren.errors import DataLost, InvalidOption, NotAuthorised
from pyspark_warren.progress import METRICS
from spark.reading import (
    PERSISTENT,
    batch_reader,
    batches_of,
    bodies_of,
    declare_stream,
    fill,
    offsets_in,
    rows_of,
    stream_reader,
)


@pytest.fixture
def two(channel: BlockingChannel, stream: str) -> Iterator[tuple[str, str]]:
    """Two streams, with the numbers from 0 to 9 and from 10 to 14."""
    other = f"{stream}-other"
    declare_stream(channel, other)
    fill(channel, stream, range(10))
    fill(channel, other, range(10, 15))
    yield stream, other
    channel.queue_delete(other)


def moment_between(channel: BlockingChannel, queue: str) -> int:
    """A moment, in milliseconds, at which 5 records were there and 5 more were not."""
    fill(channel, queue, range(5))
    time.sleep(0.05)
    moment_ms = time.time_ns() // 1_000_000
    time.sleep(0.05)
    fill(channel, queue, range(5, 10))
    return moment_ms


# Positions


def test_each_queue_has_positions_of_its_own(two: tuple[str, str], http_url: str) -> None:
    one, other = two
    options = {"url": http_url, "subscribe": f"{one},{other}"}
    starting = json.dumps({one: 3, other: "latest"})
    assert stream_reader(**options, startingOffsets=starting).initialOffset() == {one: 3, other: 5}
    starting, ending = json.dumps({one: 8, other: -2}), json.dumps({one: -1, other: 2})
    rows = rows_of(batch_reader(**options, startingOffsets=starting, endingOffsets=ending))
    assert bodies_of(rows) == [8, 9, 10, 11]


@pytest.mark.parametrize(
    ("starting", "problem"),
    [
        ('{"ONE": 3}', "says nothing about 'OTHER'"),
        ('{"ONE": 3, "OTHER": 1, "third": 1}', "'third' is not read"),
        ('{"ONE": 99, "OTHER": 1}', "'ONE' ends at offset 10, so there is no offset 99 yet"),
        ('{"ONE": {"0": 3}, "OTHER": 1}', "a queue has one log and no partitions"),
    ],
)
def test_positions_that_cannot_be_meant_are_refused(
    two: tuple[str, str], http_url: str, starting: str, problem: str
) -> None:
    one, other = two

    def named(text: str) -> str:
        return text.replace("ONE", one).replace("OTHER", other)

    for options in ({"subscribe": f"{one},{other}"}, {"subscribePattern": f"{one}.*"}):
        expected = rf"option startingOffsets: .*{named(problem)}"
        with pytest.raises((InvalidOption, DataLost), match=expected):
            stream_reader(url=http_url, startingOffsets=named(starting), **options).initialOffset()


def test_an_offset_that_is_not_there_yet_is_refused_in_a_batch(
    two: tuple[str, str], http_url: str
) -> None:
    options = {"url": http_url, "queue": two[0]}
    with pytest.raises(DataLost, match=r"option endingOffsets: .*no offset 11 yet.*OnDataLoss"):
        batch_reader(**options, endingOffsets="11").partitions()
    lenient = batch_reader(**options, endingOffsets="11", failOnDataLoss="false")
    assert len(rows_of(lenient)) == 10


def test_a_moment_is_a_beginning_or_an_end(
    channel: BlockingChannel, stream: str, http_url: str
) -> None:
    moment_ms = moment_between(channel, stream)
    options = {"url": http_url, "queue": stream}
    assert stream_reader(**options, startingTimestamp=str(moment_ms)).initialOffset() == {stream: 5}
    named = json.dumps({stream: moment_ms})
    assert bodies_of(rows_of(batch_reader(**options, startingOffsetsByTimestamp=named))) == [
        5, 6, 7, 8, 9,
    ]  # fmt: skip
    for ending in ({"endingTimestamp": str(moment_ms)}, {"endingOffsetsByTimestamp": named}):
        assert bodies_of(rows_of(batch_reader(**options, **ending))) == [0, 1, 2, 3, 4]


def test_a_moment_after_the_last_record_is_an_error_unless_told_otherwise(
    two: tuple[str, str], http_url: str
) -> None:
    one, _ = two
    options = {"url": http_url, "queue": one, "startingTimestamp": "2100-01-01T00:00:00Z"}
    with pytest.raises(InvalidOption, match=r"option startingTimestamp: .* no record of that"):
        stream_reader(**options).initialOffset()
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    assert stream_reader(**options, **strategy).initialOffset() == {one: 10}


# Patterns


def test_queues_of_a_pattern_are_read_when_they_appear(
    channel: BlockingChannel, two: tuple[str, str], http_url: str
) -> None:
    one, other = two
    pattern = {"url": http_url, "subscribePattern": f"{one}(-.*)?"}
    reader = stream_reader(**pattern)
    start = reader.initialOffset()
    assert start == {one: 10, other: 5}
    third = f"{one}-third"
    declare_stream(channel, third)
    try:
        assert reader.latestOffset(start, ReadAllAvailable()) == start, "it has nothing yet"
        fill(channel, third, range(3))
        fill(channel, other, range(15, 16))
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end == {one: 10, other: 6, third: 3}
        found = batches_of(reader, reader.partitions(start, end))
        assert {b["queue"][0].as_py(): offsets_in([b]) for b in found} == {
            other: [5],
            third: [0, 1, 2],
        }
        assert len(rows_of(batch_reader(**pattern))) == 10 + 6 + 3
    finally:
        channel.queue_delete(third)
    with pytest.raises(DataLost, match=f"'{third}' was read, and is not there any more"):
        reader.latestOffset(end, ReadAllAvailable())
    lenient = stream_reader(**pattern, failOnDataLoss="false")
    assert lenient.latestOffset(end, ReadAllAvailable()) == {one: 10, other: 6}


def test_a_pattern_matches_whole_names_and_may_match_none(
    channel: BlockingChannel, queue: str, http_url: str
) -> None:
    reader = stream_reader(url=http_url, subscribePattern=f"{queue}[0-9]")
    assert reader.initialOffset() == {}
    assert reader.latestOffset({}, ReadAllAvailable()) == {}
    for name in (f"{queue}1", f"{queue}22"):
        declare_stream(channel, name)
        fill(channel, name, range(2))
    try:
        assert reader.latestOffset({}, ReadAllAvailable()) == {f"{queue}1": 2}
    finally:
        for name in (f"{queue}1", f"{queue}22"):
            channel.queue_delete(name)


def test_a_pattern_leaves_out_streams_that_the_user_may_not_read(
    two: tuple[str, str], broker: BrokerProcess
) -> None:
    one, other = two
    api = Api(Address("127.0.0.1", broker.http_port))
    api.must(api.put("users", "partial", body={"password": "partial", "tags": "management"}))
    permissions = {"configure": "^$", "write": "^$", "read": f"^{one}$"}
    api.must(api.put("permissions", "/", "partial", body=permissions))
    options = {"url": f"http://partial:partial@127.0.0.1:{broker.http_port}"}
    reader = batch_reader(**options, subscribePattern=f"{one}.*")
    assert bodies_of(rows_of(reader)) == list(range(10))
    with pytest.raises(NotAuthorised, match=f"refuses user 'partial' access to '{other}'"):
        batch_reader(**options, subscribe=other).partitions()
    api.must(api.delete("users", "partial"))


# How much a batch has


def test_a_batch_waits_for_enough_records_and_not_for_ever(
    channel: BlockingChannel, stream: str, http_url: str
) -> None:
    fill(channel, stream, range(5))
    reader = stream_reader(
        url=http_url, queue=stream, startingOffsets="earliest", minOffsetsPerTrigger="4",
        maxTriggerDelay="1s",
    )  # fmt: skip
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset({stream: 0}, limit)
    assert first == {stream: 5}
    fill(channel, stream, range(5, 8))
    admitted_s = time.monotonic()
    assert reader.latestOffset(first, limit) == first, "3 are too few"
    while (end := reader.latestOffset(first, limit)) == first:
        assert time.monotonic() - admitted_s < 30
        time.sleep(0.05)
    assert end == {stream: 8}
    assert time.monotonic() - admitted_s > 0.5
    fill(channel, stream, range(8, 12))
    assert reader.latestOffset(end, limit) == {stream: 12}, "4 are enough"


def test_available_now_waits_for_nothing_and_goes_as_far_as_there_was(
    channel: BlockingChannel, stream: str, http_url: str
) -> None:
    fill(channel, stream, range(2))
    reader = stream_reader(
        url=http_url, queue=stream, minOffsetsPerTrigger="100", maxOffsetsPerTrigger="1"
    )
    reader.prepareForTriggerAvailableNow()
    fill(channel, stream, range(2, 5))
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    assert reader.latestOffset({stream: 0}, limit) == {stream: 1}
    assert reader.latestOffset({stream: 1}, limit) == {stream: 2}
    assert reader.latestOffset({stream: 2}, limit) == {stream: 2}


def test_available_now_declares_the_stream_of_an_exchange(
    channel: BlockingChannel, queue: str, http_url: str
) -> None:
    reader = stream_reader(url=http_url, queue=queue, exchange="amq.topic", routingKey=f"{queue}.#")
    reader.prepareForTriggerAvailableNow()
    assert reader.initialOffset() == {queue: 0}
    channel.basic_publish("amq.topic", f"{queue}.a", b"1", PERSISTENT)
    again = stream_reader(url=http_url, queue=queue)
    again.prepareForTriggerAvailableNow()
    assert again.latestOffset({queue: 0}, again.getDefaultReadLimit()) == {queue: 1}


def test_a_partition_has_no_more_records_than_asked_for(
    channel: BlockingChannel, stream: str, http_url: str
) -> None:
    fill(channel, stream, range(10))
    reader = batch_reader(url=http_url, queue=stream, maxRecordsPerPartition="4")
    parts = [offsets_in(batches_of(reader, [part])) for part in reader.partitions()]
    assert [offset for part in parts for offset in part] == list(range(10))
    assert max(map(len, parts)) <= 4


def test_a_batch_has_no_more_records_than_its_limit(two: tuple[str, str], http_url: str) -> None:
    one, other = two
    options = {"url": http_url, "queue": f"{one},{other}"}
    assert bodies_of(rows_of(batch_reader(**options, limit="12"))) == list(range(12))
    assert bodies_of(rows_of(batch_reader(**options, limit="3"))) == [0, 1, 2]


# Progress


def test_a_query_is_as_far_behind_as_the_broker_says_of_its_group(
    two: tuple[str, str], http_url: str, broker: BrokerProcess
) -> None:
    one, other = two
    reader = stream_reader(
        url=http_url, queue=f"{one},{other}", startingOffsets="earliest", group="g"
    )
    start = reader.initialOffset()
    assert reader.reportLatestOffset() is None
    while True:
        end = reader.latestOffset(start, ReadMaxRows(6))
        if end == start:
            break
        reported = reader.reportLatestOffset()
        shown = progress({"sources": [{"latestOffset": json.dumps(reported)}]})
        assert shown is not None
        reader.commit(end)
        lags = {
            queue: broker.ask(f"/api/warren/streams/%2F/{queue}/groups/g")["lag"]
            for queue in (one, other)
        }
        assert {q: m["offsetsBehindLatest"] for q, m in shown["queues"].items()} == lags
        assert shown["maxOffsetsBehindLatest"] == max(lags.values())
        assert shown["avgOffsetsBehindLatest"] == sum(lags.values()) / 2
        assert (shown["bytesBehindLatest"] > 0) == any(lags.values())
        assert (shown["oldestUnreadAgeMs"] > 0) == any(lags.values())
        start = end
    assert start == {one: 10, other: 5}
    last = reader.reportLatestOffset()
    assert last is not None
    assert last[METRICS][one] == {"offsetsBehindLatest": 0, "bytesBehindLatest": 0}


def test_what_is_behind_is_measured_in_bytes_and_by_age(
    channel: BlockingChannel, stream: str, http_url: str
) -> None:
    fill(channel, stream, range(2), size=1_000)
    time.sleep(0.5)
    fill(channel, stream, range(2, 4), size=1_000)
    reader = stream_reader(url=http_url, queue=stream)
    behind = []
    for position in range(1, 5):
        assert reader.latestOffset({stream: position - 1}, ReadMaxRows(1)) == {stream: position}
        reported = reader.reportLatestOffset()
        assert reported is not None
        behind.append(reported[METRICS][stream])
    assert [one["offsetsBehindLatest"] for one in behind] == [3, 2, 1, 0]
    sizes = [one["bytesBehindLatest"] for one in behind]
    assert sizes == sorted(sizes, reverse=True)
    assert 3_000 < sizes[0] < 4_000
    assert behind[0]["oldestUnreadAgeMs"] >= 500
    assert behind[1]["oldestUnreadAgeMs"] < behind[0]["oldestUnreadAgeMs"]


@pytest.mark.parametrize(
    "last", [None, {"sources": [{"latestOffset": None}]}, {"sources": [{"latestOffset": "{"}]}]
)
def test_progress_that_does_not_say_is_none(last: object) -> None:
    assert progress(last) is None
