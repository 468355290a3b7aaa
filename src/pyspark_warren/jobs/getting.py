"""Getting messages from a queue one by one, beside publishing and acknowledging them."""

from __future__ import annotations

from pyspark_warren.amqp_connection import CHANNEL, AmqpConnection
from pyspark_warren.amqp_methods import BasicAck, BasicGet, BasicGetEmpty
from warren.wire.codec import Delivery


class GettingConnection(AmqpConnection):
    """Connection that publishes with confirms, and gets messages from a queue."""

    def get(self, queue: str) -> Delivery | None:
        """Return the next message, unacknowledged, or None if the queue is empty.

        Confirms that come meanwhile are kept for `receive`.
        """
        self._method(BasicGet(queue=queue), CHANNEL)
        self.send()
        got = self._reader.deliveries
        while not got:
            came = self._received()
            answers = [event for event in came if not isinstance(event, BasicGetEmpty)]
            self._events += answers
            if len(answers) < len(came):
                return None
        return got.pop(0)

    def ack(self, tag: int) -> None:
        """Acknowledge a message, together with whatever is sent next."""
        self._method(BasicAck(delivery_tag=tag), CHANNEL)
