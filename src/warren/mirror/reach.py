"""Who cannot be reached and holds up a queue because of it, and who is to see to that.

A leader puts out the mirrors that it cannot reach. But the ring goes from mirror to mirror, too: if
two neighbours are cut from each other and the leader is not, it sees nothing wrong, and what it
says gets no further than the first of them. So that one tells it. Who speaks to whom is written in
the record, so a leader believes only the left-hand neighbour, and only about its right-hand one.
"""

from __future__ import annotations

from warren.mirror.group_record import GroupRecord
from warren.mirror.ring_view import RingView


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
