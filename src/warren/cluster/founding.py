"""Founding: a queue that should have copies is stored together with the group of all its copies.

One by one it would be a transaction for the queue, one for its group, and two for each mirror: one
to let it in, one to say that it is in sync. A client that declares 500 queues waits for each of
them. But a queue that does not exist yet has no messages, so a copy of it lacks nothing, wherever
it is. The node where the queue is declared therefore gives every copy its place in the first
record of the group, all of them in sync, and stores that record in the transaction that stores the
queue. Each node that reads it takes its place. The master waits for every mirror in the record
before it confirms anything, as it always does, so a confirmed message is on all of them.

It is not done, and mirrors are invited one by one, if that may not be true or may take long: a
node that should have a copy cannot be reached or has no room on its disk, or its disk may still
have something of an earlier queue of that name, which would come back with a crash (`is_clean`).
Streams, whose mirrors begin otherwise, are left to invitations, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from warren.cluster.view import ClusterView
from warren.model.records import QueueRecord
from warren.policy.wanted_copies import Choose, Copies, wanted_copies
from warren.queues.arguments import queue_type_of
from warren.queues.settings import QueueType
from warren.replication.group_record import (
    FOUNDING_VIEW,
    GroupRecord,
    Member,
    create_together,
    make_member_id,
)

FOUNDING_NUMBER: Final = 0
"""The number in the id of a member that a group began with; a node gives its own from 1 on."""


def founding_group(
    view: ClusterView,
    record: QueueRecord,
    uid: str,
    choose: Choose,
    is_clean: Callable[[list[str]], bool],
) -> GroupRecord | None:
    """Return the group that a new queue begins with; None if it has no copies, or begins alone.

    `is_clean`: true if these nodes have nothing left of an earlier queue of that name.
    """
    mirroring = view.mirroring_of(record)
    is_stream = queue_type_of(record.arguments) is QueueType.STREAM
    if mirroring is None or record.exclusive or is_stream:
        return None
    if view.group_of((record.vhost, record.name)) is not None:
        return None
    wanted = wanted_copies(mirroring, Copies(record.node), (), view.running_nodes, choose)
    nodes = [wanted.master, *wanted.mirrors]
    if wanted.master != record.node or not is_whole(view, nodes) or not is_clean(nodes):
        return None
    founder, *mirrors = [_member(view, node) for node in nodes]
    return create_together(uid, founder, mirrors)


def is_whole(view: ClusterView, nodes: list[str]) -> bool:
    """True if all nodes are within reach of this one, miss none of the others, and have room."""
    missed = {missed for node in nodes for missed in view.cuts.get(node, ())}
    is_reached = set(nodes) - {view.name} <= view.linked and bool(view.incarnation)
    return is_reached and missed.isdisjoint(nodes) and view.short_of_disk.isdisjoint(nodes)


def _member(view: ClusterView, node: str) -> Member:
    incarnation = view.incarnation_of(node)
    return Member(make_member_id(node, incarnation, FOUNDING_NUMBER), node, incarnation)


def founding_place(view: ClusterView, group: GroupRecord | None) -> Member | None:
    """Return the place that a group began with for this life of this node; None if it has none."""
    if group is None:
        return None
    me = group.find(make_member_id(view.name, view.incarnation, FOUNDING_NUMBER))
    is_mine = me is not None and not me.is_dead and me.joined_view == FOUNDING_VIEW
    return me if is_mine else None
