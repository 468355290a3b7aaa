"""The copies of a mirrored queue, in the fields in which RabbitMQ's tools expect them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warren.management.cluster.masters import sync_of
from warren.management.json_types import JsonObject
from warren.model.records import QueueRecord
from warren.policy.wanted_copies import mirroring_of
from warren.queues.boundary import AbstractQueue
from warren.replication.group_changes import mirrors_of, recoverable_of, synchronised_of
from warren.replication.group_record import GroupRecord, node_of
from warren.server.quorum_members import members_of, online_of

if TYPE_CHECKING:
    from warren.server.node import Node


def group_of(record: QueueRecord, node: Node) -> GroupRecord | None:
    """None of a queue that is not mirrored."""
    if node.cluster is None:
        return None
    return node.cluster.view.group_of((record.vhost, record.name))


def show_copies(record: QueueRecord, node: Node) -> JsonObject:
    group = group_of(record, node)
    if group is None or node.cluster is None or _is_left_alone(record, group, node):
        return _uncopied(record, node)
    present = node.cluster.view.survivors_of(record)
    recoverable = recoverable_of(group, present, node.cluster.running_nodes)
    return {
        "slave_nodes": mirrors_of(group, present),
        "synchronised_slave_nodes": synchronised_of(group, present),
        "recoverable_slaves": recoverable if record.durable else None,
    }


def _is_left_alone(record: QueueRecord, group: GroupRecord, node: Node) -> bool:
    """No policy mirrors it any more: what is left of its group says where it has moved to."""
    assert node.cluster is not None, "a queue that is mirrored is one of a cluster"
    return len(group.members) == 1 and node.cluster.view.mirroring_of(record) is None


def _uncopied(record: QueueRecord, node: Node) -> JsonObject:
    """As RabbitMQ, a node that is alone shows that a queue would have mirrors, and has none."""
    policy = node.broker.vhosts[record.vhost].policies.of_queue(record).effective
    if record.exclusive or mirroring_of(policy) is None:
        return {"recoverable_slaves": None}
    return {
        "slave_nodes": [],
        "synchronised_slave_nodes": [],
        "recoverable_slaves": [] if record.durable else None,
    }


def show_members(record: QueueRecord, node: Node) -> JsonObject:
    """The copies of a quorum queue or a stream, as RabbitMQ shows them."""
    group = group_of(record, node)
    if group is None or node.cluster is None:
        home = record.node or node.config.name
        running = [node.config.name] if node.cluster is None else node.cluster.running_nodes
        online = [home] if home in running else []
        return {"leader": home, "members": [home], "online": online}
    view = node.cluster.view
    return {
        "leader": view.master_of(record),
        "members": list(members_of(view, record)),
        "online": online_of(view, group),
    }


def last_master_of(record: QueueRecord, node: Node) -> str:
    """Of a queue that has none at the moment."""
    group = group_of(record, node)
    return record.node if group is None else node_of(group.leader)


def led_without_synchronised(node: Node) -> Iterator[QueueRecord]:
    """Mirrored queues of this node that nobody else could go on with, as they are."""
    for queue in _led_here(node):
        if not show_copies(queue.record, node)["synchronised_slave_nodes"]:
            yield queue.record


def _led_here(node: Node) -> Iterator[AbstractQueue]:
    for vhost in node.broker.vhosts.values() if node.cluster is not None else ():
        for queue in vhost.queues_here():
            if group_of(queue.record, node) is not None:
                yield queue


def show_ring(queue: AbstractQueue, node: Node) -> JsonObject:
    """Its members in their order, the dead who are not forgotten yet among them.

    Only the leader knows what mirrors lack, and `lacking` is None where nobody can say.
    """
    group = group_of(queue.record, node)
    if group is None:
        return {"is_mirrored": False, "members": []}
    sync = sync_of(queue, node)
    lacking = {} if sync is None else sync.synchroniser.lacking_counts
    return {
        "is_mirrored": True,
        "epoch": group.epoch,
        "view": group.view,
        "state": group.state.value,
        "members": [
            {
                "node": member.node,
                "is_leader": member.id == group.leader,
                "is_live": not member.is_dead,
                "is_in_sync": member.id in group.insync,
                "joined_view": member.joined_view,
                "lacking": 0 if member.id in group.insync else lacking.get(member.id),
            }
            for member in group.members
        ],
        "is_syncing": sync is not None and sync.synchroniser.is_syncing,
        "sync_messages": 0 if sync is None else sync.synchroniser.sent_count,
    }
