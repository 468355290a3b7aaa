"""tx: publishes and settlements held until commit, then done in order; atomic per queue only."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from warren.channels.publishing import unroutable
from warren.channels.route import Route
from warren.channels.settling import Settlement, settle
from warren.channels.wide_publish import queues_now
from warren.model.errors import precondition_failed
from warren.queues.boundary import PENDING, REJECTED
from warren.wire.codec import Message, QueuedMessage

if TYPE_CHECKING:
    from warren.channels.channel import Channel


class Transaction:
    origin = None
    """Publishes of a client of this node."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._publishes: list[tuple[Message, Route]] = []
        self._settled: list[tuple[Settlement, list[tuple[int, QueuedMessage]]]] = []
        # Publishes of a commit that are on their way to safety, and who is to hear of the last.
        self._pending = 0
        self._is_partial = False
        self._tell: Callable[[], None] | None = None

    def publish(self, message: Message, route: Route) -> None:
        self._publishes.append((message, route))

    def ack(self, tag: int, multiple: bool) -> None:
        self.settle(Settlement.ACK, tag, multiple)

    def settle(self, settlement: Settlement, tag: int, multiple: bool) -> None:
        """Take the deliveries out of the channel's hands, remembering their tags."""
        deliveries = self._channel.deliveries
        tags = [t for t in deliveries.unacked if tag in (0, t) or t < tag] if multiple else [tag]
        taken = deliveries.take(tag, multiple)
        self._settled.append((settlement, list(zip(tags, taken, strict=True))))

    def commit(self) -> Coroutine[Any, Any, None] | None:
        """Publish, then settle; if a queue has yet to make a publish safe, wait for it."""
        publishes, settled = self._publishes, self._settled
        self._publishes, self._settled = [], []
        self._pending = 0
        self._is_partial = False
        for message, route in publishes:
            self._publish(message, route)
        for settlement, taken in settled:
            settle(self._channel, settlement, [queued for _, queued in taken])
        if self._pending:
            return self._all_safe()
        self._require_whole()
        return None

    def _publish(self, message: Message, route: Route) -> None:
        route = self._route_now(route)
        if not route.queues:
            unroutable(self._channel, message)
        self._channel.count(route, 1)
        for queue in route.queues:
            outcome = queue.publish(message, self, 0)
            self._pending += outcome == PENDING
            self._is_partial |= outcome == REJECTED

    def _route_now(self, route: Route) -> Route:
        """Look the queues up by name again: since the publish some may have gone, or moved.

        The publish decides which names get the message, the commit which queues have these names,
        as in RabbitMQ: a queue that was declared anew gets it, one that was bound since does not.
        """
        queues = queues_now(self._channel, route.queues)
        return route if queues == route.queues else Route(queues, route.counters)

    def confirmed(self, sequence: int) -> None:
        self._pending -= 1
        if self._pending == 0 and self._tell is not None:
            self._tell()

    def rejected(self, sequence: int) -> None:
        self._is_partial = True
        self.confirmed(sequence)

    async def _all_safe(self) -> None:
        if self._pending:
            await self._channel.session.host.until(self._when_safe)
        self._tell = None
        self._require_whole()

    def _when_safe(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def _require_whole(self) -> None:
        if self._is_partial:
            raise precondition_failed("partial tx completion")

    @property
    def messages_uncommitted(self) -> int:
        return len(self._publishes)

    @property
    def acks_uncommitted(self) -> int:
        return sum(len(taken) for _, taken in self._settled)

    def rollback(self) -> None:
        for _, taken in self._settled:
            self._channel.deliveries.put_back(taken)
        self._publishes, self._settled = [], []
