"""Lifetimes of queues that have copies: with which node a queue ends, and with which it does not.

A queue that is not durable ends with its node: its record is put with that node's lease. One that
is mirrored lives on in its copies, so its record, and its bindings, are put without a lease: from
the start if a policy wants copies then, else before its group begins. The node that sees that the
last copy is gone removes the queue; if no node is left to see it, the next node to start does
(`transient_exchanges`).

A durable queue waits for a node that has all of it, if its policy would rather have it wait than
lose messages. What the policy says of nodes that fail, mirrors see to; a node that stops in good
order says in the group's record what shall be (`leaving`).
"""

from __future__ import annotations

from warren.cluster.view import ClusterView
from warren.model.records import QueueName, QueueRecord
from warren.replication.group_record import node_of


def outlives_master(view: ClusterView, record: QueueRecord) -> bool:
    """True if a queue that is not durable has, or is about to have, other copies."""
    if record.exclusive:
        return False
    is_mirrored = view.group_of((record.vhost, record.name)) is not None
    return is_mirrored or view.mirroring_of(record) is not None


def is_only_on(view: ClusterView, record: QueueRecord, node: str) -> bool:
    """True if the queue is lost without that node."""
    group = view.group_of((record.vhost, record.name))
    if group is None:
        return record.node == node
    return all(node_of(member) == node for member in group.insync)


def lost_names(view: ClusterView) -> frozenset[QueueName]:
    """Transient queues whose last copy ended with a node."""
    found = []
    for name in view.topology.names():
        record = view.topology.record_of(name)
        if record is not None and _is_lost(view, record):
            found.append(name)
    return frozenset(found)


def _is_lost(view: ClusterView, record: QueueRecord) -> bool:
    if record.durable or not outlives_master(view, record):
        return False
    is_elsewhere = not view.topology.is_here((record.vhost, record.name))
    is_running = view.master_of(record) in view.running_nodes
    return is_elsewhere and not is_running and not view.survivors_of(record)
