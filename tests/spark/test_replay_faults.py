"""Once, whatever happens: a broker that is killed in the middle of a replay.

`scripts/chaos --replay` kills all that takes part in one, at random.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from broker_process import BrokerProcess
from pipeline_chaos.job_process import wait_until
from pipeline_chaos.replaying import EXCHANGE, TARGETS, declare_targets, drained
from pyspark_warren.errors import WarrenError
from pyspark_warren.jobs import ReplayOptions, replay

STREAM = "numbers"
MESSAGES = 1_000
# All of them would take minutes; so it is in the middle when the first are there.
SLOWLY = 20


@contextlib.contextmanager
def channel_of(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    parameters = pika.ConnectionParameters(*broker.address, heartbeat=0)
    with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
        yield connection.channel()


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[BrokerProcess]:
    """With a stream that is full, and queues that deduplicate."""
    broker = BrokerProcess(tmp_path)
    broker.start()
    with channel_of(broker) as channel:
        declare_targets(channel)
        channel.queue_declare(STREAM, durable=True, arguments={"x-queue-type": "stream"})
        channel.confirm_delivery()
        persistent = pika.BasicProperties(delivery_mode=2)
        for number in range(MESSAGES):
            channel.basic_publish("", STREAM, b"%d" % number, persistent)
    yield broker
    broker.kill()


def depth(broker: BrokerProcess) -> int:
    with channel_of(broker) as channel:
        answers = [channel.queue_declare(name, passive=True) for name in TARGETS]
    return min(answer.method.message_count for answer in answers)


def test_what_a_killed_broker_had_taken_is_there_once_when_the_replay_has_gone_on(
    spark: SparkSession, mortal: BrokerProcess, tmp_path: Path
) -> None:
    """The batch that was cut short is published again, from its beginning."""
    url = f"http://127.0.0.1:{mortal.http_port},amqp://127.0.0.1:{mortal.address.port}"
    given = {
        "url": url, "queue": STREAM, "to_exchange": EXCHANGE, "state": str(tmp_path / "state"),
        "yes": True,
    }  # fmt: skip
    errors: list[WarrenError] = []

    def run() -> None:
        try:
            replay(spark, ReplayOptions(**given, rate=SLOWLY, failover_timeout=1))
        except WarrenError as error:
            errors.append(error)

    running = threading.Thread(target=run)
    running.start()
    wait_until("some are published", lambda: depth(mortal) > 10 or not running.is_alive())
    mortal.kill()
    running.join()
    assert "in 1 s; " in str(errors[0]), "the broker was gone, not something else"
    mortal.start()
    assert depth(mortal) < MESSAGES
    assert replay(spark, ReplayOptions(**given)).messages == MESSAGES
    with channel_of(mortal) as channel:
        for name in TARGETS:
            assert drained(channel, name) == dict.fromkeys(range(MESSAGES), 1)
