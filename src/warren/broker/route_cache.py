"""Routes already found, shared by all channels of a virtual host.

A channel keeps the routes it uses itself and asks here for those it does not know, or whose
topology has changed since. The answers of the router are worth keeping where they depend on the
exchange and the routing key alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from warren.broker.topology import Topology
from warren.model.fields import Table
from warren.model.limits import ROUTES_PER_VHOST_MAX
from warren.queues.boundary import AbstractQueue
from warren.routing.exchange import Exchange


class RouteCache:
    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._version = 0
        self._routes: dict[tuple[str, str], tuple[AbstractQueue, ...]] = {}
        self._is_cacheable: dict[str, bool] = {}

    def __len__(self) -> int:
        return len(self._routes)

    def route(
        self, exchange: Exchange, routing_keys: Sequence[str], headers: Table | None
    ) -> tuple[AbstractQueue, ...]:
        if self._version != self._topology.version.value:
            self._forget()
        if len(routing_keys) != 1 or not self._depends_on_key_alone(exchange):
            return self._find(exchange, routing_keys, headers)
        where = exchange.record.name, exchange.route_kept_as(routing_keys[0])
        found = self._routes.get(where)
        if found is None:
            found = self._find(exchange, routing_keys, headers)
            if len(self._routes) >= ROUTES_PER_VHOST_MAX:
                self._routes.clear()
            self._routes[where] = found
        return found

    def may_route(self, exchange: Exchange, routing_key: str) -> bool:
        """Whether a message with this key may get anywhere, whatever its headers."""
        if exchange.is_unused:
            return False
        return bool(self.route(exchange, [routing_key], None)) or not self._depends_on_key_alone(
            exchange
        )

    def _depends_on_key_alone(self, exchange: Exchange) -> bool:
        name = exchange.record.name
        answer = self._is_cacheable.get(name)
        if answer is None:
            answer = self._is_cacheable[name] = self._topology.router.is_cacheable(exchange)
        return answer

    def _find(
        self, exchange: Exchange, routing_keys: Sequence[str], headers: Table | None
    ) -> tuple[AbstractQueue, ...]:
        names = self._topology.router.route(exchange, routing_keys, headers)
        queues = self._topology.queues
        # A queue that is just being deleted is hidden while its bindings are still there.
        return tuple(queues[name] for name in names if name in queues)

    def _forget(self) -> None:
        self._routes.clear()
        self._is_cacheable.clear()
        self._version = self._topology.version.value
