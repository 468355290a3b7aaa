"""Forgets a node of a cluster that has none running: `forget_cluster_node --offline`.

RabbitMQ needs this where a node waits for one that will never come: a stopped node is opened by
the tool, and takes the other out of its own files. Here a node waits for nobody, and all it has of
the others is in etcd. So the tool asks etcd, and does what a running node would do: the member
goes first, then no copy of a mirrored queue counts on it any more, then what it alone had goes.

That nobody runs is checked once, before anything is changed. A node that starts in the middle is
no harm: each step is a compare-and-set that every node obeys, as if another node had made it.
"""

from __future__ import annotations

from warren.auth.access import AccessControl
from warren.broker.broker import Broker
from warren.cluster.members import NotInCluster
from warren.metadata.etcd import EtcdStore
from warren.metadata.etcd_address import EtcdAddress
from warren.metadata.keys import KeyKind, group_key, member_key, node_key, parse_key, prefix
from warren.metadata.store import Check, Delete, MetadataStore
from warren.mirror.group_record import decode_record, node_of
from warren.model.counters import MessageCounters
from warren.model.records import QueueRecord
from warren.queues.boundary import AbstractQueue
from warren.queues.settings import QueueSettings
from warren.server.clock import LoopClock
from warren.server.context import new_token
from warren.server.mirroring.forgetting import forget_copies


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


async def _require_nobody_runs(store: MetadataStore) -> None:
    sessions = await store.range(prefix(KeyKind.NODE))
    if sessions:
        raise _running([_parts(session.key)[0] for session in sessions])


async def _drop_queues(store: MetadataStore, node: str) -> int:
    broker = Broker(store, AccessControl(), StoredQueue, new_token, LoopClock())
    groups = {
        _parts(record.key): decode_record(record.value)
        for record in await store.range(prefix(KeyKind.GROUP))
    }
    broker.companions_of_queue = lambda *name: [group_key(*name)] if name in groups else []

    def is_lost(record: QueueRecord) -> bool:
        group = groups.get((record.vhost, record.name))
        if group is None:
            return record.node == node
        return all(node_of(member) == node for member in group.insync)

    await broker.start()
    try:
        return sum([await vhost.drop_lost(is_lost) for vhost in broker.vhosts.values()])
    finally:
        await broker.stop()


def _parts(key: str) -> tuple[str, ...]:
    parsed = parse_key(key)
    assert parsed is not None, "it was found by the prefix of its kind"
    return parsed.parts
