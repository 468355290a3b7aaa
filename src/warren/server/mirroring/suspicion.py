"""Suspicion: expels unreachable members that hold up a queue, and moves masters that are cut off.

`mirror.reach` has the rules. A link that is down for a moment is no reason. While it stays down the
groups are looked at again and again: a member that comes in or goes changes who is whose neighbour.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from warren.cluster.control import OutOfReach
from warren.metadata.keys import KeyKind, parse_key
from warren.metadata.store import Change
from warren.mirror.reach import better_placed, blocking_members, is_believed
from warren.server.logs import EventLog
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
        self.unreachable: set[str] = set()
        """Nodes that have a session, and no link from here for `SUSPECT_S` and longer."""

    def link_up(self, node: str) -> None:
        timer = self._watched.pop(node, None)
        if timer is not None:
            timer.cancel()
        self._reached(node)

    def _reached(self, node: str) -> None:
        """The node is linked again, or gone."""
        if node in self.unreachable:
            self.unreachable.discard(node)
            self._mirrors.cluster.states.tell()

    def link_down(self, node: str) -> None:
        if node not in self._watched:
            self._look_later(node)

    def _look_later(self, node: str) -> None:
        loop = asyncio.get_running_loop()
        self._watched[node] = loop.call_later(SUSPECT_S, self._look, node)

    def _look(self, node: str) -> None:
        if self._mirrors.is_linked(node) or node not in self._mirrors.cluster.sessions:
            del self._watched[node]
            self._reached(node)
            return
        self._look_later(node)
        if node not in self.unreachable:
            self.unreachable.add(node)
            self._mirrors.cluster.states.tell()
        self._expel(node)
        self._move_masters()

    def _expel(self, node: str) -> None:
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

    # Masters that are in the wrong place.

    def follow(self, changes: Sequence[Change]) -> None:
        """Nodes have told their states: one may say that it cannot reach this node."""
        keys = [parse_key(change.key) for change in changes]
        if any(key is not None and key.kind is KeyKind.NODE_STATE for key in keys):
            self._move_masters()

    def _move_masters(self) -> None:
        """Hand over to mirrors from where more nodes can be served."""
        cluster = self._mirrors.cluster
        cuts = {node: state.unreachable for node, state in cluster.states.others.items()}
        if not any(cluster.name in unreachable for unreachable in cuts.values()):
            return
        # A successor is to be linked now, not only until lately.
        cuts[cluster.name] = tuple(n for n in cluster.sessions if not self._mirrors.is_linked(n))
        for host in tuple(self._mirrors.replicas.values()):
            record = host.replica.record
            if record is None or host.replica.master is None or host.replica.is_handing_over:
                continue
            successor = better_placed(record, cluster.nodes_taking_part, cuts)
            if successor is not None:
                _log.warning(
                    "master hands over: a mirror reaches nodes that cannot reach this one",
                    queue=str(host),
                    successor=successor,
                )
                keeps_copy = self._mirrors.keeper.is_fixed(host)
                host.replica.hand_over(successor, keeps_copy=keeps_copy)
