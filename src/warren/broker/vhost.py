"""A virtual host: a world of exchanges, queues and bindings of its own.

Every change goes to the metadata store and takes effect here when the store tells of it, which is
before the method that asked for it returns. What was checked beforehand is what the transaction
insists on: if another connection was faster, the transaction is refused and everything is checked
anew. So no lock is held, and changes of different things do not wait for each other.

Permissions are not checked here but by whoever acts for a user.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from warren.broker.activity import Activity
from warren.broker.binding_operations import BindingOperations
from warren.broker.exchange_operations import ExchangeOperations
from warren.broker.firehose import Firehose
from warren.broker.policy_walk import PolicyWalk
from warren.broker.queue_operations import QueueOperations
from warren.broker.route_cache import RouteCache
from warren.broker.services import Services
from warren.broker.topology import Topology
from warren.broker.writer import TopologyWriter
from warren.metadata.keys import KeyKind, parse_key
from warren.metadata.store import Change
from warren.model.fields import Table
from warren.model.records import BindingRecord, ExchangeRecord, QueueRecord
from warren.policy.merging import AppliedPolicy
from warren.queues.boundary import AbstractQueue
from warren.queues.queue import Queue
from warren.routing.exchange import Exchange

if TYPE_CHECKING:
    from warren.broker.super_stream_operations import SuperStreamOperations

_POLICIES: Final = frozenset({KeyKind.POLICY, KeyKind.OPERATOR_POLICY})


class VirtualHost:
    """A `connection_id` says who asks: exclusive queues belong to connections."""

    def __init__(self, name: str, services: Services, stored_version: int = 0) -> None:
        self.name = name
        self.activity = Activity(services.activity)
        self._topology = Topology(
            name, services.placement.make_queue, self.activity, services.clock.now_ms
        )
        self._services = services
        self._writer = TopologyWriter(self._topology, services, stored_version)
        self._exchange_operations = ExchangeOperations(self._topology, self._writer)
        self._queue_operations = QueueOperations(self._topology, self._writer, services)
        self._binding_operations = BindingOperations(self._topology, self._writer)
        self.exchanges = self._topology.exchanges
        self.queues = self._topology.queues
        self.masters_declared = self._topology.masters_declared
        self.bindings = self._topology.bindings
        self.router = self._topology.router
        self.version = self._topology.version
        self.routes = RouteCache(self._topology)
        self.policies = self._topology.policies
        self.policy_walk = PolicyWalk(self._topology, services.clock)
        self.events = services.events
        self.firehose = Firehose(self, services.clock, services.events.node_name)

    @property
    def generation(self) -> int:
        """Another number than before means that a route may have changed."""
        return self.version.value

    # Exchanges.

    def lookup_exchange(self, name: str) -> Exchange:
        return self._exchange_operations.lookup(name)

    async def declare_exchange(self, record: ExchangeRecord, passive: bool = False) -> Exchange:
        """A passive declare looks only at the name."""
        return await self._exchange_operations.declare(record, passive)

    async def delete_exchange(self, name: str, if_unused: bool = False) -> None:
        await self._exchange_operations.delete(name, if_unused)

    # Queues.

    def lookup_queue(self, name: str, connection_id: str) -> AbstractQueue:
        return self._queue_operations.lookup(name, connection_id)

    def queues_here(self) -> list[Queue]:
        """Return the queues that this node serves."""
        return [queue for queue in self.queues.values() if isinstance(queue, Queue)]

    def typed(self, record: QueueRecord) -> QueueRecord:
        """The queue that a client's declare is about: of the default type, if it names none."""
        return self._queue_operations.typed(record)

    def named(self, record: QueueRecord) -> QueueRecord:
        """The queue that a declare is about: with a new name, if it asks for one.

        Refuses a name that a client may not use. It is what a declare looks at first; permissions
        can be checked only when the name is known, so they come between this and
        `declare_named_queue`.
        """
        return self._queue_operations.named(record)

    async def declare_queue(
        self, record: QueueRecord, passive: bool, connection_id: str
    ) -> AbstractQueue:
        """A passive declare looks only at the name. Exclusive records carry their owner."""
        if not passive:
            return await self.declare_named_queue(self.named(record))
        queue = self.lookup_queue(record.name, connection_id)
        queue.touch()
        return queue

    async def declare_named_queue(self, record: QueueRecord) -> AbstractQueue:
        return await self._queue_operations.declare(record)

    async def settle_queue(self, name: str) -> None:
        """After QueueGone: wait until this node knows what has become of the queue."""
        await self._queue_operations.settle(name)

    async def delete_queue(
        self, name: str, if_unused: bool, if_empty: bool, connection_id: str
    ) -> int:
        return await self._queue_operations.delete(name, if_unused, if_empty, connection_id)

    async def drop_exclusive(self, connection_id: str) -> None:
        """The connection has ended: delete what it alone could use."""
        await self._queue_operations.drop_exclusive(connection_id)

    async def drop_lost(self, is_lost: Callable[[QueueRecord], bool]) -> int:
        """A node is gone for good: delete the queues that it alone had; how many that were."""
        return await self._queue_operations.drop_lost(is_lost)

    async def renew_queue(self, name: str) -> bool:
        """Store the record of a transient queue again: with which node it ends has changed."""
        return await self._writer.renew_queue(name)

    async def queue_unused(self, queue: Queue) -> None:
        """The last consumer of an auto-delete queue has gone."""
        await self._queue_operations.drop_idle(queue)

    async def queue_expired(self, queue: Queue) -> None:
        """Nobody has used the queue for as long as x-expires says."""
        await self._queue_operations.drop_idle(queue)

    def replace_queue(self, queue: AbstractQueue) -> None:
        """The same queue, that is somewhere else now than it was."""
        self._topology.replace_queue(queue)

    # Bindings and routes.

    async def bind(self, binding: BindingRecord, connection_id: str) -> None:
        await self._binding_operations.bind(binding, connection_id)

    async def unbind(self, binding: BindingRecord, connection_id: str) -> None:
        await self._binding_operations.unbind(binding, connection_id)

    def route(
        self, exchange_name: str, routing_keys: Sequence[str], headers: Table | None
    ) -> tuple[AbstractQueue, ...]:
        """The queues that get a message published to the exchange."""
        return self.routes.route(self.lookup_exchange(exchange_name), routing_keys, headers)

    @cached_property
    def super_streams(self) -> SuperStreamOperations:
        """Super streams; their code is loaded when it is needed, to keep idle nodes small."""
        from warren.broker.super_stream_operations import SuperStreamOperations

        return SuperStreamOperations(
            self._topology,
            self._writer,
            self._services,
            self._exchange_operations,
            self._queue_operations,
        )

    # Policies.

    def policy_of_queue(self, name: str) -> AppliedPolicy:
        """Raises KeyError."""
        return self.policies.of_queue(self.queues[name].record)

    def policy_of_exchange(self, name: str) -> AppliedPolicy:
        """Raises KeyError."""
        return self.policies.of_exchange(self.exchanges[name].record)

    # For the broker.

    def apply(self, changes: Sequence[Change]) -> None:
        """Take in what the store tells of this virtual host."""
        parsed = [(parse_key(change.key), change) for change in changes]
        about_policies = [
            (key, change) for key, change in parsed if key is not None and key.kind in _POLICIES
        ]
        # First, so that what is declared has its settings from the beginning.
        if about_policies and self.policies.take_in(about_policies):
            self.policy_walk.start()
        self._topology.apply(changes)

    def record_stored(self, version: int) -> None:
        """The virtual host's own record in the store has this version now."""
        self._writer.vhost_version = version

    async def remove_orphans(self) -> None:
        """After loading: remove bindings whose end went when the node was killed."""
        await self._writer.remove_orphans()

    @property
    def has_exchanges_without_bindings(self) -> bool:
        return bool(self._topology.exchanges_without_bindings)

    async def remove_exchanges_without_bindings(self) -> None:
        """After a node has gone: remove auto-delete exchanges that only it had bound from."""
        await self._writer.remove_exchanges_without_bindings()

    def close(self) -> None:
        """The virtual host is deleted: nothing can be declared any more, queues are gone."""
        self._writer.is_closed = True
        self._topology.close()
