"""`warren pipeline replay`: messages are published once more, and taken once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from pyspark_warren.errors import WarrenError
from pyspark_warren.jobs import IngestOptions, ReplayOptions, ingest, replay
from pyspark_warren.jobs.replay_choice import topic_expression

MESSAGES = 20


@pytest.fixture
def target(channel: BlockingChannel, queue: str) -> Iterator[str]:
    """A queue that takes each id once."""
    name = f"{queue}-again"
    channel.queue_declare(name, durable=True, arguments={"x-message-deduplication": True})
    yield name
    channel.queue_delete(name)


@pytest.fixture
def filled(channel: BlockingChannel, stream: str) -> str:
    channel.queue_bind(stream, "amq.topic", "#")
    for number in range(MESSAGES):
        key = f"orders.{'new' if number % 2 else 'old'}"
        channel.basic_publish("amq.topic", key, json.dumps({"id": number}).encode())
    return stream


def bodies(channel: BlockingChannel, queue: str) -> list[int]:
    found = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return sorted(found)
        found.append(json.loads(body)["id"])


def test_chosen_messages_of_a_lake_are_published_and_a_second_time_not_taken(
    spark: SparkSession,
    channel: BlockingChannel,
    filled: str,
    target: str,
    http_url: str,
    amqp_url: str,
    tmp_path: Path,
) -> None:
    lake = str(tmp_path / "lake")
    schema = "id BIGINT NOT NULL"
    ingest(
        spark,
        IngestOptions(
            url=http_url, queue=filled, lake=lake, format="json", schema=schema, once=True
        ),
    )
    options = {
        "url": amqp_url, "lake": lake, "routing_key": "*.new", "where": "body.id > 10",
        "since": "2020-01-01T00:00:00Z", "to_exchange": "", "to_routing_key": target,
    }  # fmt: skip
    wanted = [number for number in range(11, MESSAGES) if number % 2]
    dry = replay(spark, ReplayOptions(**options))
    assert (dry.routes, dry.is_published) == ({("", target): len(wanted)}, False)
    assert bodies(channel, target) == []
    for _ in range(2):
        assert replay(spark, ReplayOptions(**options, rate=1_000, yes=True)).is_published
    assert bodies(channel, target) == wanted


def test_a_span_of_a_stream_is_published(
    spark: SparkSession,
    channel: BlockingChannel,
    filled: str,
    target: str,
    http_url: str,
    amqp_url: str,
) -> None:
    options = ReplayOptions(
        url=f"{http_url},{amqp_url}", queue=filled, starting_offsets="5", ending_offsets="9",
        to_exchange="", to_routing_key=target, yes=True,
    )  # fmt: skip
    assert replay(spark, options).messages == 4
    assert bodies(channel, target) == [5, 6, 7, 8]


def test_nothing_to_read_from_is_said(spark: SparkSession, amqp_url: str, tmp_path: Path) -> None:
    with pytest.raises(WarrenError, match="give --lake"):
        replay(spark, ReplayOptions(url=amqp_url))
    with pytest.raises(WarrenError, match="there are no messages in"):
        replay(spark, ReplayOptions(url=amqp_url, lake=str(tmp_path)))


@pytest.mark.parametrize(
    ("pattern", "keys", "others"),
    [
        ("a.*", ["a.b"], ["a", "a.b.c", "b.a"]),
        ("a.#", ["a", "a.b", "a.b.c"], ["b", "ab"]),
        ("#.c", ["c", "a.c", "a.b.c"], ["c.a", "ac"]),
        ("#", ["", "a", "a.b"], []),
        ("a.b", ["a.b"], ["axb"]),
    ],
)
def test_routing_keys_are_matched_as_a_topic_exchange_does(
    pattern: str, keys: list[str], others: list[str]
) -> None:
    expression = re.compile(topic_expression(pattern))
    assert all(expression.search(key) for key in keys)
    assert not any(expression.search(key) for key in others)
