"""A consumer of another node, as its queue sees it: a consumer with a window.

Prefetch is about what the client has not acknowledged; the window is about what the other node
has not been able to pass on to the client. Without it a client that does not read would fill that
node's memory, or, worse, the link, and hold up everybody else on it.
"""

from __future__ import annotations

from warren.model.limits import LINK_WINDOW_DELIVERIES
from warren.queues.boundary import AbstractQueue
from warren.queues.consumers import Consumer
from warren.queues.delivery import Deliveries
from warren.wire.codec import Message, QueuedMessage


class LinkConsumer(Consumer):
    """`tag` is its name on the link; `node` and `client_tag` say whose it is."""

    def __init__(
        self,
        queue: AbstractQueue,
        deliveries: Deliveries,
        tag: str,
        no_ack: bool,
        prefetch: int,
    ) -> None:
        Consumer.__init__(self, queue, deliveries, tag, no_ack, prefetch)
        self.node = ""
        self.client_tag = ""
        self.window = LINK_WINDOW_DELIVERIES

    def can_take(self) -> bool:
        return self.window > 0 and Consumer.can_take(self)

    def deliver(self, queued: QueuedMessage) -> None:
        self.window -= 1
        Consumer.deliver(self, queued)

    def hand_over(self, message: Message, redelivered: bool) -> None:
        self.window -= 1
        Consumer.hand_over(self, message, redelivered)

    def grant(self, deliveries: int) -> None:
        self.window += deliveries
        if self.is_parked:
            self.wake()
