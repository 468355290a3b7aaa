"""Reach: which members of a group cannot be reached, who puts them out, and who leads instead.

A leader puts out the mirrors that it cannot reach. But the ring goes from mirror to mirror, too: if
two neighbours are cut from each other and the leader is not, it sees nothing wrong, and what it
says gets no further than the first of them. So that one tells it. Who speaks to whom is written in
the record, so a leader believes only the left-hand neighbour, and only about its right-hand one.

Putting a mirror out lets confirms go on, but not for clients of that mirror's node: their queue is
with a master that their node cannot reach. If a third node reaches both, the master hands over to
its copy, and everybody is served. Nodes tell each other through the store whom they cannot reach
(`cluster/node_states.py`), so a master knows the cuts that it does not see itself. Silence alone
never moves a master: a node must say itself that it cannot reach the master. A node that is cut off
from everybody cannot say that, and its session ends soon.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from warren.replication.gm.ring_view import RingView
from warren.replication.group_record import GroupRecord


def blocking_members(record: GroupRecord, me: str, node: str) -> list[str]:
    """Members on a node that `me` cannot reach, of whom it has to rid itself, or its leader."""
    on_node = [member.id for member in record.live if member.node == node]
    if record.leader == me:
        return on_node
    if not record.is_live(me):
        return []
    right = RingView(record).right_of(me).id
    return [right] if right in on_node and right != record.leader else []


def is_believed(record: GroupRecord, speaker: str, suspect: str) -> bool:
    """Whether the leader puts out whom a member says that it cannot reach."""
    if suspect == record.leader or not (record.is_live(speaker) and record.is_live(suspect)):
        return False
    return RingView(record).right_of(speaker).id == suspect


Cuts = Mapping[str, Collection[str]]
"""By node: the nodes that it says it cannot reach."""


def better_placed(record: GroupRecord, nodes: Collection[str], cuts: Cuts) -> str | None:
    """The mirror in sync, on one of `nodes`, that is to lead because it reaches more of them.

    None if the master is well placed. A mirror must reach strictly more nodes than the master does,
    so two nodes never hand a queue back and forth.
    """
    leader = record.find(record.leader)
    if leader is None:
        return None
    reached = _reached_by(leader.node, nodes, cuts)
    witnesses = {node for node in nodes if leader.node in cuts.get(node, ())}
    best, best_count = None, len(reached)
    for member in sorted(record.live, key=lambda each: each.joined_view):
        if member.id not in record.insync or member.node not in reached:
            continue
        reaches = _reached_by(member.node, nodes, cuts)
        if len(reaches) > best_count and witnesses & reaches:
            best, best_count = member.id, len(reaches)
    return best


def _reached_by(node: str, nodes: Collection[str], cuts: Cuts) -> set[str]:
    """A link needs both ends: one that either of them misses is none."""
    missed = cuts.get(node, ())
    return {each for each in nodes if each not in missed and node not in cuts.get(each, ())}
