"""What a virtual host has at this moment, as the metadata store has told it.

Nothing else changes it: whoever declares, binds or deletes writes to the store, and the store tells
all that watch it, this node included, in the order of its transactions. One thing comes earlier: a
queue whose deletion is on its way to the store is hidden, so that nobody uses it any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from warren.broker.activity import Activity
from warren.broker.predeclared import predeclared_exchanges
from warren.broker.vhost_policies import VhostPolicies
from warren.metadata.codec import decode_binding, decode_exchange, decode_queue
from warren.metadata.keys import KeyKind, binding_key, parse_key
from warren.metadata.store import Change, Record
from warren.model.records import (
    BindingRecord,
    Destination,
    DestinationKind,
    ExchangeRecord,
    QueueRecord,
)
from warren.policy.matching import TargetKind
from warren.queues.boundary import AbstractQueue
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings
from warren.routing.bindings import BindingTable
from warren.routing.exchange import Exchange, make_exchange
from warren.routing.router import Router
from warren.routing.topology_version import TopologyVersion


class Topology:
    def __init__(
        self,
        vhost: str,
        make_queue: Callable[[QueueRecord, QueueSettings], AbstractQueue],
        activity: Activity,
        now_ms: Callable[[], int],
    ) -> None:
        self.vhost = vhost
        self._activity = activity
        self._now_ms = now_ms
        self.policies = VhostPolicies()
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, AbstractQueue] = {}
        self.masters_declared: Counter[str] = Counter()
        """Number of queues by the node on which each was declared, hidden ones included."""
        self.bindings = BindingTable()
        self.version = TopologyVersion()
        self.router = Router(self.exchanges, self.queues.__contains__)
        # Bindings that lack an end, by key: made while it was being removed. They are not bindings
        # here any more, and whoever removed the end removes them from the store.
        self.orphans: dict[str, BindingRecord] = {}
        # Auto-delete exchanges that lost their last binding and are still there: it went with the
        # lease of a node, and not by a removal, which would have taken the exchange along.
        self.exchanges_without_bindings: set[str] = set()
        self._make_queue = make_queue
        self._hidden: dict[str, AbstractQueue] = {}
        self._gone: list[AbstractQueue] = []
        # Versions in the store, by key. What is not there, such as a predeclared exchange, has 0.
        self._stored_versions: dict[str, int] = {}
        self._bindings_by_key: dict[str, BindingRecord] = {}
        self._exclusive: dict[str, set[str]] = {}
        for record in predeclared_exchanges(vhost):
            self.exchanges[record.name] = make_exchange(record)

    def apply(self, changes: Iterable[Change]) -> None:
        """Take in the changes of a transaction. To be told twice does no harm."""
        is_changed = False
        for change in changes:
            if change.record is None:
                is_changed |= self._remove(change.key)
            else:
                is_changed |= self._put(change.record)
        if is_changed:
            self.version.bump()
        unbound = filter(self._has_lost_bindings, self.exchanges_without_bindings)
        self.exchanges_without_bindings = set(unbound)
        # Consumers hear of it, and what they do then must find everything in its final state.
        while self._gone:
            self._delete(self._gone.pop())

    def _delete(self, queue: AbstractQueue) -> None:
        if isinstance(queue, Queue):
            self._activity.queue_deleted(queue)
        queue.delete()

    def stored_version(self, key: str) -> int:
        """Of an exchange or a queue, by its key."""
        return self._stored_versions.get(key, 0)

    def exclusive_queues_of(self, connection_id: str) -> list[str]:
        """In the order of their names, hidden ones left out."""
        return sorted(n for n in self._exclusive.get(connection_id, ()) if n in self.queues)

    @contextmanager
    def hiding(self, queues: Sequence[AbstractQueue]) -> Iterator[None]:
        """The queues cannot be found meanwhile; those that are not gone afterwards can again."""
        for queue in queues:
            self._hidden[queue.record.name] = self.queues.pop(queue.record.name)
        self.version.bump()
        try:
            yield
        finally:
            for queue in queues:
                if self.is_hidden(queue):
                    self.queues[queue.record.name] = self._hidden.pop(queue.record.name)
            self.version.bump()

    def is_hidden(self, queue: AbstractQueue) -> bool:
        return self._hidden.get(queue.record.name) is queue

    def queue_names(self) -> tuple[str, ...]:
        """Of all queues, hidden ones too."""
        return (*self.queues, *self._hidden)

    def renew_queue(self, name: str) -> None:
        """Give the queue, if it is there, what arguments and policies say now."""
        queue = self.queues.get(name) or self._hidden.get(name)
        if queue is None:
            return
        settings = self.policies.settings_of(queue.record)
        if settings != queue.settings:
            queue.apply_settings(settings)

    def renew_exchange(self, name: str) -> None:
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        alternate = self.policies.alternate_of(exchange.record)
        if alternate != exchange.alternate:
            exchange.alternate = alternate
            self.version.bump()

    def replace_queue(self, queue: AbstractQueue) -> None:
        """The same queue, that is somewhere else now than it was."""
        name = queue.record.name
        (self._hidden if name in self._hidden else self.queues)[name] = queue
        self.version.bump()

    def close(self) -> None:
        """The virtual host is gone, and its queues with it."""
        for queue in (*self.queues.values(), *self._hidden.values()):
            self._delete(queue)
        for exchange in self.exchanges.values():
            self._activity.exchange_deleted(exchange.counters)
        self.queues.clear()
        self._hidden.clear()
        self.version.bump()

    def _put(self, stored: Record) -> bool:
        """False if nothing but the version in the store has changed."""
        parsed = parse_key(stored.key)
        kind = parsed.kind if parsed is not None else None
        if kind is KeyKind.EXCHANGE and self._is_news(stored):
            return self._put_exchange(decode_exchange(stored.value))
        if kind is KeyKind.QUEUE and self._is_news(stored):
            return self._put_queue(decode_queue(stored.value))
        return kind is KeyKind.BINDING and self._put_binding(
            stored.key, decode_binding(stored.value)
        )

    def _is_news(self, stored: Record) -> bool:
        if self._stored_versions.get(stored.key, 0) >= stored.version:
            return False
        self._stored_versions[stored.key] = stored.version
        return True

    def _put_exchange(self, record: ExchangeRecord) -> bool:
        existing = self.exchanges.get(record.name)
        if existing is not None and existing.record == record:
            return False
        self.policies.forget(TargetKind.EXCHANGE, record.name)
        exchange = make_exchange(record, self._now_ms)
        exchange.alternate = self.policies.alternate_of(record)
        if existing is not None:
            exchange.counters = existing.counters
        for binding in self.bindings.of_source(record.name):
            exchange.bind(binding)
        self.exchanges[record.name] = exchange
        return True

    def _put_queue(self, record: QueueRecord) -> bool:
        existing = self.queues.get(record.name) or self._hidden.get(record.name)
        if existing is not None:
            if existing.record == record:
                return False
            self._remove_queue(record.name)
        settings = self.policies.settings_of(record)
        self.queues[record.name] = self._make_queue(record, settings)
        self.masters_declared[record.node] += 1
        if record.owner is not None:
            self._exclusive.setdefault(record.owner, set()).add(record.name)
        return True

    def _put_binding(self, key: str, binding: BindingRecord) -> bool:
        if binding.source not in self.exchanges or not self._has(binding.destination):
            self.orphans[key] = binding
            return False
        self.orphans.pop(key, None)
        if not self.bindings.add(binding):
            return False
        self.exchanges[binding.source].bind(binding)
        self._bindings_by_key[key] = binding
        return True

    def _has(self, destination: Destination) -> bool:
        if destination.kind is DestinationKind.EXCHANGE:
            return destination.name in self.exchanges
        return destination.name in self.queues or destination.name in self._hidden

    def _remove(self, key: str) -> bool:
        self._stored_versions.pop(key, None)
        parsed = parse_key(key)
        if parsed is None:
            return False
        if parsed.kind is KeyKind.EXCHANGE:
            return self._remove_exchange(parsed.parts[1])
        if parsed.kind is KeyKind.QUEUE:
            return self._remove_queue(parsed.parts[1])
        self.orphans.pop(key, None)
        return parsed.kind is KeyKind.BINDING and self._remove_binding(key)

    def _remove_exchange(self, name: str) -> bool:
        exchange = self.exchanges.pop(name, None)
        if exchange is None:
            return False
        self._activity.exchange_deleted(exchange.counters)
        self.policies.forget(TargetKind.EXCHANGE, name)
        self._orphan(self.bindings.of_source(name))
        self._orphan(self.bindings.of_destination(Destination(DestinationKind.EXCHANGE, name)))
        return True

    def _remove_queue(self, name: str) -> bool:
        queue = self.queues.pop(name, None) or self._hidden.pop(name, None)
        if queue is None:
            return False
        self.masters_declared[queue.record.node] -= 1
        self.policies.forget(TargetKind.QUEUE, name)
        owner = queue.record.owner
        if owner is not None:
            self._exclusive[owner].discard(name)
            if not self._exclusive[owner]:
                del self._exclusive[owner]
        self._gone.append(queue)
        self._orphan(self.bindings.of_destination(Destination(DestinationKind.QUEUE, name)))
        return True

    def _orphan(self, bindings: Iterable[BindingRecord]) -> None:
        for binding in bindings:
            key = binding_key(binding)
            self._remove_binding(key)
            self.orphans[key] = binding

    def _remove_binding(self, key: str) -> bool:
        binding = self._bindings_by_key.pop(key, None)
        if binding is None:
            return False
        self.bindings.remove(binding)
        source = self.exchanges.get(binding.source)
        if source is not None:
            source.unbind(binding)
            if self._has_lost_bindings(binding.source):
                self.exchanges_without_bindings.add(binding.source)
        return True

    def _has_lost_bindings(self, exchange: str) -> bool:
        found = self.exchanges.get(exchange)
        is_bound = bool(self.bindings.count_of_source(exchange))
        return found is not None and found.record.auto_delete and not is_bound
