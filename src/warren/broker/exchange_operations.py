"""exchange.declare and exchange.delete, with RabbitMQ's order of checks and its texts."""

from __future__ import annotations

from warren.broker.predeclared import require_deletable, require_free_name, require_not_default
from warren.broker.removal import plan_removal
from warren.broker.topology import Topology
from warren.broker.writer import TopologyWriter
from warren.model.equivalence import require_same_exchange
from warren.model.errors import command_invalid, not_found, precondition_failed
from warren.model.records import ExchangeRecord, describe_exchange
from warren.routing.exchange import KNOWN_TYPES, Exchange, validate_exchange


def require_known_type(type_: str) -> None:
    """The very first check of a declare, before permissions: an unknown type ends connections."""
    if type_ not in KNOWN_TYPES:
        raise command_invalid(f"unknown exchange type '{type_}'")


class ExchangeOperations:
    def __init__(self, topology: Topology, writer: TopologyWriter) -> None:
        self._topology = topology
        self._writer = writer

    def lookup(self, name: str) -> Exchange:
        exchange = self._topology.exchanges.get(name)
        if exchange is None:
            raise not_found(f"no {describe_exchange(name, self._topology.vhost)}")
        return exchange

    async def declare(self, record: ExchangeRecord, passive: bool) -> Exchange:
        if passive:
            require_not_default(record.name)
            return self.lookup(record.name)
        require_known_type(record.type)
        require_not_default(record.name)
        for _ in self._writer.attempts():
            self._writer.require_open()
            existing = self._topology.exchanges.get(record.name)
            if existing is not None:
                require_same_exchange(existing.record, record)
                return existing
            require_free_name("exchange", record.name)
            validate_exchange(record)
            # Once created it exists, and the next time around finds it: unless somebody was quick
            # to delete it, and then it is declared again.
            await self._writer.create_exchange(record)
        raise AssertionError("attempts end by raising")

    async def delete(self, name: str, if_unused: bool) -> None:
        require_not_default(name)
        require_deletable(name, self._topology.vhost)
        for _ in self._writer.attempts():
            self._writer.require_open()
            exchange = self._topology.exchanges.get(name)
            if exchange is None:
                return
            if if_unused and not exchange.is_unused:
                raise precondition_failed(f"{exchange.record} in use")
            if await self._writer.remove_first_bindings(exchanges=[name]):
                continue
            if await self._writer.remove(plan_removal(self._topology, exchanges=[name])):
                return
