"""Placement: what a broker has to know of the nodes that there are, and of where queues live.

There are two implementations: `SingleNode` here, for which most questions have one answer, and a
cluster's (`server/cluster_placement.py`), which answers from its view of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from warren.metadata.store import CancelWatch, Lease, MetadataStore, Put, WatchCallback
from warren.model.logs import EventLog
from warren.model.records import QueueRecord
from warren.policy.quorum_queues import is_quorum
from warren.queues.boundary import AbstractQueue
from warren.queues.settings import QueueSettings

NODE_LEASE_TTL_S: Final = 30.0
"""What is not durable lives as long as the node does, and so much longer if it dies silently."""

NO_SIBLINGS: Final[Mapping[str, int]] = MappingProxyType({})

_log = EventLog("queue")

MakeQueue: TypeAlias = Callable[[QueueRecord, QueueSettings], AbstractQueue]


class WithExchanges(Protocol):
    """A virtual host, as far as its exchanges may be left without bindings."""

    async def remove_exchanges_without_bindings(self) -> None: ...


class Placement(Protocol):
    @property
    def lease_ttl_s(self) -> float:
        """Time to live of the lease that a node's transient queues are put with."""
        ...

    def make_queue(self, record: QueueRecord, settings: QueueSettings) -> AbstractQueue:
        """Make the queue that clients of this node use, wherever its master is."""
        ...

    def place(
        self,
        record: QueueRecord,
        policy: Mapping[str, object],
        siblings: Mapping[str, int] = NO_SIBLINGS,
    ) -> str:
        """Choose the node of a new queue, given its policy; empty if there is only one.

        `siblings`: how many partitions of its super stream each node leads, which are to be spread.
        """
        ...

    def lease_of(self, node: str) -> Lease | None:
        """Return the lease that a transient queue of a node is put with; None: this node's."""
        ...

    @property
    def ends_exchanges_with_node(self) -> bool:
        """True if transient exchanges end with this node; in a cluster, with the last one."""
        ...

    def watch(self, store: MetadataStore, apply: WatchCallback) -> CancelWatch:
        """Have the broker told of the store's changes, before anything is decided from them."""
        ...

    def outlives_master(self, record: QueueRecord) -> bool:
        """True if a queue that is not durable has, or will have, copies to live on in."""
        ...

    def is_masterless(self, record: QueueRecord) -> bool:
        """True if a mirrored queue is down: its messages are on nodes that do not run."""
        ...

    def founding(self, record: QueueRecord) -> Sequence[Put]:
        """Return what is to be stored along with a new queue, if it is not there yet."""
        ...

    def companions(self, vhost: str, queue: str) -> Sequence[str]:
        """Return the keys that go from the store along with a queue."""
        ...

    async def until_ready(self, *records: QueueRecord) -> None:
        """Wait until queues that have been declared have the copies that they should have."""
        ...

    def exchanges_lost_bindings(self, vhost: WithExchanges) -> None:
        """Auto-delete exchanges have lost their last binding with the lease of some node."""
        ...


class SingleNode:
    """The placement of a broker that is alone."""

    def __init__(self, make_queue: MakeQueue) -> None:
        self.lease_ttl_s = NODE_LEASE_TTL_S
        self.ends_exchanges_with_node = True
        self._make_queue = make_queue

    def make_queue(self, record: QueueRecord, settings: QueueSettings) -> AbstractQueue:
        return self._make_queue(record, settings)

    def place(
        self,
        record: QueueRecord,
        policy: Mapping[str, object],
        siblings: Mapping[str, int] = NO_SIBLINGS,
    ) -> str:
        return ""

    def lease_of(self, node: str) -> Lease | None:
        return None

    def watch(self, store: MetadataStore, apply: WatchCallback) -> CancelWatch:
        return store.watch(apply)

    def outlives_master(self, record: QueueRecord) -> bool:
        return False

    def is_masterless(self, record: QueueRecord) -> bool:
        return False

    def founding(self, record: QueueRecord) -> Sequence[Put]:
        return ()

    def companions(self, vhost: str, queue: str) -> Sequence[str]:
        return ()

    async def until_ready(self, *records: QueueRecord) -> None:
        """Nothing to wait for: there is one copy, and it is here, which a quorum queue says."""
        for record in records:
            if is_quorum(record.arguments):
                _log.warning(
                    "quorum queue has one copy: this node is not in a cluster", queue=str(record)
                )

    def exchanges_lost_bindings(self, vhost: WithExchanges) -> None:
        """Cannot happen: no other node's lease can end."""
