"""Reachability: expels unreachable members that block a queue, and moves masters that are cut off.

`mirror.reach` has the rules. A link that is down for a moment is no reason. While it stays down the
groups are looked at again and again: a member that comes in or goes changes who is whose neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warren.cluster.actions import PublishState, TellNode
from warren.cluster.copy_planning import is_fixed
from warren.cluster.effects import Effects
from warren.cluster.link.control import OutOfReach
from warren.cluster.node_replica import NodeReplica
from warren.cluster.view import ClusterView
from warren.model.logs import EventLog
from warren.model.records import QueueName
from warren.replication.reach import better_placed, blocking_members, is_believed

GRACE_MS: Final = 250
"""Time for another link after one that was silent too long: it may be the link alone that broke."""

_log = EventLog("mirror")


class Reachability:
    """`replicas` are those of this node, by queue.

    A member that was silent, or had no link, for `limit_ms` is expelled: confirms wait for it.
    """

    def __init__(
        self,
        view: ClusterView,
        effects: Effects,
        replicas: Mapping[QueueName, NodeReplica],
        limit_ms: int,
    ) -> None:
        self.unreachable: set[str] = set()
        """Nodes that have a session, and nothing was heard of them here for `limit_ms`."""
        self._view = view
        self._effects = effects
        self._replicas = replicas
        self._limit_ms = limit_ms
        self._timers: dict[str, int] = {}

    def link_up(self, node: str) -> None:
        """The node is linked again, or its session has ended."""
        timer = self._timers.pop(node, None)
        if timer is not None:
            self._effects.cancel(timer)
        if node in self.unreachable:
            self.unreachable.discard(node)
            self._effects.add(PublishState())

    def link_down(self, node: str, silent_ms: int = 0) -> None:
        """Begin to count; the time for which the link brought nothing before counts, too."""
        if node not in self._timers:
            self._look_later(node, max(self._limit_ms - silent_ms, GRACE_MS))

    def _look_later(self, node: str, delay_ms: int) -> None:
        self._timers[node] = self._effects.call_later(delay_ms, lambda: self._look(node))

    def _look(self, node: str) -> None:
        self._look_later(node, self._limit_ms)
        if node not in self.unreachable:
            self.unreachable.add(node)
            self._effects.add(PublishState())
        for host in tuple(self._replicas.values()):
            self._expel_blocking(host, node)
        self.move_masters()

    def _expel_blocking(self, host: NodeReplica, node: str) -> None:
        """Expel the members on that node that block the queue, or ask the master to."""
        record = host.replica.record
        if record is None or host.replica.is_stopped:
            return
        me, leader = host.replica.me.id, record.find(record.leader)
        for suspect in blocking_members(record, me, node):
            if host.replica.master is not None:
                self._expel(host, node, suspect)
            elif leader is not None:
                report = OutOfReach(record.uid, me, suspect)
                self._effects.add(TellNode(leader.node, report))

    def reported(self, host: NodeReplica, news: OutOfReach) -> None:
        """A mirror says that it cannot reach another one."""
        record = host.replica.record
        if host.replica.master is None or record is None:
            return
        suspect = record.find(news.suspect)
        if suspect is not None and is_believed(record, news.member, suspect.id):
            self._expel(host, suspect.node, suspect.id)

    def _expel(self, host: NodeReplica, node: str, member: str) -> None:
        _log.warning("mirror cannot be reached: it is expelled", queue=str(host), node=node)
        host.note("expels an unreachable member", member)
        host.replica.expel(member)

    def move_masters(self) -> None:
        """Hand over to mirrors from where more nodes can be served."""
        view = self._view
        if not any(view.name in unreachable for unreachable in view.cuts.values()):
            return
        # A successor has to be linked now, not only until lately.
        missed = tuple(node for node in view.sessions if node not in view.linked)
        cuts = {**view.cuts, view.name: missed}
        for host in tuple(self._replicas.values()):
            record = host.replica.record
            if record is None or host.replica.master is None or host.replica.is_handing_over:
                continue
            successor = better_placed(record, view.nodes_in_service, cuts)
            if successor is not None:
                self._hand_over(host, successor)

    def _hand_over(self, host: NodeReplica, successor: str) -> None:
        _log.warning(
            "master hands over: a mirror reaches nodes that cannot reach this one",
            queue=str(host),
            successor=successor,
        )
        host.note("hands over to a mirror that reaches more nodes", successor)
        keeps_copy = is_fixed(host.mirroring)
        host.replica.hand_over(successor, keeps_copy=keeps_copy)
