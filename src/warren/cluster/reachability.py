"""Reachability: expel members that this node cannot reach, where that blocks a queue's confirms.

See `mirror.reach` for whom to expel and who is believed. A link that is down for a moment is no
reason. One that stays down is looked at again and again: membership changes can make an
unreachable node somebody's neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from warren.cluster.actions import TellNode
from warren.cluster.control import OutOfReach
from warren.cluster.effects import Effects
from warren.cluster.node_replica import NodeReplica
from warren.cluster.view import ClusterView
from warren.mirror.reach import blocking_members, is_believed
from warren.model.logs import EventLog

SUSPECT_MS: Final = 2_000
"""A member that there is no link to for so long is expelled: confirms wait for it."""

_log = EventLog("mirror")


class Reachability:
    """`replicas` returns those of this node."""

    def __init__(
        self,
        view: ClusterView,
        effects: Effects,
        replicas: Callable[[], Iterable[NodeReplica]],
    ) -> None:
        self._view = view
        self._effects = effects
        self._replicas = replicas
        self._timers: dict[str, int] = {}

    def link_up(self, node: str) -> None:
        timer = self._timers.pop(node, None)
        if timer is not None:
            self._effects.cancel(timer)

    def link_down(self, node: str) -> None:
        if node not in self._timers:
            self._look_later(node)

    def _look_later(self, node: str) -> None:
        self._timers[node] = self._effects.call_later(SUSPECT_MS, lambda: self._look(node))

    def _look(self, node: str) -> None:
        del self._timers[node]
        if node in self._view.linked or node not in self._view.sessions:
            return
        self._look_later(node)
        for host in tuple(self._replicas()):
            record = host.replica.record
            if record is None or host.replica.is_stopped:
                continue
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
