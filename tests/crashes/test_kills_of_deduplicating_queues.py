"""Kills of a broker whose queue deduplicates, while messages come and go: an id is remembered if
its message was confirmed, whether or not the message has been consumed since.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from random import Random

import numpy as np
import pika
import pyarrow as pa

from broker_process import BrokerProcess
from pyspark_warren.amqp_connection import AmqpConnection
from pyspark_warren.content_frames import octets_of
from pyspark_warren.options import parse_sink_options
from pyspark_warren.publications import Encoder
from warren.client.errors import ConnectionLost
from warren.wire.codec import Ack

QUEUE = "window"
WINDOW = {"x-message-deduplication": True, "x-cache-size": 100_000}
BLOCK = 150
BLOCKS_PER_LIFE_MAX = 25
KILLS = 8
AGAIN = 1_000
PREFETCH = 300
CLIENT_S = 30.0


class Consumer(threading.Thread):
    """Takes and acknowledges messages until the broker is killed; `bodies` has what came."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__()
        self.bodies: list[bytes] = []
        parameters = pika.ConnectionParameters(*address, heartbeat=0)
        self._channel = pika.BlockingConnection(parameters).channel()
        self._channel.queue_declare(QUEUE, durable=True, arguments=WINDOW)
        self._channel.basic_qos(prefetch_count=PREFETCH)

    def run(self) -> None:
        try:
            for method, _, body in self._channel.consume(QUEUE, inactivity_timeout=CLIENT_S):
                if method is None:
                    return
                self.bodies.append(body)
                self._channel.basic_ack(method.delivery_tag)
        except (pika.exceptions.AMQPError, OSError):
            return


def publish(address: tuple[str, int], life: int, first: int, blocks: int) -> AmqpConnection:
    """Send numbered messages, whose ids are the numbers, and wait for nothing."""
    host, port = address
    url = f"amqp://{host}:{port}"
    options = parse_sink_options({"url": url, "routingKey": QUEUE, "idColumns": "number"})
    connection = AmqpConnection(options.endpoints[0], "/")
    for block in range(blocks):
        numbers = range(first + block * BLOCK, first + (block + 1) * BLOCK)
        bodies = [b"%d %d" % (number, life) for number in numbers]
        batch = pa.RecordBatch.from_pydict({"value": bodies, "number": np.array(numbers)})
        for frames in Encoder(options).encode(batch, connection.frame_max):
            connection.send_frames(octets_of(frames))
    return connection


def confirmed_of(connection: AmqpConnection, count: int, enough: int) -> set[int]:
    """Tags that the broker confirms until that is enough, or it ends."""
    tags: set[int] = set()
    below = 1
    try:
        while len(tags) < min(enough, count):
            for event in connection.receive():
                assert isinstance(event, Ack), event
                if event.multiple:
                    tags.update(range(below, event.delivery_tag + 1))
                    below = event.delivery_tag + 1
                tags.add(event.delivery_tag)
    except ConnectionLost:
        pass
    return tags


def test_ids_survive_kills_with_their_confirms(mortal: BrokerProcess, chance: Random) -> None:
    confirmed_in: dict[int, int] = {}
    came: dict[int, set[int]] = defaultdict(set)
    next_number = 0
    for life in range(KILLS + 1):
        is_last = life == KILLS
        consumer = Consumer(mortal.address)
        consumer.start()
        first = 0 if is_last else max(0, next_number - AGAIN)
        blocks = chance.randint(1, BLOCKS_PER_LIFE_MAX)
        if is_last:
            blocks = -(-next_number // BLOCK)
        count = blocks * BLOCK
        connection = publish(mortal.address, life, first, blocks)
        tags = confirmed_of(connection, count, count if is_last else chance.randint(1, count))
        if not is_last:
            mortal.kill()
            tags |= confirmed_of(connection, count, count)
        else:
            wait_until_empty(mortal.address)
            mortal.kill()
        connection.abort()
        consumer.join(CLIENT_S)
        for tag in tags:
            confirmed_in.setdefault(first + tag - 1, life)
        for body in consumer.bodies:
            number, came_in = map(int, body.split())
            came[number].add(came_in)
        next_number = max(next_number, first + count)
        mortal.start()
    assert sorted(came) == list(range(next_number)) == sorted(confirmed_in)
    twice = {n: lives for n, lives in came.items() if max(lives) > confirmed_in[n]}
    assert twice == {}


def wait_until_empty(address: tuple[str, int]) -> None:
    """Until the consumer has acknowledged everything."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(*address))
    channel = connection.channel()
    while channel.queue_declare(QUEUE, passive=True).method.message_count:
        connection.sleep(0.1)
    connection.sleep(1)
    connection.close()
