"""Streams in bulk over HTTP: ranges of chunks, where to cut them, snapshots of other queues."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import eventually, ready_count
from acceptance.management_client import Api
from broker_process import Address, BrokerProcess
from chunk_reader import Record, records_of

RECORDS = 40
PERSISTENT = pika.BasicProperties(delivery_mode=2)
SEGMENT_BYTES = 1_500
LONG_BYTES = 33_554_432
LONG_BODY_BYTES = 1_048_576


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("streamed"))
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def api(started: BrokerProcess) -> Api:
    return Api(Address("127.0.0.1", started.http_port))


@pytest.fixture
def channel(started: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters(*started.address, heartbeat=0))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


def declare(channel: BlockingChannel, queue: str, **arguments: object) -> None:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream", **named})


@pytest.fixture
def stream(channel: BlockingChannel) -> Iterator[str]:
    """Records in chunks of their own, in several segments."""
    declare(channel, "stream", x_stream_max_segment_size_bytes=SEGMENT_BYTES)
    for number in range(RECORDS):
        channel.basic_publish("", "stream", b"record %d" % number, PERSISTENT)
    yield "stream"
    channel.queue_delete("stream")


def fetch(api: Api, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*api.address, timeout=60)
    connection.request("GET", f"/api/warren/{path}", headers=api.credentials)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def read(api: Api, stream: str, query: str = "") -> list[Record]:
    status, body = fetch(api, f"streams/%2F/{stream}/records?{query}")
    assert status == 200, body
    return list(records_of(body))


def test_a_stream_says_what_it_has(api: Api, stream: str) -> None:
    shown = api.must(api.get("warren", "streams", "/", stream))
    assert (shown["first_offset"], shown["end_offset"], shown["format"]) == (0, RECORDS, 1)
    segments = [segment for segment in shown["segments"] if segment["chunks"]]
    assert len(segments) > 2
    assert [s["end_offset"] for s in segments[:-1]] == [s["first_offset"] for s in segments[1:]]
    assert sum(segment["bytes"] for segment in segments) == shown["bytes"]
    assert sum(segment["chunks"] for segment in segments) == RECORDS


def test_all_records_come_as_they_were_published(api: Api, stream: str) -> None:
    records = read(api, stream)
    assert [record.offset for record in records] == list(range(RECORDS))
    assert [record.body for record in records] == [b"record %d" % n for n in range(RECORDS)]
    assert {(record.exchange, record.routing_key) for record in records} == {("", stream)}
    assert {record.properties for record in records} == {b"\x10\x00\x02"}
    assert not any(record.redelivered for record in records)
    moments = [record.timestamp_ms for record in records]
    assert moments == sorted(moments)
    assert abs(moments[-1] / 1000 - time.time()) < 600


@pytest.mark.parametrize(
    ("start", "end"), [(0, 1), (7, 23), (39, 40), (5, 1_000), (40, 40), (9, 9)]
)
def test_a_range_has_the_records_that_were_asked_for(
    api: Api, stream: str, start: int, end: int
) -> None:
    records = read(api, stream, f"from={start}&to={end}")
    wanted = [record.offset for record in records if start <= record.offset < end]
    assert wanted == list(range(start, min(end, RECORDS)))
    assert len(records) == len(wanted), "every record is a chunk of its own here"


def test_a_chunk_of_several_records_comes_whole(api: Api, channel: BlockingChannel) -> None:
    declare(channel, "together")
    plain = channel.connection.channel()
    for number in range(100):
        plain.basic_publish("", "together", b"%d" % number)
    eventually(lambda: ready_count(channel, "together") == 100)
    records = read(api, "together", "from=50&to=51")
    assert 50 in [record.offset for record in records]
    assert all(record.body == b"%d" % record.offset for record in records)
    channel.queue_delete("together")


def test_a_read_may_be_bounded_and_goes_on_where_it_ended(api: Api, stream: str) -> None:
    start, seen = 0, list[int]()
    while start < RECORDS:
        records = read(api, stream, f"from={start}&max_bytes=700")
        assert 0 < len(records) < 10
        seen += [record.offset for record in records]
        start = seen[-1] + 1
    assert seen == list(range(RECORDS))


def test_cuts_are_places_where_reads_may_begin(api: Api, stream: str) -> None:
    shown = api.must(api.get("warren", "streams", "/", stream, "cuts"))
    assert [cut["offset"] for cut in shown["cuts"]] == list(range(RECORDS))
    assert [cut["bytes"] for cut in shown["cuts"]] == sorted(c["bytes"] for c in shown["cuts"])
    few = api.must(api.get("warren", "streams", "/", stream, "cuts", limit=6))["cuts"]
    assert 3 <= len(few) <= 12
    query = {"from": 10, "to": 20}
    some = api.must(api.get("warren", "streams", "/", stream, "cuts", **query))["cuts"]
    assert [cut["offset"] for cut in some] == list(range(10, 20))
    edges = [cut["offset"] for cut in few] + [RECORDS]
    parts = [
        record.offset
        for start, end in pairwise(edges)
        for record in read(api, stream, f"from={start}&to={end}")
    ]
    assert parts == list(range(RECORDS))


def test_a_moment_has_an_offset(api: Api, stream: str) -> None:
    records = read(api, stream)
    place = records[20]
    expected = next(r.offset for r in records if r.timestamp_ms >= place.timestamp_ms)
    ask = lambda moment: api.must(api.get("warren", "streams", "/", stream, timestamp=moment))  # noqa: E731
    assert ask(place.timestamp_ms)["offset"] == expected
    assert ask(0)["offset"] == 0
    assert ask(records[-1].timestamp_ms + 1)["offset"] == RECORDS


def test_what_retention_has_removed_is_refused(api: Api, channel: BlockingChannel) -> None:
    declare(
        channel, "short", x_stream_max_segment_size_bytes=500, x_max_length_bytes=1_500
    )  # fmt: skip
    for number in range(RECORDS):
        channel.basic_publish("", "short", b"record %d" % number)

    def first_offset() -> int:
        shown = api.must(api.get("warren", "streams", "/", "short"))
        return int(shown["first_offset"])

    eventually(lambda: first_offset() > 0)
    first = first_offset()
    status, body = fetch(api, "streams/%2F/short/records?from=0")
    assert status == 410
    refused = json.loads(body)
    assert refused["error"] == "offset_expired"
    assert refused["reason"]["first_offset"] >= first, "retention may have gone on meanwhile"
    kept = [record.offset for record in read(api, "short")]
    assert first <= kept[0]
    assert kept == list(range(kept[0], RECORDS))
    channel.queue_delete("short")


class LongAnswer(NamedTuple):
    response: http.client.HTTPResponse
    connected: socket.socket


@pytest.fixture
def long_answer(api: Api, channel: BlockingChannel) -> Iterator[LongAnswer]:
    """One that has begun and fits into no buffer on the way."""
    declare(channel, "long", x_stream_max_segment_size_bytes=LONG_BYTES // 8)
    for _ in range(LONG_BYTES // LONG_BODY_BYTES):
        channel.basic_publish("", "long", b"x" * LONG_BODY_BYTES)
    with socket.socket() as connected:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connected.connect(api.address)
        asking = http.client.HTTPConnection(*api.address)
        asking.sock = connected
        asking.request("GET", "/api/warren/streams/%2F/long/records", headers=api.credentials)
        yield LongAnswer(asking.getresponse(), connected)
    channel.queue_delete("long")


def segments_held(broker: BrokerProcess) -> list[str]:
    """Names of the data files of streams that the broker has open."""
    names = []
    for path in Path(f"/proc/{broker.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since they were listed
            names.append(os.readlink(path))
    return [name for name in names if ".segment" in name and "/streams/" in name]


def test_an_answer_comes_to_its_end_when_the_stream_is_gone(
    started: BrokerProcess, channel: BlockingChannel, long_answer: LongAnswer
) -> None:
    start = long_answer.response.read(1_000)
    channel.queue_delete("long")
    eventually(lambda: len([n for n in segments_held(started) if "(deleted)" in n]) > 4)
    records = list(records_of(start + long_answer.response.read()))
    assert {len(record.body) for record in records} == {LONG_BODY_BYTES}
    assert [record.offset for record in records] == list(range(LONG_BYTES // LONG_BODY_BYTES))
    eventually(lambda: not [n for n in segments_held(started) if "(deleted)" in n])


def test_nothing_stays_open_when_a_reader_leaves_in_the_middle(
    started: BrokerProcess, long_answer: LongAnswer
) -> None:
    long_answer.response.read(1_000)
    assert len(segments_held(started)) > 4
    long_answer.response.close()
    long_answer.connected.close()
    eventually(lambda: len(segments_held(started)) <= 1)


def test_what_makes_no_sense_is_refused(api: Api, channel: BlockingChannel, stream: str) -> None:
    assert fetch(api, "streams/%2F/nowhere/records")[0] == 404
    assert fetch(api, f"streams/%2F/{stream}/records?from=x")[0] == 400
    channel.queue_declare("classic")
    status, body = fetch(api, "streams/%2F/classic/records")
    assert status == 400
    assert b"is not a stream" in body
    channel.queue_delete("classic")


def snapshot(api: Api, queue: str, query: str = "") -> list[Record]:
    status, body = fetch(api, f"queues/%2F/{quote(queue)}/snapshot?{query}")
    assert status == 200, body
    return list(records_of(body))


@pytest.mark.parametrize("arguments", [{}, {"x-queue-mode": "lazy"}, {"x-max-priority": 3}])
def test_a_snapshot_shows_a_queue_in_order_and_leaves_it_alone(
    api: Api, channel: BlockingChannel, arguments: dict[str, object]
) -> None:
    channel.queue_declare("snapped", durable=True, arguments=arguments)
    plain = channel.connection.channel()
    large = b"x" * 6_000
    for number in range(6_000):
        plain.basic_publish("", "snapped", b"%d" % number, PERSISTENT)
    channel.basic_publish("", "snapped", large, PERSISTENT)
    records = snapshot(api, "snapped")
    assert [record.body for record in records] == [b"%d" % n for n in range(6_000)] + [large]
    assert [record.offset for record in records] == list(range(6_001))
    assert [record.body for record in snapshot(api, "snapped", "limit=2")] == [b"0", b"1"]
    method, _, body = channel.basic_get("snapped")
    assert (body, method.redelivered) == (b"0", False)
    assert [record.body for record in snapshot(api, "snapped", "limit=2")] == [b"1", b"2"]
    channel.basic_nack(method.delivery_tag)
    eventually(lambda: ready_count(channel, "snapped") == 6_001)
    first = snapshot(api, "snapped", "limit=2")
    assert [(record.body, record.redelivered) for record in first] == [(b"0", True), (b"1", False)]
    channel.queue_delete("snapped")


def test_an_empty_queue_has_an_empty_snapshot(api: Api, channel: BlockingChannel) -> None:
    channel.queue_declare("empty")
    assert snapshot(api, "empty") == []
    channel.queue_delete("empty")


def test_files_can_be_read_where_they_are(api: Api, started: BrokerProcess, stream: str) -> None:
    shown = api.must(api.get("warren", "streams", "/", stream))
    directory = Path(shown["directory"])
    assert started.data_dir in directory.parents
    data = b"".join(path.read_bytes() for path in sorted(directory.glob("*.segment")))
    assert [record.offset for record in records_of(data)] == list(range(RECORDS))


def test_groups_remember_how_far_they_are(api: Api, stream: str) -> None:
    groups = ("warren", "streams", "/", stream, "groups")
    assert api.must(api.get(*groups)) == []
    assert api.get(*groups, "spark").status == 404
    for offset, expected in ((10, 10), (10, 10), (4, 10), (12, 12)):
        shown = api.must(api.put(*groups, "spark", body={"offset": offset}))
        assert (shown["offset"], shown["lag"], shown["lost"]) == (expected, RECORDS - expected, 0)
    assert api.must(api.put(*groups, "spark", body={"offset": 3, "reset": True}))["offset"] == 3
    api.must(api.put(*groups, "other", body={"offset": 0, "retain": True}))
    assert [(shown["group"], shown["offset"]) for shown in api.must(api.get(*groups))] == [
        ("other", 0),
        ("spark", 3),
    ]
    assert api.must(api.get(*groups, "spark"))["retain"] is False
    api.must(api.delete(*groups, "spark"))
    assert api.get(*groups, "spark").status == 404
    for wrong in (-1, "x", 1.5, True, None):
        assert api.put(*groups, "spark", body={"offset": wrong}).status == 400
    assert api.put(*groups, "spark", body={}).status == 400


def test_what_a_group_has_not_read_can_be_kept(api: Api, channel: BlockingChannel) -> None:
    declare(channel, "kept", x_stream_max_segment_size_bytes=300, x_max_length_bytes=600)
    group = ("warren", "streams", "/", "kept", "groups", "slow")
    api.must(api.put(*group, body={"offset": 0, "retain": True}))
    for number in range(RECORDS):
        channel.basic_publish("", "kept", b"record %d" % number)
    assert [record.offset for record in read(api, "kept")] == list(range(RECORDS))
    api.must(api.put(*group, body={"offset": 5, "retain": False}))
    for number in range(RECORDS):
        channel.basic_publish("", "kept", b"record %d" % number)
    eventually(lambda: api.must(api.get(*group))["lost"] > 0)
    channel.queue_delete("kept")
    assert api.get(*group).status == 404
