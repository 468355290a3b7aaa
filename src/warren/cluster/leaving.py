"""Leaving: a node that is drained or stopped hands over the queues that it leads.

Mirrors that lack nothing, on nodes in service, are to lead; the node waits for that, but not for
ever. Where there is none, a node that stops writes into the group's record that the queue waits
for it, unless the policy would rather lose messages (`ha-promote-on-shutdown`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from warren.cluster.actions import Left
from warren.cluster.copy_planning import is_fixed, successor_of
from warren.cluster.effects import Effects
from warren.cluster.node_replica import NodeReplica
from warren.cluster.view import ClusterView, ViewChange
from warren.metadata.keys import group_key
from warren.metadata.store import Check, Put
from warren.model.logs import EventLog
from warren.model.records import QueueName
from warren.replication.group_record import NotAllowed, encode_record, node_of, stop

HAND_OVER_MS_MAX: Final = 10_000
"""A node that leaves does not wait longer for others to take over."""
LOOK_AGAIN_MS: Final = 500

_log = EventLog("mirror")


class Replicas(Protocol):
    def led(self, names: Iterable[QueueName] | None = None) -> Iterable[NodeReplica]:
        """Replicas of this node that lead a queue that exists; of these names, or of all."""
        ...


class Leaving:
    def __init__(self, view: ClusterView, effects: Effects, replicas: Replicas) -> None:
        self.is_stopping = False
        self._view = view
        self._effects = effects
        self._replicas = replicas
        self._is_handing_over = False
        self._timer = 0
        self._again = 0
        """Timer of the next look at all queues; 0 if there is none."""
        self._moving: set[QueueName] = set()
        self._unanswered = 0
        self._left_disks: set[str] = set()
        """Virtual hosts whose masters were looked at in this turn, because of a full disk."""

    def begin(self, *, is_stopping: bool) -> None:
        self.is_stopping = self.is_stopping or is_stopping
        self._is_handing_over = True
        self._effects.cancel(self._timer)
        self._timer = self._effects.call_later(HAND_OVER_MS_MAX, self._end)
        self.go_on()

    def cancel(self) -> None:
        """The node is in service again."""
        self._is_handing_over = False
        self._effects.cancel(self._timer)
        self._effects.cancel(self._again)
        self._again = 0

    def go_on(self, changed: ViewChange | None = None) -> None:
        """Something has changed: hand over what can be, and see what has been.

        Each of a thousand queues that move is a change of its own, so only the queues that it is
        about are looked at, and all of them a while later: what was refused is tried again.
        """
        if not self._is_handing_over:
            return
        if changed is None or changed.is_about_all:
            self._look(self._replicas.led(), self._moving)
            return
        names = dict.fromkeys((*changed.queues, *(name for name, _ in changed.groups)))
        if not self._again:
            self._again = self._effects.call_later(LOOK_AGAIN_MS, self._look_again)
        self._look(self._replicas.led(names), names)

    def _look_again(self) -> None:
        self._again = 0
        self.go_on()

    def _look(self, hosts: Iterable[NodeReplica], names: Iterable[QueueName]) -> None:
        nodes = self._view.nodes_in_service
        for host in hosts:
            if self._hand_over(host, nodes):
                self._moving.add(host.name)
        self._moving = self._moving.difference([name for name in names if self._has_moved(name)])
        if not self._moving:
            self._end()

    def leave_full_disk(self, vhost: str) -> None:
        """The disk takes nothing: mirrors lead that lack nothing, and whose disks have room.

        All masters of the virtual host go, since they share its journal. Consumers are served, and
        publishes that are under way are confirmed, by the mirrors that lead instead.
        """
        if vhost in self._left_disks:
            return  # each message that is refused asks, and one look per turn answers them all
        self._left_disks.add(vhost)
        self._effects.at_end_of_turn(lambda: self._left_disks.discard(vhost))
        nodes = [n for n in self._view.nodes_in_service if n not in self._view.short_of_disk]
        for host in self._replicas.led():
            is_candidate = host.name[0] == vhost and not host.replica.is_handing_over
            if is_candidate and self._hand_over(host, nodes):
                host.note("hands over: its disk takes nothing")
                _log.warning("disk takes nothing: master hands over", queue=str(host))

    def _hand_over(self, host: NodeReplica, nodes: Sequence[str]) -> bool:
        """Have a synchronised mirror on one of the nodes lead; False if there is none."""
        record = host.replica.record
        successor = None if record is None else successor_of(record, nodes)
        if successor is None:
            return False
        queue = self._view.topology.record_of(host.name)
        mirroring = None if queue is None else self._view.mirroring_of(queue)
        keeps_copy = self.is_stopping or is_fixed(mirroring)
        host.replica.hand_over(successor.id, keeps_copy=keeps_copy)
        return True

    def _has_moved(self, name: QueueName) -> bool:
        """True if another node leads, or there is nothing to be led any more."""
        group = self._view.group_of(name)
        if group is None:
            return True
        return group.is_live(group.leader) and node_of(group.leader) != self._view.name

    def _end(self) -> None:
        if not self._is_handing_over:
            return
        self.cancel()
        if self.is_stopping:
            for host in tuple(self._replicas.led()):
                self._stop(host)
                self._fall_silent(host)
        if not self._unanswered:
            self._effects.add(Left())

    def _fall_silent(self, host: NodeReplica) -> None:
        """Neither confirm nor deliver any more, if a mirror leads once this node's session ends.

        Clients are said goodbye to after that, so the queue would have two masters for a moment.
        """
        record = host.replica.record
        if record is not None and len(record.insync) > 1:
            host.replica.block(True)

    def _stop(self, host: NodeReplica) -> None:
        """Write down that the queue waits for this node, which alone has everything."""
        queue = self._view.topology.record_of(host.name)
        mirroring = None if queue is None else self._view.mirroring_of(queue)
        if mirroring is not None and mirroring.promotes_unsynced_on_shutdown:
            return
        assert host.replica.record is not None, "a master has read there that it is one"
        try:
            stopped = stop(host.replica.record, host.replica.me.id)
        except NotAllowed:
            return
        self._unanswered += 1
        key = group_key(*host.name)
        put = Put(key, encode_record(stopped))

        def answered(is_stored: bool) -> None:
            self._unanswered -= 1
            if is_stored:
                _log.warning(
                    "no mirror is synchronised: the queue is down until this node is back",
                    queue=str(host),
                )
            if not self._unanswered:
                self._effects.add(Left())

        self._effects.commit([Check(key, host.replica.revision)], [put], answered)
