"""The topology of a node, as its cluster's machine sees it: queues and policies of the broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from warren.broker.queue_host import QueueFactory
from warren.broker.vhost import VirtualHost
from warren.model.records import QueueName, QueueRecord
from warren.queues.boundary import AbstractQueue
from warren.queues.queue import Queue
from warren.queues.settings import QueueType


class BrokerTopology:
    """`factory` has the virtual hosts of this node."""

    def __init__(self, factory: QueueFactory) -> None:
        self._factory = factory

    @property
    def _vhosts(self) -> Mapping[str, VirtualHost]:
        return self._factory.vhosts

    def record_of(self, name: QueueName) -> QueueRecord | None:
        queue = self._find(name)
        return None if queue is None else queue.record

    def policy_of(self, record: QueueRecord) -> Mapping[str, object]:
        vhost = self._vhosts.get(record.vhost)
        return {} if vhost is None else vhost.policies.of_queue(record).effective

    def is_here(self, name: QueueName) -> bool:
        return isinstance(self._find(name), Queue)

    def names(self) -> Iterator[QueueName]:
        for vhost in self._vhosts.values():
            for queue in vhost.queues:
                yield (vhost.name, queue)

    def names_here(self, vhost: str | None = None) -> list[QueueName]:
        chosen = [each for each in self._vhosts.values() if vhost in (None, each.name)]
        return [(v.name, queue.record.name) for v in chosen for queue in _mirrored(v)]

    def masters_declared(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for vhost in self._vhosts.values():
            counts.update(vhost.masters_declared)
        return counts

    def _find(self, name: QueueName) -> AbstractQueue | None:
        vhost = self._vhosts.get(name[0])
        return None if vhost is None else vhost.queues.get(name[1])


def _mirrored(vhost: VirtualHost) -> list[Queue]:
    """The queues served here that may have copies: by their policy, or as quorum queues.

    All of them are gone through when a node goes or comes, and most are of neither kind.
    """
    here, policies = vhost.queues_here(), vhost.policies
    is_any_mirrored = any(
        "ha-mode" in each.policy.definition for each in policies.policies.policies
    )
    return [
        queue
        for queue in here
        if queue.settings.queue_type is QueueType.QUORUM
        or (is_any_mirrored and "ha-mode" in policies.of_queue(queue.record).effective)
    ]
