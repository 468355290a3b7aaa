"""A publisher that goes on while brokers come and go, and knows what was confirmed.

Each number is published once. What is not confirmed when a connection is lost may have arrived or
not, so it may be in the stream, once; what is confirmed must be.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

import pika
from pika.exceptions import AMQPError

ADDRESS_TRIED_EVERY_S: Final = 0.2
PACE_S: Final = 0.01
PERSISTENT: Final = pika.BasicProperties(delivery_mode=2)
# Of connections that are lost there is nothing to say: that is what this is about.
logging.getLogger("pika").setLevel(logging.CRITICAL)


class Publisher:
    """Publishes numbers to a stream, from a thread of its own, until stopped."""

    def __init__(self, parameters: Callable[[], pika.ConnectionParameters], queue: str) -> None:
        self.confirmed: set[int] = set()
        self.published = 0
        self._parameters = parameters
        self._queue = queue
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "the publisher does not come to an end"

    def _run(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(AMQPError, OSError):
                self._publish_while_connected()
            time.sleep(ADDRESS_TRIED_EVERY_S)

    def _publish_while_connected(self) -> None:
        connection = pika.BlockingConnection(self._parameters())
        with contextlib.closing(connection):
            channel = connection.channel()
            channel.queue_declare(self._queue, durable=True, arguments={"x-queue-type": "stream"})
            channel.confirm_delivery()
            while not self._stopping.is_set():
                number = self.published
                self.published += 1
                channel.basic_publish("", self._queue, b"%d" % number, PERSISTENT, mandatory=True)
                self.confirmed.add(number)
                time.sleep(PACE_S)
