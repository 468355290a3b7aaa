"""What is counted of messages, by RabbitMQ's names; plain increments, made where things happen.

Each channel, queue and exchange has counters of its own, and whatever is shown of a virtual host or
a node is a sum of theirs. Nothing is kept of the past but the values at the last sample, and those
only of what was ever used: `sample` is called every few seconds, and for what has rested since it
is one comparison. Rates are what RabbitMQ shows: the growth between the last two samples.
"""

from __future__ import annotations

from typing import Final

MESSAGE_COUNTERS: Final = (
    "publish", "publish_confirmed", "confirm", "return_unroutable", "drop_unroutable", "deliver",
    "deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "ack",
)  # fmt: skip
EXCHANGE_COUNTERS: Final = ("publish_in", "publish_out")


class MessageCounters:
    """`rates` are per second and in the order of MESSAGE_COUNTERS; None when all are zero."""

    def __init__(self) -> None:
        self.publish = 0
        # Those of the publishes that are to be confirmed.
        self.publish_confirmed = 0
        self.confirm = 0
        self.return_unroutable = 0
        self.drop_unroutable = 0
        self.deliver = 0
        self.deliver_no_ack = 0
        self.get = 0
        self.get_no_ack = 0
        self.get_empty = 0
        self.redeliver = 0
        self.ack = 0
        self.rates: tuple[float, ...] | None = None
        self._sampled: MessageCounters | None = None
        self._sampled_events = 0
        self._idle_s = 0.0

    @property
    def idle_s(self) -> float:
        """How long nothing had been counted at the last sample; 0 if anything has since."""
        return self._idle_s if self.events() == self._sampled_events else 0.0

    def events(self) -> int:
        """Another number than before means that something was counted."""
        return (
            self.publish + self.confirm + self.return_unroutable + self.drop_unroutable
            + self.deliver + self.deliver_no_ack + self.get + self.get_no_ack + self.get_empty
            + self.ack
        )  # fmt: skip

    def add(self, other: MessageCounters) -> None:
        self.publish += other.publish
        self.publish_confirmed += other.publish_confirmed
        self.confirm += other.confirm
        self.return_unroutable += other.return_unroutable
        self.drop_unroutable += other.drop_unroutable
        self.deliver += other.deliver
        self.deliver_no_ack += other.deliver_no_ack
        self.get += other.get
        self.get_no_ack += other.get_no_ack
        self.get_empty += other.get_empty
        self.redeliver += other.redeliver
        self.ack += other.ack

    def reset(self) -> None:
        """Nothing was counted; the last sample and its rates stay."""
        self.publish = self.publish_confirmed = self.confirm = 0
        self.return_unroutable = self.drop_unroutable = 0
        self.deliver = self.deliver_no_ack = 0
        self.get = self.get_no_ack = self.get_empty = 0
        self.redeliver = self.ack = 0

    def values(self) -> tuple[int, ...]:
        """In the order of MESSAGE_COUNTERS."""
        return (
            self.publish, self.publish_confirmed, self.confirm, self.return_unroutable,
            self.drop_unroutable, self.deliver, self.deliver_no_ack, self.get, self.get_no_ack,
            self.get_empty, self.redeliver, self.ack,
        )  # fmt: skip

    def sample(self, elapsed_s: float) -> None:
        """Work out the rates since the last time, which was so long ago."""
        events = self.events()
        if events == self._sampled_events:
            self.rates = None
            self._idle_s += elapsed_s
            return
        self._sampled_events = events
        self._idle_s = 0.0
        former = self._sampled
        self._sampled = MessageCounters()
        self._sampled.add(self)
        before = former.values() if former is not None else (0,) * len(MESSAGE_COUNTERS)
        grown = zip(self.values(), before, strict=True)
        self.rates = tuple([(now - then) / elapsed_s for now, then in grown])


class ExchangeCounters:
    """Messages published to an exchange, and how many copies of them went to queues."""

    def __init__(self) -> None:
        self.publish_in = 0
        self.publish_out = 0
        self.rates: tuple[float, ...] | None = None
        self._sampled_in = 0
        self._sampled_out = 0

    def values(self) -> tuple[int, ...]:
        return self.publish_in, self.publish_out

    def sample(self, elapsed_s: float) -> None:
        incoming = self.publish_in - self._sampled_in
        outgoing = self.publish_out - self._sampled_out
        if incoming == 0 and outgoing == 0:
            self.rates = None
            return
        self._sampled_in, self._sampled_out = self.publish_in, self.publish_out
        self.rates = (incoming / elapsed_s, outgoing / elapsed_s)


class QueueLengths:
    """How many messages a queue had at the last sample, and how that number grows."""

    def __init__(self) -> None:
        self.ready = 0
        self.unacked = 0
        self.ready_rate = 0.0
        self.unacked_rate = 0.0

    def sample(self, ready: int, unacked: int, elapsed_s: float) -> None:
        self.ready_rate = (ready - self.ready) / elapsed_s
        self.unacked_rate = (unacked - self.unacked) / elapsed_s
        self.ready, self.unacked = ready, unacked


class TrafficCounters:
    """Bytes of one connection at the last sample, and how fast they come and go."""

    def __init__(self) -> None:
        self.received = 0
        self.sent = 0
        self.receive_rate = 0.0
        self.send_rate = 0.0

    def sample(self, received: int, sent: int, elapsed_s: float) -> None:
        self.receive_rate = (received - self.received) / elapsed_s
        self.send_rate = (sent - self.sent) / elapsed_s
        self.received, self.sent = received, sent
