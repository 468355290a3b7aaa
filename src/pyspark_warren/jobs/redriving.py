"""Redriving dead letters to where they first died, each removed only when it is safe there.

A message is got, published with confirms to the exchange and the routing key that it had, and
acknowledged when the broker has confirmed it. A message that is not wanted stays unacknowledged and
goes back to its place at the end. If the connection is lost between confirm and acknowledgement the
message is in both places: rather twice than never. A header counts how often it was sent back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark_warren.amqp_methods import BasicNack, BasicPublish, BasicReturn, encode_method
from pyspark_warren.errors import BrokerUnavailable, PublishFailed
from pyspark_warren.jobs.getting import GettingConnection
from pyspark_warren.jobs.watching import Progress, Watch
from warren.client.errors import ConnectionLost
from warren.model.fields import EMPTY_TABLE, long
from warren.wire.codec import Ack, Delivery, Message, PropertyBlock
from warren.wire.properties import MalformedProperties, decode_properties, encode_properties
from warren.wire.tables import table_to_python

if TYPE_CHECKING:
    from pyspark_warren.amqp_methods import Method
    from pyspark_warren.endpoints import Endpoint

REDRIVE_COUNT: Final = "x-redrive-count"
WINDOW_MESSAGES: Final = 256
SHOWN_EVERY: Final = 1_000


@dataclass(frozen=True, slots=True)
class Origin:
    """First death of a message: the queue, the reason, and how the message had come there."""

    queue: str
    reason: str
    exchange: str
    routing_key: str


Wanted = Callable[[Origin, dict[str, object]], bool]


def origin_of(headers: dict[str, object]) -> Origin | None:
    """Return the first death, or None if there is none or it cannot be understood."""
    deaths = headers.get("x-death")
    oldest = deaths[-1] if isinstance(deaths, list) and deaths else None
    if not isinstance(oldest, dict):
        return None
    keys = oldest.get("routing-keys")
    key = keys[0] if isinstance(keys, list) and keys else oldest.get("queue")
    texts = (oldest.get("queue"), oldest.get("reason"), oldest.get("exchange"), key)
    if not all(isinstance(text, str) for text in texts):
        return None
    return Origin(*(str(text) for text in texts))


class Redrive:
    """Sends messages of one queue back."""

    def __init__(self, endpoints: tuple[Endpoint, ...], vhost: str, watch: Watch) -> None:
        self._endpoints = endpoints
        self._vhost = vhost
        self._watch = watch
        self._waiting: dict[int, int] = {}
        self._published = 0
        self.redriven = 0

    def run(self, queue: str, limit: int, wanted: Wanted) -> None:
        """Look at no more than `limit` messages: those that are there before any comes back."""
        with self._connected() as connection:
            try:
                for _ in range(limit):
                    got = connection.get(queue)
                    if got is None or self._watch.is_stopping:
                        break
                    self._consider(connection, got, wanted)
                self._settle(connection)
                connection.close()
            except ConnectionLost as error:
                raise BrokerUnavailable(
                    f"{error}; {self.redriven} were sent back, and those under way may be in both "
                    "queues"
                ) from error

    def _connected(self) -> GettingConnection:
        problem = ""
        for endpoint in self._endpoints:
            try:
                return GettingConnection(endpoint, self._vhost)
            except ConnectionLost as error:
                problem = str(error)
        raise BrokerUnavailable(problem)

    def _consider(self, connection: GettingConnection, got: Delivery, wanted: Wanted) -> None:
        try:
            properties = decode_properties(got.message.properties.raw)
        except MalformedProperties:
            return
        table = properties.headers or EMPTY_TABLE
        headers = table_to_python(table)
        origin = origin_of(headers)
        if origin is None or not wanted(origin, headers):
            return
        before = headers.get(REDRIVE_COUNT)
        count = 1 + (before if isinstance(before, int) else 0)
        properties.headers = table.replacing(REDRIVE_COUNT, long(count))
        block = PropertyBlock(encode_properties(properties))
        publish = BasicPublish(
            exchange=origin.exchange, routing_key=origin.routing_key, mandatory=True
        )
        connection.publish(encode_method(publish), Message(b"", block, got.message.body))
        self._published += 1
        self._waiting[self._published] = got.delivery_tag
        if len(self._waiting) >= WINDOW_MESSAGES:
            self._settle(connection)

    def _settle(self, connection: GettingConnection) -> None:
        """Wait until everything is confirmed, and so removed."""
        connection.send()
        while self._waiting:
            for event in connection.receive():
                self._hear(connection, event)
        connection.send()
        self._watch.advance(Progress(self.redriven, detail="sent back"))

    def _hear(self, connection: GettingConnection, event: Ack | Method) -> None:
        if isinstance(event, Ack):
            tags = (
                [t for t in self._waiting if t <= event.delivery_tag]
                if event.multiple
                else [event.delivery_tag]
            )
            for tag in tags:
                connection.ack(self._waiting.pop(tag))
                self.redriven += 1
        elif isinstance(event, BasicReturn):
            self._give_up(
                connection,
                f"no queue gets what exchange {event.exchange!r} has with "
                f"routing key {event.routing_key!r}",
            )
        elif isinstance(event, BasicNack):
            self._give_up(connection, "the broker refused a message (nack)")

    def _give_up(self, connection: GettingConnection, problem: str) -> None:
        """Stop. Messages that are confirmed are removed all the same; the others stay."""
        connection.send()
        raise PublishFailed(f"stopped after {self.redriven} messages: {problem}")
