"""The groups of all mirrored queues, as the store tells of them, and where that puts the queues."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from warren.metadata.keys import group_key
from warren.mirror.group_record import GroupRecord, Member, node_of
from warren.model.records import QueueRecord
from warren.server.mirroring.replica_host import QueueName

if TYPE_CHECKING:
    from warren.server.cluster import Cluster


class Groups:
    """`records`: with the version that the store has of each."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.records: dict[QueueName, tuple[GroupRecord, int]] = {}

    def group_of(self, record: QueueRecord) -> GroupRecord | None:
        entry = self.records.get((record.vhost, record.name))
        return None if entry is None else entry[0]

    def moved_masters(self) -> Counter[str]:
        """By node: how many more masters of mirrored queues it has than were declared there."""
        moved: Counter[str] = Counter()
        for (vhost, queue), (group, _) in self.records.items():
            at = self._cluster.broker.vhosts.get(vhost)
            found = None if at is None else at.queues.get(queue)
            if found is not None:
                moved[found.record.node] -= 1
                moved[node_of(group.leader)] += 1
        return moved

    def is_led_here(self, group: GroupRecord) -> bool:
        leader = group.find(group.leader)
        me = (self._cluster.name, self._cluster.incarnation)
        return leader is not None and (leader.node, leader.incarnation) == me

    def home_of(self, record: QueueRecord) -> str:
        """Empty while a mirrored queue has no leader."""
        group = self.group_of(record)
        if group is None:
            return record.node
        leader = group.find(group.leader)
        if leader is None or leader.is_dead or self.incarnation_of(leader) != leader.incarnation:
            return ""
        return leader.node

    def survivors_of(self, record: QueueRecord) -> list[Member]:
        """Whoever could be, or become, the home of a mirrored queue."""
        group = self.group_of(record)
        members = () if group is None else group.live
        alive = [m for m in members if self.incarnation_of(m) == m.incarnation]
        if group is None or any(m.id in group.insync for m in alive):
            return alive
        return alive if self._cluster.mirrors.lifetimes.may_lose_messages(record, group) else []

    def incarnation_of(self, member: Member) -> str:
        """Of the member's node, as it lives now."""
        if member.node == self._cluster.name:
            return self._cluster.incarnation
        session = self._cluster.sessions.get(member.node)
        return "" if session is None else session.incarnation

    def keys_of(self, vhost: str, queue: str) -> list[str]:
        """What goes from the store along with a queue."""
        return [group_key(vhost, queue)] if (vhost, queue) in self.records else []
