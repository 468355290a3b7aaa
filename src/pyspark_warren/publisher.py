"""Publishes with confirms, a window at a time, and goes to another node when one is lost.

What is given to it are blocks of messages, each message the frames that it is sent in. A message
counts as published when the broker has confirmed it. Of those that are sent and not confirmed there
are no more than a window and a block; when a connection is lost they are sent again, in order, over
the next one. Some may have arrived the first time, so this is at least once; with a
deduplication id the queue, or the exchange, makes it once. A message that the broker refuses (nack)
or finds no queue for (return) ends the task, with the reason.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import Final, Self

import numpy as np
import pyarrow as pa

from pyspark_warren.amqp_connection import AmqpConnection
from pyspark_warren.amqp_methods import BasicNack, BasicReturn, Method
from pyspark_warren.content_frames import octets_of
from pyspark_warren.endpoints import PATIENCE_S, Endpoint
from pyspark_warren.errors import BrokerUnavailable, PublishFailed
from warren.client.errors import ConnectionLost
from warren.wire.codec import Ack

WINDOW_MESSAGES: Final = 8_192
WINDOW_BYTES: Final = 16 * 1_048_576
PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 2.0

log = logging.getLogger(__name__)


class SentBlock:
    """Messages that were sent one behind another, and which of them are not confirmed yet."""

    def __init__(self, frames: pa.BinaryArray, first_tag: int) -> None:
        self.first_tag = first_tag
        self.octets = octets_of(frames)
        self.left = len(frames)
        self._frames = frames
        self._is_open = bytearray(b"\1") * len(frames)

    @property
    def last_tag(self) -> int:
        return self.first_tag + len(self._is_open) - 1

    def confirm(self, first_tag: int, last_tag: int) -> int:
        """How many of these it had not been told of."""
        start = max(0, first_tag - self.first_tag)
        end = min(last_tag - self.first_tag + 1, len(self._is_open))
        count = self._is_open.count(1, start, end)
        self._is_open[start:end] = bytes(end - start)
        self.left -= count
        return count

    def unconfirmed(self) -> pa.BinaryArray:
        return self._frames.filter(pa.array(np.frombuffer(self._is_open, np.bool_)))


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
        self._sent: deque[SentBlock] = deque()
        self._messages = 0
        self._bytes = 0
        self._tag = 0
        self._frame_max = 0
        self.confirmed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.abort()

    @property
    def frame_max(self) -> int:
        """As long as frames may be that are given to `publish` next. Connects, if need be."""
        if self._connection is None:
            self._reconnect("not connected yet")
        assert self._connection is not None, "it is now"
        self._frame_max = max(self._frame_max, self._connection.frame_max)
        return self._connection.frame_max

    def publish(self, frames: pa.BinaryArray) -> None:
        """Sends a block of messages, and waits while the window is full."""
        block = self._add(frames)
        try:
            if self._connection is None:
                self._reconnect("not connected yet")
            else:
                self._connection.send_frames(block.octets)
        except ConnectionLost as error:
            self._reconnect(str(error))
        if self._messages >= WINDOW_MESSAGES or self._bytes >= WINDOW_BYTES:
            self._settle(WINDOW_MESSAGES // 2, WINDOW_BYTES // 2)

    def finish(self) -> None:
        """Waits until everything is confirmed."""
        self._settle(0, 0)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _add(self, frames: pa.BinaryArray) -> SentBlock:
        block = SentBlock(frames, self._tag + 1)
        self._tag = block.last_tag
        self._sent.append(block)
        self._messages += block.left
        self._bytes += len(block.octets)
        return block

    def _settle(self, messages_max: int, bytes_max: int) -> None:
        """Until no more than this is unconfirmed."""
        while self._sent and (self._messages > messages_max or self._bytes > bytes_max):
            assert self._connection is not None, "something was sent"
            try:
                for event in self._connection.receive():
                    self._take(event)
            except ConnectionLost as error:
                self._reconnect(str(error))

    def _take(self, event: Ack | Method) -> None:
        if isinstance(event, Ack):
            self._confirm(event.delivery_tag, event.multiple)
        elif isinstance(event, BasicReturn):
            raise PublishFailed(
                f"returned, {event.reply_code} {event.reply_text}: no queue gets what exchange "
                f"{event.exchange!r} has with routing key {event.routing_key!r}"
            )
        elif isinstance(event, BasicNack):
            raise PublishFailed(
                "the broker refused a message (nack): a queue is full and has "
                "x-overflow=reject-publish, or could not store it"
            )

    def _confirm(self, tag: int, multiple: bool) -> None:
        """The bytes of a block count until all of it is confirmed."""
        for block in self._sent:
            if block.first_tag > tag:
                break
            if multiple or tag <= block.last_tag:
                count = block.confirm(0 if multiple else tag, tag)
                self.confirmed += count
                self._messages -= count
        while self._sent and not self._sent[0].left:
            self._bytes -= len(self._sent.popleft().octets)

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
        if self._connection.frame_max < self._frame_max:
            raise ConnectionLost(
                f"{endpoint}: takes frames of {self._connection.frame_max} bytes, but those to be "
                f"sent again have up to {self._frame_max}"
            )
        waiting = [block.unconfirmed() for block in self._sent]
        self._sent.clear()
        self._messages = self._bytes = self._tag = 0
        for frames in waiting:
            self._add(frames)
        for block in self._sent:
            self._connection.send_frames(block.octets)
