"""Changes of a virtual host as transactions of the metadata store.

What is durable is stored for good; the rest is put with a node's lease and is gone when the node
is, unless it belongs to no node. A binding is durable if both its ends are. Every method answers
False if the transaction was refused because something it relied on had changed: then the caller
looks again, since what was allowed a moment ago may not be any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from warren.broker.events import INTERNAL_USER
from warren.broker.removal import Removal, first_of_many, plan_removal
from warren.broker.services import Services
from warren.broker.topology import Topology
from warren.broker.topology_events import (
    binding_created,
    exchange_created,
    queue_created,
    removed,
)
from warren.metadata.codec import TopologyRecord, encode_record
from warren.metadata.keys import binding_key, exchange_key, queue_key, vhost_key
from warren.metadata.store import (
    CHECKS_AT_ONCE,
    Check,
    Delete,
    Lease,
    LeaseLost,
    Operation,
    Put,
)
from warren.model.errors import connection_forced, internal_error
from warren.model.next_turn import NextTurn
from warren.model.records import (
    BindingRecord,
    Destination,
    DestinationKind,
    ExchangeRecord,
    QueueRecord,
)

# Each refusal means that somebody else got ahead, so waiting in vain takes a very busy crowd.
CHANGE_ATTEMPTS_MAX: Final = 10_000


class TopologyWriter:
    """`vhost_version` is that of the virtual host's own record in the store."""

    def __init__(self, topology: Topology, services: Services, vhost_version: int) -> None:
        self.vhost_version = vhost_version
        self.is_closed = False
        self._topology = topology
        self._vhost = topology.vhost
        self._services = services
        self._events = services.events

    def require_open(self) -> None:
        if self.is_closed:
            raise connection_forced(f"vhost '{self._vhost}' is deleted")

    def attempts(self) -> Iterator[None]:
        """Once around for each attempt."""
        for _ in range(CHANGE_ATTEMPTS_MAX):
            yield
        raise internal_error(f"vhost '{self._vhost}' changes too fast")

    async def create_exchange(self, record: ExchangeRecord) -> bool:
        key = exchange_key(self._vhost, record.name)
        checks = [*self._check_vhost(record.durable), Check(key, 0)]
        is_done = await self._transact(checks, [self._put(key, record, record.durable)])
        if is_done:
            exchange_created(self._events, record, self._policy_name(record))
        return is_done

    async def create_queue(self, record: QueueRecord) -> bool:
        key = queue_key(self._vhost, record.name)
        founding = self._services.placement.founding(record)
        checks = [*self._check_vhost(record.durable), Check(key, 0)]
        checks += [Check(put.key, 0) for put in founding]
        changes: list[Operation] = [self._put(key, record, record.durable), *founding]
        is_done = await self._transact(checks, changes)
        if is_done:
            queue_created(self._events, record)
        return is_done

    async def create_streams(
        self,
        streams: Sequence[QueueRecord],
        exchange: ExchangeRecord | None = None,
        bindings: Sequence[BindingRecord] = (),
    ) -> bool:
        """Create partitions of a super stream, what leads to them, and their bindings, as one."""
        places = [queue_key(self._vhost, stream.name) for stream in streams]
        checks = [*self._check_vhost(True), *(Check(place, 0) for place in places)]
        changes: list[Operation] = []
        if exchange is not None:
            changes.append(self._put(exchange_key(self._vhost, exchange.name), exchange, True))
        if bindings:
            checks.append(self._check_exchange(bindings[0].source))
        changes += [Put(place, encode_record(s)) for place, s in zip(places, streams, strict=True)]
        changes += [Put(binding_key(binding), encode_record(binding)) for binding in bindings]
        is_done = await self._transact(checks, changes)
        if is_done:
            if exchange is not None:
                exchange_created(self._events, exchange, self._policy_name(exchange))
            for stream in streams:
                queue_created(self._events, stream)
            for binding in bindings:
                binding_created(self._events, binding)
        return is_done

    def _policy_name(self, exchange: ExchangeRecord) -> str:
        policy = self._topology.policies.of_exchange(exchange).policy
        return "" if policy is None else policy.name

    async def renew_queue(self, name: str) -> bool:
        """Tie the queue, and its bindings, to what they end with now."""
        record = self._topology.queues[name].record
        destination = Destination(DestinationKind.QUEUE, name)
        bindings = self._topology.bindings.of_destination(destination)
        changes: list[Operation] = [self._put(queue_key(self._vhost, name), record, record.durable)]
        changes += [self._put(binding_key(each), each, record.durable) for each in bindings]
        return await self._transact([self._check_queue(name)], changes)

    async def create_binding(self, binding: BindingRecord) -> bool:
        source = self._topology.exchanges[binding.source].record
        is_durable = source.durable and self._is_destination_durable(binding)
        key = binding_key(binding)
        checks = [
            *self._check_vhost(is_durable),
            self._check_exchange(source.name),
            self._check_destination(binding),
        ]
        changes: list[Operation] = [self._put(key, binding, is_durable)]
        if source.auto_delete:
            changes.append(self._renew(source.name))
        is_done = await self._transact(list(dict.fromkeys(checks)), changes)
        if is_done:
            binding_created(self._events, binding)
        return is_done

    async def remove(self, removal: Removal) -> bool:
        if not await self._remove(removal, []):
            return False
        await self.remove_orphans()
        return True

    async def remove_first_bindings(
        self, queues: Iterable[str] = (), exchanges: Iterable[str] = ()
    ) -> bool:
        """Remove a slice of the bindings of ends that have very many.

        False if there are few, which can go with their ends. After True the caller looks again:
        other clients have had their turn meanwhile.
        """
        first = first_of_many(self._topology, queues, exchanges)
        if not first:
            return False
        await self._remove(plan_removal(self._topology, bindings=first), [], INTERNAL_USER)
        # A transaction about transient bindings alone does not wait for anything.
        await NextTurn()
        return True

    async def remove_orphans(self) -> None:
        """Delete from the store the bindings that have lost an end, and what goes with them."""
        for _ in self.attempts():
            found: dict[Check, BindingRecord] = {}
            for key, binding in tuple(self._topology.orphans.items()):
                stored = await self._services.store.get(key)
                if stored is None:
                    self._topology.orphans.pop(key, None)
                elif key in self._topology.orphans:  # unless somebody has bound anew
                    found[Check(key, stored.version)] = binding
                if len(found) == CHECKS_AT_ONCE:
                    break
            if not found:
                return
            removal = plan_removal(self._topology, bindings=found.values())
            await self._remove(removal, [*found])

    async def remove_exchanges_without_bindings(self) -> None:
        """Delete auto-delete exchanges whose last binding went with a node."""
        for name in sorted(self._topology.exchanges_without_bindings):
            for _ in self.attempts():
                if name not in self._topology.exchanges_without_bindings:
                    break
                await self.remove(plan_removal(self._topology, exchanges=[name]))

    async def settle(self, queue: str) -> None:
        """Wait until all transactions about this queue that were submitted before are through."""
        await self._transact([self._check_queue(queue)], [])

    async def _remove(self, removal: Removal, checks: list[Check], by: str | None = None) -> bool:
        """Remove all of this at once; `by` is the acting user of events, if not the present one."""
        checks += [self._check_queue(name) for name in removal.queues]
        checks += [self._check_exchange(name) for name in (*removal.exchanges, *removal.spared)]
        changes: list[Operation] = [Delete(binding_key(each)) for each in removal.bindings]
        changes += [Delete(queue_key(self._vhost, name)) for name in removal.queues]
        for name in removal.queues:
            changes += [Delete(key) for key in self._services.companions(self._vhost, name)]
        changes += [Delete(exchange_key(self._vhost, name)) for name in removal.exchanges]
        changes += [self._renew(name) for name in removal.spared]
        is_done = await self._transact(checks, changes)
        if is_done:
            removed(self._events, self._vhost, removal, by)
        return is_done

    async def _transact(self, checks: list[Check], changes: list[Operation]) -> bool:
        try:
            return await self._services.store.transact(checks, changes)
        except LeaseLost:
            return False  # a node that was to be a master is gone, or this one has lost its session

    def _put(self, key: str, record: TopologyRecord, is_durable: bool) -> Put:
        return Put(key, encode_record(record), None if is_durable else self._lease_for(record))

    def _lease_for(self, record: TopologyRecord) -> Lease | None:
        """A transient queue ends with its node, unless it has copies, and its bindings with it."""
        queue = record if isinstance(record, QueueRecord) else None
        if isinstance(record, BindingRecord) and self._is_to_queue(record):
            queue = self._topology.queues[record.destination.name].record
        if queue is None or queue.durable or self._services.placement.outlives_master(queue):
            return self._services.lease_of_no_node()
        return self._services.lease_of(queue.node)

    @staticmethod
    def _is_to_queue(binding: BindingRecord) -> bool:
        return binding.destination.kind is DestinationKind.QUEUE

    def _renew(self, exchange: str) -> Put:
        """The same record again, for a new version."""
        record = self._topology.exchanges[exchange].record
        return self._put(exchange_key(self._vhost, exchange), record, record.durable)

    def _check_vhost(self, is_durable: bool) -> list[Check]:
        """Nothing durable may be left to a virtual host that has just been deleted."""
        return [Check(vhost_key(self._vhost), self.vhost_version)] if is_durable else []

    def _check_exchange(self, name: str) -> Check:
        key = exchange_key(self._vhost, name)
        return Check(key, self._topology.stored_version(key))

    def _check_queue(self, name: str) -> Check:
        key = queue_key(self._vhost, name)
        return Check(key, self._topology.stored_version(key))

    def _check_destination(self, binding: BindingRecord) -> Check:
        if binding.destination.kind is DestinationKind.EXCHANGE:
            return self._check_exchange(binding.destination.name)
        return self._check_queue(binding.destination.name)

    def _is_destination_durable(self, binding: BindingRecord) -> bool:
        if binding.destination.kind is DestinationKind.EXCHANGE:
            return self._topology.exchanges[binding.destination.name].record.durable
        return self._topology.queues[binding.destination.name].record.durable
