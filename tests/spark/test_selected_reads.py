"""Reads of what is asked for: the same rows as when all is read, and few bytes of the broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pyarrow as pa
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import datasource as spark

from broker_process import BrokerProcess
from pyspark_warren.errors import InvalidOption
from pyspark_warren.options import parse_sink_options
from pyspark_warren.schema import COLUMN_NAMES
from pyspark_warren.writer import publish_all
from spark.cutting_proxy import CuttingProxy
from spark.reading import batch_reader, batches_of, declare_stream, offsets_in, rows_of

RECORDS = 200_000
BODY_BYTES = 100
RARE = range(150_000, 150_005)
ODD_HEADERS: list[dict[str, Any] | None] = [
    None, {}, {"t": "x"}, {"t": "y"}, {"t": None}, {"t": 1}, {"t": "1"}, {"t": True}, {"t": "né"},
    {"né": "x"}, {"t": "x", "n": 2}, {"T": "x"}, {"t": ""}, {"u": {"t": "x"}}, {"u": ["t", "x"]},
]  # fmt: skip
ODD_KEYS = ["", "a", "a.b", "a.b.c", ".", "a..b", "né.b", "*", "#", "a.*", "b.a", "A.b", "x" * 255]
Row = dict[str, Any]


@pytest.fixture
def bound(channel: BlockingChannel, queue: str) -> tuple[str, str]:
    """A stream, and an exchange that routes everything to it."""
    exchange = f"{queue}-exchange"
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    declare_stream(channel, queue)
    channel.queue_bind(queue, exchange)
    return queue, exchange


def publish_odd(channel: BlockingChannel, exchange: str) -> None:
    """A record for each key with each of the headers; each is a chunk."""
    number = 0
    for key in ODD_KEYS:
        for headers in ODD_HEADERS:
            properties = pika.BasicProperties(headers=headers, message_id=f"m{number}")
            channel.basic_publish(exchange, key, b"%d" % number, properties)
            number += 1


@pytest.fixture(scope="module")
def large(broker: BrokerProcess) -> Iterator[str]:
    """A stream of many records, of which few have another routing key and another header."""
    name = "selected-reads"
    parameters = pika.ConnectionParameters(*broker.address, heartbeat=0)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.exchange_declare("selected", "fanout")
        declare_stream(channel, name)
        channel.queue_bind(name, "selected")
        keys = ["rare" if number in RARE else "frequent" for number in range(RECORDS)]
        bodies = [b"%d" % number * (BODY_BYTES // len(str(number))) for number in range(RECORDS)]
        rows = pa.record_batch({"value": pa.array(bodies), "routing_key": pa.array(keys)})
        url = f"amqp://127.0.0.1:{broker.address.port}"
        sink = parse_sink_options({"url": url, "exchange": "selected"})
        assert publish_all(sink, iter([rows])).messages == RECORDS
        yield name
        channel.queue_delete(name)
        channel.exchange_delete("selected")


@pytest.mark.parametrize(
    ("options", "filters", "rows", "bytes_max"),
    [
        ({}, [], RECORDS, None),
        ({"limit": "5"}, [], 5, 0.05),
        ({"startingOffsets": "199995"}, [], 5, 0.05),
        ({}, [spark.GreaterThanOrEqual(("offset",), 199_995)], 5, 0.05),
        ({}, [spark.EqualTo(("offset",), 100_000)], 1, 0.05),
        ({}, [spark.EqualTo(("queue",), "another")], 0, 0.001),
        ({}, [spark.EqualTo(("routing_key",), "rare")], 5, 0.05),
        ({}, [spark.StringStartsWith(("routing_key",), "ra")], 5, 0.05),
        ({"filterRoutingKey": "rare"}, [], 5, 0.05),
        ({"filterHeaders": '{"type": "none has it"}'}, [], 0, 0.001),
        ({"columns": "offset,routing_key"}, [], RECORDS, 0.2),
        ({"columns": "offset,timestamp"}, [], RECORDS, 0.2),
        ({"columns": "offset", "filterRoutingKey": "rare"}, [], 5, 0.01),
    ],
)
def test_few_bytes_are_asked_of_the_broker(
    large: str,
    broker: BrokerProcess,
    options: dict[str, str],
    filters: list[spark.Filter],
    rows: int,
    bytes_max: float | None,
) -> None:
    """A part of what the bodies alone are."""
    with CuttingProxy(("127.0.0.1", broker.http_port), 0, cuts=0) as proxy:
        reader = batch_reader(url=f"http://127.0.0.1:{proxy.port}", queue=large, **options)
        assert list(reader.pushFilters(filters)) == []
        found = sum(batch.num_rows for batch in batches_of(reader, reader.partitions()))
        part = proxy.bytes_passed / (RECORDS * BODY_BYTES)
    assert found == rows
    if bytes_max is None:
        assert part > 1
    else:
        assert part < bytes_max


@pytest.mark.parametrize("column", COLUMN_NAMES)
def test_a_column_read_alone_is_the_same(
    channel: BlockingChannel, bound: tuple[str, str], http_url: str, column: str
) -> None:
    queue, exchange = bound
    publish_odd(channel, exchange)
    whole = rows_of(batch_reader(url=http_url, queue=queue))
    alone = rows_of(batch_reader(url=http_url, queue=queue, columns=f"offset,{column}"))
    assert [row[column] for row in alone] == [row[column] for row in whole]
    assert [row["offset"] for row in alone] == list(range(len(ODD_KEYS) * len(ODD_HEADERS)))
    assert set(alone[0]) == {"offset", column}


def header_is(name: str, wanted: str | None) -> Callable[[Row], bool]:
    return lambda row: (name, wanted) in (row["headers"] or [])


FILTERED: dict[str, tuple[dict[str, str], list[spark.Filter], Callable[[Row], bool]]] = {
    "pattern": ({"filterRoutingKey": "a.*"}, [], lambda r: r["routing_key"] in {"a.b", "a.*"}),
    "patterns": (
        {"filterRoutingKey": "a.#, né.*"},
        [],
        lambda r: r["routing_key"].split(".")[0] == "a" or r["routing_key"] == "né.b",
    ),
    "all keys": ({"filterRoutingKey": "#"}, [], lambda r: True),
    "empty key": ({}, [spark.EqualTo(("routing_key",), "")], lambda r: r["routing_key"] == ""),
    "star": ({}, [spark.EqualTo(("routing_key",), "*")], lambda r: r["routing_key"] == "*"),
    "hash": ({}, [spark.In(("routing_key",), ("#", "a"))], lambda r: r["routing_key"] in "#a"
             and r["routing_key"] != ""),
    "prefix": ({}, [spark.StringStartsWith(("routing_key",), "né")],
               lambda r: r["routing_key"].startswith("né")),
    "suffix": ({}, [spark.StringEndsWith(("routing_key",), "b")],
               lambda r: r["routing_key"].endswith("b")),
    "contained": ({}, [spark.StringContains(("routing_key",), ".")],
                  lambda r: "." in r["routing_key"]),
    "two tests of keys": (
        {"filterRoutingKey": "a.#"},
        [spark.StringEndsWith(("routing_key",), "c")],
        lambda r: r["routing_key"] == "a.b.c",
    ),
    "header": ({"filterHeaders": '{"t": "x"}'}, [], header_is("t", "x")),
    "header of others": ({"filterHeaders": '{"t": "né"}'}, [], header_is("t", "né")),
    "name of others": ({"filterHeaders": '{"né": "x"}'}, [], header_is("né", "x")),
    "empty header": ({"filterHeaders": '{"t": ""}'}, [], header_is("t", "")),
    "any header": (
        {"filterHeaders": '{"t": "y", "n": 2, "x-match": "any"}'},
        [],
        lambda r: header_is("t", "y")(r) or header_is("n", "2")(r),
    ),
    "any value": (
        {"filterHeaders": '{"t": null}'},
        [],
        lambda r: any(name == "t" for name, _ in r["headers"] or []),
    ),
    "exchange": ({}, [spark.EqualTo(("exchange",), "nowhere")], lambda r: False),
    "key and header and offset": (
        {"filterRoutingKey": "#.b", "filterHeaders": '{"t": "x"}'},
        [spark.GreaterThan(("offset",), 40)],
        lambda r: r["routing_key"].split(".")[-1] == "b"
        and header_is("t", "x")(r) and r["offset"] > 40,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["stream", "classic"])
def test_filtered_rows_are_those_of_a_read_without_filters(
    channel: BlockingChannel, bound: tuple[str, str], http_url: str, kind: str
) -> None:
    queue, exchange = bound
    if kind == "classic":
        channel.queue_delete(queue)  # and the exchange with its last binding
        channel.queue_declare(queue, durable=True)
        channel.exchange_declare(exchange, "fanout", auto_delete=True)
        channel.queue_bind(queue, exchange)
    publish_odd(channel, exchange)
    whole = rows_of(batch_reader(url=http_url, queue=queue))
    assert len(whole) == len(ODD_KEYS) * len(ODD_HEADERS)
    for name, (options, filters, is_wanted) in FILTERED.items():
        for columns in (COLUMN_NAMES, ("offset", "value"), ("offset",)):
            asked = {**options, "columns": ",".join(columns)}
            reader = batch_reader(url=http_url, queue=queue, **asked)
            assert list(reader.pushFilters(filters)) == []
            expected = [{c: row[c] for c in columns} for row in whole if is_wanted(row)]
            found = rows_of(reader)
            for row in (*expected, *found):  # a snapshot's time is that of the read
                row.pop("timestamp", None)
            assert found == expected, (name, columns)


def test_headers_are_compared_with_their_types(
    channel: BlockingChannel, bound: tuple[str, str], http_url: str
) -> None:
    """The column has text, so a number and its text look alike there; here they differ."""
    queue, exchange = bound
    publish_odd(channel, exchange)
    per_header = {}
    for wanted in (1, "1", True):
        text = json.dumps({"t": wanted})
        rows = rows_of(batch_reader(url=http_url, queue=queue, filterHeaders=text))
        per_header[text] = {row["offset"] % len(ODD_HEADERS) for row in rows}
    assert per_header == {'{"t": 1}': {5}, '{"t": "1"}': {6}, '{"t": true}': {7}}


def test_a_moment_is_cut_out_of_a_stream(
    channel: BlockingChannel, bound: tuple[str, str], http_url: str
) -> None:
    queue, exchange = bound
    publish_odd(channel, exchange)
    whole = rows_of(batch_reader(url=http_url, queue=queue))
    middle = whole[len(whole) // 2]["timestamp"]
    tests: dict[type[spark.Filter], Callable[[Row], bool]] = {
        spark.GreaterThan: lambda row: row["timestamp"] > middle,
        spark.GreaterThanOrEqual: lambda row: row["timestamp"] >= middle,
        spark.LessThan: lambda row: row["timestamp"] < middle,
        spark.LessThanOrEqual: lambda row: row["timestamp"] <= middle,
        spark.EqualTo: lambda row: row["timestamp"] == middle,
    }
    for kind, is_wanted in tests.items():
        make: Any = kind
        reader = batch_reader(url=http_url, queue=queue)
        assert list(reader.pushFilters([make(("timestamp",), middle)])) == []
        assert rows_of(reader) == [row for row in whole if is_wanted(row)], kind.__name__


# Snapshots in parts


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_a_snapshot_in_parts_has_each_message_once(
    channel: BlockingChannel, queue: str, http_url: str, parts: int
) -> None:
    channel.queue_declare(queue, durable=True)
    for number in range(50):
        channel.basic_publish("", queue, b"%d" % number)
    reader = batch_reader(url=http_url, queue=queue, minPartitions=str(parts))
    partitions = reader.partitions()
    assert len(partitions) == parts
    assert [int(row["value"]) for row in rows_of(reader)] == list(range(50))
    assert offsets_in(batches_of(reader, partitions)) == list(range(50))
    limited = batch_reader(url=http_url, queue=queue, minPartitions=str(parts), limit="20")
    assert [int(row["value"]) for row in rows_of(limited)] == list(range(20))


def test_a_snapshot_in_parts_is_right_though_consumers_take_and_give_back(
    channel: BlockingChannel, queue: str, http_url: str
) -> None:
    """Whatever stays in the queue throughout is in exactly one part."""
    channel.queue_declare(queue, durable=True)
    for number in range(40):
        channel.basic_publish("", queue, b"%d" % number)
    reader = batch_reader(url=http_url, queue=queue, minPartitions="4")
    partitions = list(reader.partitions())
    taken = [channel.basic_get(queue)[0] for _ in range(15)]
    for method in taken[:5]:
        channel.basic_ack(method.delivery_tag)
    channel.basic_nack(taken[9].delivery_tag, requeue=True)
    for number in range(40, 45):
        channel.basic_publish("", queue, b"%d" % number)
    batches = batches_of(reader, partitions)
    bodies = [int(body) for batch in batches for body in batch["value"].to_pylist()]
    assert bodies == [9, *range(15, 40)]
    told = [flag for batch in batches for flag in batch["redelivered"].to_pylist()]
    assert told == [True, *[False] * 25]


def test_a_snapshot_of_priorities_is_not_divided(
    channel: BlockingChannel, queue: str, http_url: str
) -> None:
    channel.queue_declare(queue, durable=True, arguments={"x-max-priority": 5})
    for number in range(10):
        properties = pika.BasicProperties(priority=number % 5)
        channel.basic_publish("", queue, b"%d" % number, properties)
    reader = batch_reader(url=http_url, queue=queue, minPartitions="4")
    assert len(reader.partitions()) == 1
    assert sorted(int(row["value"]) for row in rows_of(reader)) == list(range(10))


def test_a_limit_of_several_queues_is_for_streams_alone(
    channel: BlockingChannel, stream: str, http_url: str
) -> None:
    other = f"{stream}-classic"
    channel.queue_declare(other, exclusive=False, auto_delete=False)
    try:
        reader = batch_reader(url=http_url, queue=f"{stream},{other}", limit="3")
        with pytest.raises(InvalidOption, match=r"option limit: .*is not a stream"):
            reader.partitions()
    finally:
        channel.queue_delete(other)
