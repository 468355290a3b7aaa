"""What a link brings for its queues, on both sides: the innermost loops between two nodes.

A channel number of a link stands for a queue. On the side that asks it is a `RemoteQueue`; on the
side of the queue's master it is a `LinkChannel`, which has what a channel would have there:
publishes that are to be answered, deliveries that are not settled, and consumers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warren.cluster.link.consumer import LinkConsumer
from warren.cluster.link.control import MalformedControl
from warren.cluster.link.publishes import LinkPublishes
from warren.cluster.link.remote_queue import RemoteQueue
from warren.model.counters import MessageCounters
from warren.queues.boundary import AbstractQueue
from warren.queues.delivery import Deliveries, TurnClock
from warren.wire.codec import Ack, Delivery, Message, MethodFrame, OutputBuffer


class LinkChannel:
    def __init__(
        self,
        number: int,
        queue: AbstractQueue,
        inbox: LinkPublishes,
        output: OutputBuffer,
        clock: TurnClock,
    ) -> None:
        self.number = number
        self.queue = queue
        self.inbox = inbox
        self.deliveries = Deliveries(number, output, clock, MessageCounters())
        self.consumers: dict[str, LinkConsumer] = {}
        self.is_closed = False

    def acked(self, first: int, count: int) -> None:
        """Passes over what it does not know: an earlier handle's, of a queue declared again."""
        deliveries = self.deliveries
        deliveries.settle_acked(deliveries.take_run(first, count))

    def flush(self) -> None:
        """Answer publishes, unless another node answers for them by now."""
        if not self.is_closed:
            self.inbox.flush(self.number, self.deliveries.output)

    def close(self) -> None:
        self.is_closed = True
        self.inbox.detach()
        for consumer in self.consumers.values():
            self.queue.remove_consumer(consumer)
        self.consumers.clear()
        self.deliveries.settle_requeued(self.deliveries.take_all())
        self.queue.pump()


class ServedQueues:
    """Queues of this node that another one has opened; what is not for them is for others."""

    def __init__(
        self, on_method: Callable[[int, bytes], None], on_message: Callable[[Message], None]
    ) -> None:
        self.handles: dict[int, LinkChannel] = {}
        self._on_method = on_method
        self._on_message = on_message

    def process(self, events: list[Any]) -> None:
        """Raises MalformedControl if the other side does not make sense."""
        for event in events:
            if type(event) is Message:
                message = event
                handle = self.handles.get(message.channel)
                if handle is not None:
                    handle.inbox.publish(message)
                else:
                    self._on_message(message)
            elif type(event) is Ack:
                ack = event
                handle = self.handles.get(ack.channel)
                if handle is not None:
                    handle.acked(ack.delivery_tag, 1)
            elif type(event) is MethodFrame:
                self._on_method(event.channel, event.payload)
            else:
                raise MalformedControl(f"{type(event).__name__} on a link")


class OpenedQueues:
    """Queues of another node that this one has opened; methods are for `on_method`."""

    def __init__(self, on_method: Callable[[int, bytes], None]) -> None:
        self.queues: dict[int, RemoteQueue] = {}
        self._on_method = on_method

    def process(self, events: list[Any]) -> None:
        """Raises MalformedControl if the other side does not make sense."""
        for event in events:
            if type(event) is Delivery:
                delivery = event
                queue = self.queues.get(delivery.channel)
                if queue is not None:
                    queue.delivered(delivery)
            elif type(event) is Ack:
                ack = event
                queue = self.queues.get(ack.channel)
                if queue is not None:
                    queue.settled(ack.delivery_tag, ack.multiple, False)
            elif type(event) is MethodFrame:
                self._on_method(event.channel, event.payload)
            else:
                raise MalformedControl(f"{type(event).__name__} on a link")
