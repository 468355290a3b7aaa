"""`warren pipeline deadletters`: what died is told, and sent back when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from acceptance.actions import eventually, ready_count
from pyspark_warren.errors import InvalidOption, PublishFailed
from pyspark_warren.jobs import DeadLettersOptions, dead_letters
from pyspark_warren.jobs.redriving import Redrive
from pyspark_warren.jobs.watching import Watch
from pyspark_warren.options import parse_sink_options


@pytest.fixture
def graves(channel: BlockingChannel, queue: str) -> Iterator[tuple[str, str]]:
    """A queue and its dead letters: four, one of them with an error; and one that lives."""
    dead = f"{queue}-dead"
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(dead, durable=True)
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.queue_bind(queue, "amq.topic", "orders.#")
    for number in range(4):
        headers = {"x-exception-message": "no stock"} if number == 0 else {}
        properties = pika.BasicProperties(delivery_mode=2, headers=headers)
        channel.basic_publish("amq.topic", f"orders.{number}", b"%d" % number, properties)
    for _ in range(4):
        method, _, _ = channel.basic_get(queue)
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)
    channel.basic_publish("", dead, b"alive")
    yield queue, dead
    channel.queue_delete(dead)


def test_dead_letters_are_counted_and_sent_back_to_where_they_died(
    spark: SparkSession,
    channel: BlockingChannel,
    graves: tuple[str, str],
    http_url: str,
    amqp_url: str,
    tmp_path: Path,
) -> None:
    origin, dead = graves
    report = tmp_path / "report.html"
    options = DeadLettersOptions(
        url=f"{http_url},{amqp_url}", queue=dead, report=str(report), redrive=True, error="stock"
    )
    found = dead_letters(spark, options)
    assert [(g.reason, g.origin, g.exchange, g.routing_key, g.error, g.messages, g.deaths)
            for g in found.groups] == [
        ("rejected", origin, "amq.topic", "orders.0", "no stock", 1, 1)
    ]  # fmt: skip
    assert found.redriven == 1
    assert "<svg" in report.read_text()
    method, properties, body = channel.basic_get(origin)
    assert method is not None
    assert (body, method.exchange, method.routing_key) == (b"0", "amq.topic", "orders.0")
    assert properties.headers["x-redrive-count"] == 1
    eventually(lambda: ready_count(channel, dead) == 4)


def test_all_that_died_are_counted_by_what_they_have_in_common(
    spark: SparkSession, graves: tuple[str, str], http_url: str
) -> None:
    origin, dead = graves
    found = dead_letters(spark, DeadLettersOptions(url=http_url, queue=dead))
    assert found.by("reason", "origin", "error") == {
        ("rejected", origin, "no stock"): 1,
        ("rejected", origin, "-"): 3,
        ("-", "-", "-"): 1,
    }
    with pytest.raises(InvalidOption, match="add an address such as amqp"):
        dead_letters(spark, DeadLettersOptions(url=http_url, queue=dead, redrive=True))


def test_what_nobody_would_get_stays_where_it_is(
    channel: BlockingChannel, graves: tuple[str, str], amqp_url: str
) -> None:
    origin, dead = graves
    channel.queue_unbind(origin, "amq.topic", "orders.#")
    sink = parse_sink_options({"url": amqp_url})
    redrive = Redrive(sink.endpoints, sink.vhost, Watch())
    with pytest.raises(PublishFailed, match="no queue gets what exchange"):
        redrive.run(dead, 10, lambda *_: True)
    assert redrive.redriven == 0
    eventually(lambda: ready_count(channel, dead) == 5)  # back when it is noticed that it has gone
