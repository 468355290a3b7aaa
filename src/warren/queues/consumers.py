"""Consumers, and whose turn it is.

Messages go round robin to the consumers of the highest priority that can take one; lower ones get
something only while all above them are held up. A consumer is held up by its own prefetch, by the
channel's shared one, or by a socket that does not drain. Asking every consumer at every message
would make the cost of a message grow with their number, so a consumer that cannot take is *parked*:
out of the rotation until the very thing that holds it up says so (`wake`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from warren.model.fields import EMPTY_TABLE, Table
from warren.queues.boundary import AbstractQueue, Holder
from warren.queues.delivery import Deliveries
from warren.wire.codec import Message, QueuedMessage


class Consumer(Holder):
    def __init__(
        self,
        queue: AbstractQueue,
        deliveries: Deliveries,
        tag: str,
        no_ack: bool,
        prefetch: int,
    ) -> None:
        self.queue = queue
        self.unacked = 0
        self.is_parked = False
        self.awaits_room = False
        self.counts_for_prefetch = not no_ack
        self.deliveries = deliveries
        self.tag = tag
        octets = tag.encode()
        self.tag_octets = bytes([len(octets)]) + octets
        self.no_ack = no_ack
        self.prefetch = prefetch
        self.priority = 0
        self.exclusive = False
        self.is_cancelled = False
        self.arguments: Table = EMPTY_TABLE
        self.on_cancelled: Callable[[Consumer], None] | None = None

    def can_take(self) -> bool:
        if not self.no_ack and self.prefetch != 0 and self.unacked >= self.prefetch:
            return False
        return self.deliveries.has_room()

    def park(self) -> None:
        """Leave the rotation, having told whoever will know when to come back."""
        self.is_parked = True
        deliveries = self.deliveries
        if deliveries.output.is_congested:
            deliveries.output.waiting.append(self)
        elif not deliveries.has_room():
            deliveries.await_room(self)
        # Else its own prefetch is full, and the next settled delivery wakes it.

    def wake(self) -> None:
        if self.is_cancelled or not self.is_parked:
            return
        if not self.can_take():
            self.park()
            return
        self.is_parked = False
        self.queue.consumer_ready(self)

    def deliver(self, queued: QueuedMessage) -> None:
        deliveries = self.deliveries
        tag = deliveries.track(queued, self)
        mine, of_queue = deliveries.counters, self.queue.counters
        mine.deliver += 1
        of_queue.deliver += 1
        if queued.redelivered:
            mine.redeliver += 1
            of_queue.redeliver += 1
        deliveries.output.deliver(
            deliveries.number, self.tag_octets, tag, queued.redelivered, queued.message
        )
        if deliveries.trace.is_on:
            self._trace(queued.message, queued.redelivered)

    def hand_over(self, message: Message, redelivered: bool) -> None:
        """Deliver without expecting an acknowledgement: from here on it is the client's."""
        deliveries = self.deliveries
        tag = deliveries.next_tag
        deliveries.next_tag = tag + 1
        mine, of_queue = deliveries.counters, self.queue.counters
        mine.deliver_no_ack += 1
        of_queue.deliver_no_ack += 1
        if redelivered:
            mine.redeliver += 1
            of_queue.redeliver += 1
        deliveries.output.deliver(deliveries.number, self.tag_octets, tag, redelivered, message)
        if deliveries.trace.is_on:
            self._trace(message, redelivered)

    def _trace(self, message: Message, redelivered: bool) -> None:
        deliveries = self.deliveries
        if deliveries.trace.tell is not None:
            deliveries.trace.tell(deliveries.channel, self.queue, message, redelivered)


class ConsumerRotation:
    """The consumers of one queue that can be offered messages, fairest first."""

    def __init__(self) -> None:
        self.sole: Consumer | None = None
        self.count = 0
        self.priorities: list[int] = []
        self.groups: list[deque[Consumer]] = []

    def add(self, consumer: Consumer) -> None:
        group = self._group(consumer.priority)
        group.append(consumer)
        self.count += 1
        self.sole = consumer if self.count == 1 else None

    def discard(self, consumer: Consumer) -> None:
        if consumer.priority not in self.priorities:
            return
        position = self.priorities.index(consumer.priority)
        group = self.groups[position]
        if consumer not in group:
            return
        group.remove(consumer)
        self.count -= 1
        if not group:
            del self.priorities[position], self.groups[position]
        self.sole = self.groups[0][0] if self.count == 1 else None

    def next_ready(self) -> Consumer | None:
        """Whose turn it is; those found unable to take are parked on the way."""
        while True:
            consumer = self.sole
            if consumer is None:
                if self.count == 0:
                    return None
                consumer = self.groups[0][0]
            if consumer.can_take():
                if self.count > 1:
                    self.groups[0].rotate(-1)
                return consumer
            self.discard(consumer)
            consumer.park()

    def _group(self, priority: int) -> deque[Consumer]:
        for position, known in enumerate(self.priorities):
            if known == priority:
                return self.groups[position]
            if known < priority:
                break
        else:
            position = len(self.priorities)
        group: deque[Consumer] = deque()
        self.priorities.insert(position, priority)
        self.groups.insert(position, group)
        return group
