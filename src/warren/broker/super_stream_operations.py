"""Declares, lists and deletes super streams.

All of a declaration (the exchange, its streams, their bindings) is one transaction of the metadata
store, so publishers see the super stream with all of its partitions, or as it was before. Beyond
what one transaction takes (`STREAMS_AT_ONCE_MAX`) streams are created first, some at a time, and
bound all at once afterwards. If that is broken off, there are streams that nothing leads to; the
same declaration, repeated, completes it. A deletion removes the streams first and the exchange
last, so that it can be repeated, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from warren.broker.exchange_operations import ExchangeOperations
from warren.broker.predeclared import require_free_name, require_not_default
from warren.broker.queue_operations import QueueOperations
from warren.broker.services import Services
from warren.broker.super_streams import (
    Partition,
    SuperStreamWish,
    partitions_to_add,
    stream_arguments,
)
from warren.broker.topology import Topology
from warren.broker.writer import TopologyWriter
from warren.metadata.store import CHECKS_AT_ONCE
from warren.model.equivalence import require_same
from warren.model.errors import precondition_failed
from warren.model.fields import Table
from warren.model.records import DestinationKind, QueueRecord, describe_queue
from warren.queues.arguments import queue_type_of, require_same_queue, validate_queue
from warren.queues.settings import QueueType
from warren.routing.exchange import validate_binding
from warren.routing.super_stream import is_super_stream, partition_order

STREAMS_AT_ONCE_MAX: Final = CHECKS_AT_ONCE - 2
"""Streams that one transaction creates: each is checked, and so are virtual host and exchange."""


class _Work(NamedTuple):
    """The steps that a declaration still has to take."""

    streams: Sequence[QueueRecord]
    partitions: Sequence[Partition]
    is_exchange_missing: bool

    @property
    def is_done(self) -> bool:
        return not (self.streams or self.partitions or self.is_exchange_missing)


class SuperStreamOperations:
    def __init__(
        self,
        topology: Topology,
        writer: TopologyWriter,
        services: Services,
        exchanges: ExchangeOperations,
        queues: QueueOperations,
    ) -> None:
        self._topology = topology
        self._writer = writer
        self._services = services
        self._exchanges = exchanges
        self._queues = queues

    def names(self) -> list[str]:
        """Return the names of all super streams of the virtual host, in their order."""
        exchanges = self._topology.exchanges.values()
        return sorted(each.record.name for each in exchanges if is_super_stream(each.record))

    def partitions(self, name: str) -> list[Partition]:
        """Return the streams that the exchange leads to, in the order of partitions."""
        found = []
        for binding in self._topology.bindings.of_source(name):
            queue = self._topology.queues.get(binding.destination.name)
            if binding.destination.kind is not DestinationKind.QUEUE or queue is None:
                continue
            if queue_type_of(queue.record.arguments) is QueueType.STREAM:
                order = partition_order(binding)
                found.append(Partition(queue.record.name, binding.routing_key, order))
        return sorted(found, key=lambda each: (each.order, each.stream))

    async def declare(self, wish: SuperStreamWish) -> None:
        """Have the super stream there as it is asked for; it may grow by that."""
        require_not_default(wish.name)
        created: list[QueueRecord] = []
        for _ in self._writer.attempts():
            self._writer.require_open()
            work = self._work(wish)
            if work.is_done:
                break
            streams = work.streams[:STREAMS_AT_ONCE_MAX]
            if len(streams) < len(work.streams):
                is_done = await self._writer.create_streams(streams)
            else:
                exchange = wish.exchange() if work.is_exchange_missing else None
                bindings = [wish.binding(partition) for partition in work.partitions]
                is_done = await self._writer.create_streams(streams, exchange, bindings)
            if is_done:
                created += streams
        self._services.activity.churn.queue_created += len(created)
        await self._services.placement.until_ready(*created)

    async def delete(self, name: str) -> None:
        """Remove the streams, and then the exchange that led to them."""
        for partition in self.partitions(name):
            await self._queues.delete(partition.stream, False, False, "")
        await self._exchanges.delete(name, if_unused=False)

    def _work(self, wish: SuperStreamWish) -> _Work:
        """Look at what there is, and raise what the declaration is refused with."""
        exchange = self._topology.exchanges.get(wish.name)
        existing: list[Partition] = []
        record = wish.exchange() if exchange is None else exchange.record
        if exchange is None:
            require_free_name("exchange", wish.name)
        else:
            existing = self.partitions(wish.name)
            if not is_super_stream(record):
                raise precondition_failed(f"{record} is not a super stream")
            if wish.exchange_type is not None:
                require_same(str(record), "type", record.type, wish.exchange_type)
        partitions = partitions_to_add(wish, existing)
        for partition in partitions:
            validate_binding(record.type, wish.binding(partition))
        return _Work(self._missing_streams(wish, existing), partitions, exchange is None)

    def _missing_streams(
        self, wish: SuperStreamWish, existing: Sequence[Partition]
    ) -> list[QueueRecord]:
        queues = self._topology.queues
        sibling = queues[existing[0].stream].record.arguments if existing else None
        arguments = stream_arguments(wish.arguments, sibling)
        there = [queues[each.stream] for each in wish.partitions if each.stream in queues]
        leaders = Counter(queue.record.node for queue in there)
        missing: list[QueueRecord] = []
        for partition in wish.partitions:
            record = QueueRecord(
                wish.vhost, partition.stream, arguments=arguments, created_by=wish.created_by
            )
            if partition.stream in queues:
                _require_same_stream(queues[partition.stream].record, record, wish.arguments)
                continue
            validate_queue(record)
            self._queues.require_room(partition.stream, len(missing))
            policy = self._topology.policies.of_queue(record).effective
            node = self._services.placement.place(record, policy, leaders)
            leaders[node] += 1
            missing.append(replace(record, node=node))
        return missing


def _require_same_stream(there: QueueRecord, wanted: QueueRecord, arguments: Table | None) -> None:
    """A partition that is there has the arguments that are asked for, if any are."""
    if queue_type_of(there.arguments) is not QueueType.STREAM:
        raise precondition_failed(f"{describe_queue(there.name, there.vhost)} is not a stream")
    if arguments is not None:
        require_same_queue(there, wanted)
