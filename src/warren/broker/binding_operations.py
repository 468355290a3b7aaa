"""Binding and unbinding, of queues and of exchanges, in RabbitMQ's order of checks."""

from __future__ import annotations

from warren.broker.predeclared import require_not_default
from warren.broker.queue_operations import require_access
from warren.broker.removal import plan_removal
from warren.broker.topology import Topology
from warren.broker.writer import TopologyWriter
from warren.model.errors import not_found
from warren.model.records import (
    BindingRecord,
    Destination,
    DestinationKind,
    describe_exchange,
    describe_queue,
)
from warren.routing.bindings import normalised
from warren.routing.exchange import validate_binding


class BindingOperations:
    def __init__(self, topology: Topology, writer: TopologyWriter) -> None:
        self._topology = topology
        self._writer = writer

    async def bind(self, binding: BindingRecord, connection_id: str) -> None:
        """To bind what is bound already is no mistake."""
        _require_no_default(binding)
        binding = normalised(binding)
        for _ in self._writer.attempts():
            self._writer.require_open()
            self._require_ends(binding)
            source = self._topology.exchanges[binding.source].record
            validate_binding(source.type, binding)
            self._require_access(binding.destination, connection_id)
            if binding in self._topology.bindings or await self._writer.create_binding(binding):
                return

    async def unbind(self, binding: BindingRecord, connection_id: str) -> None:
        """Nor is to unbind what is not bound, whatever it is that is missing."""
        _require_no_default(binding)
        binding = normalised(binding)
        for _ in self._writer.attempts():
            self._writer.require_open()
            if binding not in self._topology.bindings:
                return
            self._require_access(binding.destination, connection_id)
            if await self._writer.remove(plan_removal(self._topology, bindings=[binding])):
                return

    def _require_ends(self, binding: BindingRecord) -> None:
        """If both are missing it is the source that is told of."""
        vhost, destination = self._topology.vhost, binding.destination
        if binding.source not in self._topology.exchanges:
            raise not_found(f"no {describe_exchange(binding.source, vhost)}")
        if destination.kind is DestinationKind.EXCHANGE:
            if destination.name not in self._topology.exchanges:
                raise not_found(f"no {describe_exchange(destination.name, vhost)}")
        elif destination.name not in self._topology.queues:
            raise not_found(f"no {describe_queue(destination.name, vhost)}")

    def _require_access(self, destination: Destination, connection_id: str) -> None:
        if destination.kind is DestinationKind.EXCHANGE:
            return
        queue = self._topology.queues.get(destination.name)
        if queue is not None:
            require_access(queue.record, connection_id)


def _require_no_default(binding: BindingRecord) -> None:
    if binding.destination.kind is DestinationKind.EXCHANGE:
        require_not_default(binding.destination.name)
    require_not_default(binding.source)
