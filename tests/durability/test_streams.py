"""Streams and SIGKILL: confirmed records are there, at the offsets that they had before."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pika
import pytest

from acceptance.raw_client import WAIT_S
from broker_process import BrokerProcess
from durability.conftest import MakeBroker
from live_broker import connection_parameters

STREAM = "stream"
KILLS = 4
ARGUMENTS = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 50_000}


class Appending(threading.Thread):
    """Publishes numbers one after another, from `first` on, until the broker is gone."""

    def __init__(self, broker: BrokerProcess, first: int) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self.next = first
        self.confirmed_up_to = first
        self.has_begun = threading.Event()

    def run(self) -> None:
        try:
            connection = pika.BlockingConnection(connection_parameters(self._broker.address))
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare(STREAM, durable=True, arguments=ARGUMENTS)
            while True:
                self.next += 1
                channel.basic_publish("", STREAM, b"%d " % (self.next - 1) * 50)
                self.confirmed_up_to = self.next
                if self.next % 20 == 0:
                    self.has_begun.set()
        except (pika.exceptions.AMQPError, OSError):
            pass
        finally:
            self.has_begun.set()


def records(broker: BrokerProcess) -> Iterator[tuple[int, int]]:
    """Of each record that the stream has, the offset and the number that was published."""
    connection = pika.BlockingConnection(connection_parameters(broker.address))
    channel = connection.channel()
    count = channel.queue_declare(STREAM, passive=True).method.message_count
    channel.basic_qos(prefetch_count=500)
    arguments = {"x-stream-offset": "first"}
    consumed = channel.consume(STREAM, arguments=arguments, inactivity_timeout=WAIT_S)
    for _ in range(count):
        method, properties, body = next(consumed)
        assert method is not None, "a record that is counted did not come"
        channel.basic_ack(method.delivery_tag)
        yield int(properties.headers["x-stream-offset"]), int(body.split()[0])
    connection.close()


@pytest.mark.timeout(280)
def test_kills_take_nothing_from_a_stream(make_broker: MakeBroker, chance: random.Random) -> None:
    broker = make_broker()
    broker.start()
    first, known = 0, list[tuple[int, int]]()
    for _ in range(KILLS):
        appending = Appending(broker, first)
        appending.start()
        assert appending.has_begun.wait(WAIT_S)
        appending.join(chance.random())
        broker.kill()
        appending.join(WAIT_S)
        assert not appending.is_alive()
        assert appending.confirmed_up_to > first
        broker.start()
        found = list(records(broker))
        assert found[: len(known)] == known, "what was read once is where it was"
        assert [offset for offset, _ in found] == list(range(len(found)))
        numbers = [number for _, number in found]
        assert len(set(numbers)) == len(numbers), "nothing is there twice"
        assert set(range(appending.confirmed_up_to)) - {*numbers} <= set(range(first)) - {
            number for _, number in known
        }, "something confirmed is missing"
        first, known = appending.next, found
    broker.stop()
