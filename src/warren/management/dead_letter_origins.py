"""Origins of dead letters: whether a queue can be where a dead letter says that it died.

Publishers can write `x-death` themselves, as in RabbitMQ, and name any queue in it; a redrive that
believed them would carry their messages to queues that they may not write to. So an origin counts
only if dead letters of that queue can come to the queue in which the message is now: its
dead-letter exchange, followed through bindings and alternate exchanges, leads there. That is no
proof that this very message died there, but a queue without dead letters gets none.
"""

from __future__ import annotations

from warren.broker.vhost import VirtualHost
from warren.model.records import DestinationKind


class Origins:
    """The origins that dead letters in `queue` can have; each is looked up once."""

    def __init__(self, vhost: VirtualHost, queue: str) -> None:
        self._vhost = vhost
        self._queue = queue
        self._known: dict[str, bool] = {}

    def is_possible(self, origin: str) -> bool:
        found = self._known.get(origin)
        if found is None:
            found = self._known[origin] = self._leads_here(origin)
        return found

    def _leads_here(self, origin: str) -> bool:
        queue = self._vhost.queues.get(origin)
        if queue is None or queue.settings.dead_letter_exchange is None:
            return False
        if queue.settings.dead_letter_exchange == "":
            # Without a key of its own, a message keeps the one that it was published with.
            return queue.settings.dead_letter_routing_key in (None, self._queue)
        return self._is_reached_from(queue.settings.dead_letter_exchange)

    def _is_reached_from(self, exchange: str) -> bool:
        seen, left = {exchange}, [exchange]
        while left:
            name = left.pop()
            for following in self._following(name):
                if following == (DestinationKind.QUEUE, self._queue):
                    return True
                kind, target = following
                if kind is DestinationKind.EXCHANGE and target not in seen:
                    seen.add(target)
                    left.append(target)
        return False

    def _following(self, exchange: str) -> list[tuple[DestinationKind, str]]:
        bindings = self._vhost.bindings.of_source(exchange)
        following = [(each.destination.kind, each.destination.name) for each in bindings]
        found = self._vhost.exchanges.get(exchange)
        if found is not None and found.alternate is not None:
            following.append((DestinationKind.EXCHANGE, found.alternate))
        return following
