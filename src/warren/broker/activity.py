"""What a node and its virtual hosts have done, including what is gone by now.

Channels count for themselves. Whoever wants the sum adds up those that are open and what the closed
ones left behind, so that it never goes back. All but `gone` and the sums of it is kept for the node
as a whole: a virtual host that is deleted takes only its own figures along.
"""

from __future__ import annotations

from dataclasses import dataclass

from warren.model.counters import ExchangeCounters, MessageCounters
from warren.queues.queue import Queue
from warren.queues.waiting_times import WaitingTimes


@dataclass(slots=True)
class Churn:
    """How many have come and gone."""

    connection_created: int = 0
    connection_closed: int = 0
    channel_created: int = 0
    channel_closed: int = 0
    queue_declared: int = 0
    queue_created: int = 0
    queue_deleted: int = 0


@dataclass(slots=True)
class AuthAttempts:
    succeeded: int = 0
    failed: int = 0


@dataclass(slots=True)
class Traffic:
    received_bytes: int = 0
    sent_bytes: int = 0
    frames_received: int = 0
    writes: int = 0


class Activity:
    """Of a virtual host, if it is given the `whole`: the node's."""

    def __init__(self, whole: Activity | None = None) -> None:
        self.churn: Churn = Churn() if whole is None else whole.churn
        self.attempts: dict[str, AuthAttempts] = {} if whole is None else whole.attempts
        # Of closed connections.
        self.traffic_gone = Traffic()
        self.gone = MessageCounters()
        # Of deleted queues: what they had counted, and how long their messages had waited.
        self.queues_gone = MessageCounters()
        self.waited_gone = WaitingTimes(0, 0)
        # Copies of messages that deleted exchanges had sent to queues.
        self.routed_gone = 0
        self.channels: dict[MessageCounters, None] = {}
        self._whole = whole

    def attempted(self, protocol: str, is_success: bool) -> None:
        """Somebody has tried to log in."""
        attempts = self.attempts.setdefault(protocol, AuthAttempts())
        attempts.succeeded += is_success
        attempts.failed += not is_success

    def connection_closed(self, traffic: Traffic) -> None:
        self.churn.connection_closed += 1
        gone = self.traffic_gone
        gone.received_bytes += traffic.received_bytes
        gone.sent_bytes += traffic.sent_bytes
        gone.frames_received += traffic.frames_received
        gone.writes += traffic.writes

    def channel_opened(self) -> MessageCounters:
        """The counters that it is to use."""
        assert self._whole is not None, "channels belong to virtual hosts"
        counters = MessageCounters()
        self.channels[counters] = self._whole.channels[counters] = None
        self.churn.channel_created += 1
        return counters

    def channel_closed(self, counters: MessageCounters) -> None:
        assert self._whole is not None, "channels belong to virtual hosts"
        if counters in self.channels:
            self.churn.channel_closed += 1
        for activity in (self, self._whole):
            if activity.channels.pop(counters, counters) is None:
                activity.gone.add(counters)

    def queue_deleted(self, queue: Queue) -> None:
        assert self._whole is not None, "queues belong to virtual hosts"
        self.churn.queue_deleted += 1
        self._whole.queues_gone.add(queue.counters)
        if queue.waiting_times is not None:
            self._whole.waited_gone.add(queue.waiting_times)

    def exchange_deleted(self, counters: ExchangeCounters) -> None:
        assert self._whole is not None, "exchanges belong to virtual hosts"
        self._whole.routed_gone += counters.publish_out

    def published(self) -> int:
        """Return how many messages all channels have published, open and closed."""
        return self.gone.publish + sum([counters.publish for counters in self.channels])

    def messages(self) -> MessageCounters:
        """What all channels have counted, open and closed."""
        total = MessageCounters()
        total.add(self.gone)
        for counters in self.channels:
            total.add(counters)
        return total
