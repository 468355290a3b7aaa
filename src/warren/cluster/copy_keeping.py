"""Keeping copies: a node carries out the plans for the copies of the queues that it serves.

`copy_planning` says what has to be done; here it is done, remembered until it has happened, and
tried again if it has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, assert_never

from warren.cluster.actions import RenewQueue, TellNode
from warren.cluster.copy_planning import (
    BeginGroup,
    Dissolve,
    ExpelMember,
    HandOverTo,
    Invite,
    Step,
    Synchronise,
    UnderWay,
)
from warren.cluster.copy_planning import plan as make_plan
from warren.cluster.link.control import BecomeMirror
from warren.cluster.node_replica import NodeReplica, ReplicaParts
from warren.cluster.relocations import Relocations
from warren.metadata.keys import group_key
from warren.metadata.store import Check, Delete
from warren.model.records import QueueName
from warren.policy.wanted_copies import Choose
from warren.replication.classic.instructions import epoch_of

RETRY_MS: Final = 1_000
"""After the store has refused, or could not be reached, or a disk has."""
INVITATION_MS_MAX: Final = 5_000
"""A node that has not become a mirror by then is asked again, or another one is."""


class PlanSurroundings(Protocol):
    """The part of a node that plans ask, and that answers at once."""

    choose: Choose

    def new_token(self) -> str: ...

    def next_sequence(self, name: QueueName) -> int:
        """Next number of a queue here: above 0 if it was mirrored, or had messages, before."""
        ...


class PlanningNode(Protocol):
    replicas: dict[QueueName, NodeReplica]

    def may_plan(self) -> bool:
        """True while this node has a session, and is not about to stop."""
        ...

    def add_replica(self, name: QueueName, uid: str) -> NodeReplica: ...


class CopyKeeping:
    def __init__(self, parts: ReplicaParts, around: PlanSurroundings, node: PlanningNode) -> None:
        self.relocations = Relocations(parts.view, parts.effects, self.plan)
        self._view = parts.view
        self._effects = parts.effects
        self._stories = parts.stories
        self._around = around
        self._node = node
        self._beginning: set[QueueName] = set()
        """Transient queues whose record is being stored without a lease."""

    def under_way(self, name: QueueName) -> UnderWay:
        """Return what this node is doing about a queue's copies already."""
        host = self._node.replicas.get(name)
        if host is None:
            return UnderWay(is_beginning=name in self._beginning)
        is_led = host.replica.master is not None
        return UnderWay(
            group=host.replica.record if is_led else None,
            has_replica=True,
            invited=frozenset(host.invited),
            expelled=frozenset(host.expelled),
            is_handing_over=host.replica.is_handing_over,
            is_dissolving=host.is_dissolving,
            lacks_synchronisation=host.sync is not None and host.sync.lacks_some,
            relocation=self.relocations.destination_of(name),
        )

    def plan(self, name: QueueName) -> None:
        if not self._node.may_plan():
            return
        for step in make_plan(self._view, name, self.under_way(name), self._around.choose):
            self._stories.note(name, "decides", step)
            self._do(name, step)
        host = self._node.replicas.get(name)
        if host is not None and host.sync is not None:
            host.sync.synchroniser.wake()  # mirrors that come back are brought up to date anyway

    def plan_all(self, vhost: str | None = None) -> None:
        names = [name for name in self._node.replicas if vhost is None or name[0] == vhost]
        for name in dict.fromkeys((*self._view.topology.names_here(vhost), *names)):
            self.plan(name)

    def overlooked(self) -> list[tuple[QueueName, Step]]:
        """Return what plans made now would do: nothing, unless a change was overlooked."""
        if not self._node.may_plan():
            return []
        names = dict.fromkeys((*self._view.topology.names_here(), *self._node.replicas))
        plans = [
            (name, make_plan(self._view, name, self.under_way(name), _first)) for name in names
        ]
        return [(name, step) for name, steps in plans for step in steps]

    def _do(self, name: QueueName, step: Step) -> None:
        host = self._node.replicas.get(name)
        if isinstance(step, BeginGroup):
            self._begin(name)
            return
        assert host is not None, "all other steps are a master's"
        match step:
            case Invite(node):
                self._invite(host, node)
            case ExpelMember(member, is_unwanted):
                host.expelled.add(member)
                host.replica.expel(member, is_unwanted=is_unwanted)
            case HandOverTo(member, keeps_copy):
                host.replica.hand_over(member, keeps_copy=keeps_copy)
            case Synchronise():
                assert host.sync is not None, "a master has one"
                host.sync.synchroniser.consider(True)
            case Dissolve():
                self._dissolve(host)
            case _:
                assert_never(step)

    def _invite(self, host: NodeReplica, node: str) -> None:
        host.invited.add(node)
        self._effects.add(TellNode(node, BecomeMirror(*host.name, host.replica.uid)))

        def ask_again() -> None:
            if self._node.replicas.get(host.name) is host and node in host.invited:
                host.invited.discard(node)
                self.plan(host.name)

        self._effects.call_later(INVITATION_MS_MAX, ask_again)

    def _begin(self, name: QueueName) -> None:
        record = self._view.topology.record_of(name)
        assert record is not None, "the plan was about it"
        if record.durable:
            self._begin_group(name)
        else:
            # Its record has to be stored without the lease of this node first: see `lifetimes`.
            self._beginning.add(name)
            self._effects.add(RenewQueue(name))

    def queue_renewed(self, name: QueueName, is_renewed: bool) -> None:
        if name not in self._beginning:
            return
        if is_renewed:
            self._beginning.discard(name)
            if name not in self._node.replicas and name not in self._view.groups:
                self._begin_group(name)
        else:
            self._effects.call_later(RETRY_MS, lambda: self._begin_later(name))

    def _begin_later(self, name: QueueName) -> None:
        self._beginning.discard(name)
        self.plan(name)

    def _begin_group(self, name: QueueName) -> None:
        """Begin a group, with what this node has of the queue."""
        host = self._node.add_replica(name, self._around.new_token())
        host.replica.record_changed(None, 0)
        host.replica.found(epoch_of(self._around.next_sequence(name)))

    def _dissolve(self, host: NodeReplica) -> None:
        """The queue is not mirrored any more: delete its group's record."""
        host.is_dissolving = True
        key = group_key(*host.name)

        def answered(is_stored: bool) -> None:
            if is_stored:
                record = self._view.topology.record_of(host.name)
                if record is not None and not record.durable:
                    self._effects.add(RenewQueue(host.name))
            else:
                self._effects.call_later(RETRY_MS, lambda: self._dissolve_later(host))

        self._effects.commit([Check(key, host.replica.revision)], [Delete(key)], answered)

    def _dissolve_later(self, host: NodeReplica) -> None:
        host.is_dissolving = False
        self.plan(host.name)


def _first(nodes: Sequence[str], number: int) -> Sequence[str]:
    return nodes[:number]
