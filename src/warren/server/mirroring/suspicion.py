"""Has those put out whom this node cannot reach, where that holds up a queue: see `mirror.reach`.

A link that is down for a moment is no reason. One that stays so is looked at again and again: who
comes in or goes may have become a neighbour of whom cannot be reached.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from warren.cluster.control import OutOfReach
from warren.mirror.reach import blocking_members, is_believed
from warren.model.logs import EventLog
from warren.server.mirroring.replica_host import ReplicaOfNode

if TYPE_CHECKING:
    from warren.server.mirroring.mirrors import Mirrors

SUSPECT_S: Final = 2.0
"""A mirror that there is no link to for so long is put out: confirms wait for it."""

_log = EventLog("mirror")


class Suspicion:
    def __init__(self, mirrors: Mirrors) -> None:
        self._mirrors = mirrors
        self._watched: dict[str, asyncio.TimerHandle] = {}

    def link_up(self, node: str) -> None:
        timer = self._watched.pop(node, None)
        if timer is not None:
            timer.cancel()

    def link_down(self, node: str) -> None:
        if node not in self._watched:
            self._look_later(node)

    def _look_later(self, node: str) -> None:
        loop = asyncio.get_running_loop()
        self._watched[node] = loop.call_later(SUSPECT_S, self._look, node)

    def _look(self, node: str) -> None:
        if self._mirrors.is_linked(node) or node not in self._mirrors.cluster.sessions:
            del self._watched[node]
            return
        self._look_later(node)
        for host in tuple(self._mirrors.replicas.values()):
            record = host.replica.record
            if record is None or host.replica.is_stopped:
                continue
            me, leader = host.replica.me.id, record.find(record.leader)
            for suspect in blocking_members(record, me, node):
                if host.replica.master is not None:
                    self._put_out(host, node, suspect)
                elif leader is not None:
                    self._mirrors.tell(leader.node, OutOfReach(record.uid, me, suspect))

    def told(self, host: ReplicaOfNode, news: OutOfReach) -> None:
        """A mirror says that it cannot reach another one."""
        record = host.replica.record
        if host.replica.master is None or record is None:
            return
        suspect = record.find(news.suspect)
        if suspect is not None and is_believed(record, news.member, suspect.id):
            self._put_out(host, suspect.node, suspect.id)

    def _put_out(self, host: ReplicaOfNode, node: str, member: str) -> None:
        _log.warning("mirror cannot be reached", queue=str(host), node=node)
        host.replica.expel(member)
