"""Publishes with confirms, a window at a time, and goes to another node when one is lost.

A message counts as published when the broker has confirmed it. Of those that are sent and not
confirmed there are no more than a window; when a connection is lost they are sent again, in order,
over the next one. Some may have arrived the first time, so this is at least once; with a
deduplication id the queue, or the exchange, makes it once. A message that the broker refuses (nack)
or finds no queue for (return) ends the task, with the reason.
"""

from __future__ import annotations

import logging
import time
from typing import Final, Self

from pamqp.commands import Basic

from pyspark_warren.amqp_connection import AmqpConnection, ConnectionLost
from pyspark_warren.endpoints import PATIENCE_S, Endpoint
from pyspark_warren.errors import BrokerUnavailable, PublishFailed
from pyspark_warren.publications import Publication
from warren.wire.codec import Ack
from warren.wire.methods import Method

WINDOW_MESSAGES: Final = 8_192
WINDOW_BYTES: Final = 16 * 1_048_576
PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 2.0

log = logging.getLogger(__name__)


class Publisher:
    """Publishes for one task."""

    def __init__(
        self, endpoints: tuple[Endpoint, ...], vhost: str, patience_s: float = PATIENCE_S
    ) -> None:
        self._endpoints = endpoints
        self._vhost = vhost
        self._patience_s = patience_s
        self._turn = 0
        self._connection: AmqpConnection | None = None
        self._unconfirmed: dict[int, Publication] = {}
        self._bytes = 0
        self._tag = 0
        self._lowest = 1
        self.confirmed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.abort()

    def publish(self, publication: Publication) -> None:
        """Waits while the window is full."""
        self._send(publication)
        if len(self._unconfirmed) >= WINDOW_MESSAGES or self._bytes >= WINDOW_BYTES:
            self._settle(WINDOW_MESSAGES // 2, WINDOW_BYTES // 2)

    def flush(self) -> None:
        """Sends what has gathered, instead of waiting for more."""
        try:
            if self._connection is not None:
                self._connection.send()
        except ConnectionLost as error:
            self._reconnect(str(error))

    def finish(self) -> None:
        """Waits until everything is confirmed."""
        self._settle(0, 0)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, publication: Publication) -> None:
        self._tag += 1
        self._unconfirmed[self._tag] = publication
        self._bytes += len(publication.message.body)
        try:
            if self._connection is None:
                self._reconnect("not connected yet")
            else:
                self._connection.publish(*publication)
        except ConnectionLost as error:
            self._reconnect(str(error))

    def _settle(self, messages_max: int, bytes_max: int) -> None:
        """Until no more than this is unconfirmed."""
        while self._unconfirmed and (
            len(self._unconfirmed) > messages_max or self._bytes > bytes_max
        ):
            assert self._connection is not None, "something was sent"
            try:
                self._connection.send()
                for event in self._connection.receive():
                    self._take(event)
            except ConnectionLost as error:
                self._reconnect(str(error))

    def _take(self, event: Ack | Method) -> None:
        if isinstance(event, Ack):
            self._confirm(event.delivery_tag, event.multiple)
        elif isinstance(event, Basic.Return):
            raise PublishFailed(
                f"returned, {event.reply_code} {event.reply_text}: no queue gets what exchange "
                f"{event.exchange!r} has with routing key {event.routing_key!r}"
            )
        elif isinstance(event, Basic.Nack):
            raise PublishFailed(
                "the broker refused a message (nack): a queue is full and has "
                "x-overflow=reject-publish, or could not store it"
            )

    def _confirm(self, tag: int, multiple: bool) -> None:
        tags = range(self._lowest, tag + 1) if multiple else (tag,)
        for each in tags:
            publication = self._unconfirmed.pop(each, None)
            if publication is not None:
                self._bytes -= len(publication.message.body)
                self.confirmed += 1
        if multiple:
            self._lowest = max(self._lowest, tag + 1)

    def _reconnect(self, problem: str) -> None:
        """To whichever node answers, and send everything again that is not confirmed."""
        deadline = time.monotonic() + self._patience_s
        pause_s = PAUSE_S
        while True:
            if self._connection is not None:
                self._connection.abort()
                self._connection = None
                self._turn += 1
                log.warning("%s; going on elsewhere", problem)
            try:
                self._resend()
                return
            except ConnectionLost as error:
                problem = str(error)
            if time.monotonic() + pause_s > deadline:
                raise BrokerUnavailable(f"no broker in {self._patience_s:g} s; last: {problem}")
            if self._connection is None:
                self._turn += 1
            if self._turn % len(self._endpoints) == 0:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _resend(self) -> None:
        endpoint = self._endpoints[self._turn % len(self._endpoints)]
        self._connection = AmqpConnection(endpoint, self._vhost)
        waiting = list(self._unconfirmed.values())
        self._unconfirmed = dict(enumerate(waiting, 1))
        self._tag, self._lowest = len(waiting), 1
        for publication in waiting:
            self._connection.publish(*publication)
