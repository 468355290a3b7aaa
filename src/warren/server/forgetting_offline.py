"""Forgets a node of a cluster that has none running: `forget_cluster_node --offline`.

RabbitMQ needs this where a node waits for one that will never come: a stopped node is opened by
the tool, and takes the other out of its own files. Here a node waits for nobody, and all it has of
the others is in etcd. So the tool asks etcd, and does what a running node would do: the member
goes first, then no copy of a mirrored queue counts on it any more, then what it alone had goes.

That nobody runs is checked once, before anything is changed. A node that starts in the middle is
no harm: each step is a compare-and-set that every node obeys, as if another node had made it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from warren.auth.access import AccessControl
from warren.broker.broker import Broker
from warren.broker.placement import SingleNode
from warren.cluster.lifetimes import is_only_on
from warren.cluster.members import NotInCluster
from warren.cluster.view import ClusterView
from warren.metadata.codec import decode_queue
from warren.metadata.etcd import EtcdStore
from warren.metadata.etcd_address import EtcdAddress
from warren.metadata.keys import KeyKind, member_key, node_key, parse_key, prefix
from warren.metadata.store import Change, Check, Delete, MetadataStore
from warren.model.counters import MessageCounters
from warren.model.records import QueueName, QueueRecord
from warren.queues.boundary import AbstractQueue
from warren.queues.settings import QueueSettings, QueueType, queue_type_of
from warren.replication.group_record import decode_record, forget_node
from warren.server.clock import LoopClock
from warren.server.context import new_token
from warren.server.forgetting import forget_copies


class CannotForget(Exception):
    """The text says why, in RabbitMQ's words where it has some."""


def _running(nodes: list[str]) -> CannotForget:
    return CannotForget(
        f"{', '.join(nodes)}: running, or killed a moment ago. --offline is for a cluster that "
        "has no node running: ask one of these without it"
    )


class StoredQueue(AbstractQueue):
    """A queue that nobody serves: it can be known, and deleted."""

    def __init__(self, record: QueueRecord, settings: QueueSettings) -> None:
        self.record = record
        self.settings = settings
        self.counters = MessageCounters()
        self.is_deleted = False

    def apply_settings(self, settings: QueueSettings) -> None:
        self.settings = settings

    def delete(self) -> None:
        self.is_deleted = True


class NoTopology:
    """The topology of a view that is asked for groups alone."""

    def record_of(self, name: QueueName) -> QueueRecord | None:
        return None

    def policy_of(self, record: QueueRecord) -> Mapping[str, object]:
        return {}

    def is_here(self, name: QueueName) -> bool:
        return False

    def names(self) -> Sequence[QueueName]:
        return ()

    def names_here(self, vhost: str | None = None) -> list[QueueName]:
        return []

    def masters_declared(self) -> Counter[str]:
        return Counter()


class OfflinePlacement(SingleNode):
    """The placement of a broker that only deletes: mirrored queues go with their groups."""

    def __init__(self, view: ClusterView) -> None:
        super().__init__(StoredQueue)
        self._view = view

    def companions(self, vhost: str, queue: str) -> Sequence[str]:
        return self._view.group_keys(vhost, queue)


async def forget_offline(address: EtcdAddress, cluster: str, node: str) -> int:
    """For good, with the queues that it alone had; says how many those were.

    Raises CannotForget or MetadataError.
    """
    store = EtcdStore(address, cluster)
    await store.open()
    try:
        await _require_nobody_runs(store)
        if await store.get(member_key(node)) is None:
            raise CannotForget(f"{{:not_a_cluster_node, '{NotInCluster()}'}}")
        if not await store.transact([Check(node_key(node), 0)], [Delete(member_key(node))]):
            raise _running([node])
        await forget_copies(store, node)
        return await _drop_queues(store, node)
    finally:
        await store.close()


async def lost_offline(address: EtcdAddress, cluster: str, node: str) -> dict[str, object]:
    """Return what `forget_offline` would delete, as the API of a running node says it.

    Raises CannotForget or MetadataError.
    """
    store = EtcdStore(address, cluster)
    await store.open()
    try:
        await _require_nobody_runs(store)
        groups = {
            _parts(stored.key): decode_record(stored.value)
            for stored in await store.range(prefix(KeyKind.GROUP))
        }
        stored = await store.range(prefix(KeyKind.QUEUE))
        records = [decode_queue(queue.value) for queue in stored]
    finally:
        await store.close()
    gone, behind = [], []
    for record in records:
        group = groups.get((record.vhost, record.name))
        after = None if group is None else forget_node(group, node)
        if group is None and record.node != node:
            continue
        if after is None:
            gone.append(record)
        elif group is not None and not set(group.insync) & set(after.insync):
            behind.append(record)
    streams = sum(queue_type_of(record.arguments) is QueueType.STREAM for record in gone)
    return {
        "node": node,
        "running": False,
        "queues": len(gone) - streams,
        "streams": streams,
        "messages": None,
        "bytes": None,
        "everything": False,
        "named": [_named(record) for record in gone],
        "unsynchronised": [_named(record) for record in behind],
    }


def _named(record: QueueRecord) -> dict[str, object]:
    kind = queue_type_of(record.arguments).value
    return {"vhost": record.vhost, "name": record.name, "type": kind, "messages": None}


async def _require_nobody_runs(store: MetadataStore) -> None:
    sessions = await store.range(prefix(KeyKind.NODE))
    if sessions:
        raise _running([_parts(session.key)[0] for session in sessions])


async def _drop_queues(store: MetadataStore, node: str) -> int:
    view = ClusterView("", NoTopology())
    for kind in (KeyKind.GROUP, KeyKind.CHOSEN_NODES):
        view.apply([Change(r.key, r) for r in await store.range(prefix(kind))])
    placement = OfflinePlacement(view)
    broker = Broker(store, AccessControl(), placement, new_token, LoopClock())
    await broker.start()
    try:
        vhosts = broker.vhosts.values()
        return sum([await v.drop_lost(partial(_is_lost, view, node)) for v in vhosts])
    finally:
        await broker.stop()


def _is_lost(view: ClusterView, node: str, record: QueueRecord) -> bool:
    return is_only_on(view, record, node)


def _parts(key: str) -> tuple[str, ...]:
    parsed = parse_key(key)
    assert parsed is not None, "it was found by the prefix of its kind"
    return parsed.parts
