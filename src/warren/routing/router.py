"""From an exchange to queues: through bindings between exchanges, and alternate exchanges.

The walk visits an exchange at most once per message, whichever way it is reached, so cycles end;
and a queue is named at most once, so it gets one copy. An exchange none of whose bindings matches
hands the message to its alternate exchange. It is the exchange's own bindings that count: one that
matches and leads nowhere still counts as a match, as in RabbitMQ.

The default exchange "" has no bindings: published to, it routes to the queue that the routing key
names. Reached as an alternate exchange it routes to nothing, again as in RabbitMQ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from warren.model.fields import Table
from warren.model.records import Destination, DestinationKind
from warren.routing.exchange import Exchange

DEFAULT_EXCHANGE: Final = ""


class Router:
    """Sees the exchanges of a virtual host as they are at the moment of each call."""

    def __init__(self, exchanges: Mapping[str, Exchange], has_queue: Callable[[str], bool]) -> None:
        self._exchanges = exchanges
        self._has_queue = has_queue

    def route(
        self, exchange: Exchange, routing_keys: Sequence[str], headers: Table | None
    ) -> list[str]:
        """Names of the queues that get the message: each once, always in the same order.

        Several routing keys are one message's own key and those of its CC and BCC headers: it
        goes where any of them leads.
        """
        if exchange.record.name == DEFAULT_EXCHANGE:
            return [key for key in dict.fromkeys(routing_keys) if self._has_queue(key)]
        queues: dict[str, None] = {}
        visited = {exchange.record.name}
        work = [exchange]
        for current in work:  # grows as it goes: the walk is breadth first
            for destination in self._leave(current, routing_keys, headers):
                if destination.kind is DestinationKind.QUEUE:
                    queues[destination.name] = None
                elif destination.name not in visited:
                    visited.add(destination.name)
                    if destination.name in self._exchanges:
                        work.append(self._exchanges[destination.name])
        return list(queues)

    def is_cacheable(self, exchange: Exchange) -> bool:
        """Whether the route depends on the exchange and the routing key alone."""
        visited = {exchange.record.name}
        work = [exchange]
        for current in work:
            if current.depends_on_headers:
                return False
            for name in current.next_exchanges:
                if name not in visited and name in self._exchanges:
                    visited.add(name)
                    work.append(self._exchanges[name])
        return True

    def _leave(
        self, exchange: Exchange, routing_keys: Sequence[str], headers: Table | None
    ) -> list[Destination]:
        matched = [found for key in routing_keys for found in exchange.route(key, headers)]
        if not matched and exchange.alternate is not None:
            return [Destination(DestinationKind.EXCHANGE, exchange.alternate)]
        return matched
