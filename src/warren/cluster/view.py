"""The view that a node has of its cluster: the one model from which all decisions are made.

    sessions   the other nodes that run, by name: which life of them, and where they can be reached
    linked     those of them that this node has a link to
    groups     the record of every mirrored queue's copies, with its version in the store
    topology   queues and policies, as the broker has applied them
    drained    nodes that are out of service
    cuts       whom each other node says that it cannot reach

A change of the store is applied in one order: first the topology (by the broker, before the
machine is told), then groups, then sessions. Only when all of it is in the view is anything
decided, so no decision is made from a policy that has been replaced, or a session that has ended,
in the same change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from warren.cluster.chosen_nodes import decode_chosen
from warren.cluster.node_states import NodeState, decode_state
from warren.cluster.sessions import Session, decode_session
from warren.flow.alarms import Resource
from warren.metadata.keys import KeyKind, ParsedKey, chosen_nodes_key, group_key, parse_key
from warren.metadata.store import Change
from warren.model.records import QueueName, QueueRecord
from warren.policy.quorum_queues import copies_wished
from warren.policy.wanted_copies import SYNC_BATCH_DEFAULT, Mirroring
from warren.replication.group_record import (
    GroupRecord,
    Member,
    QueueState,
    decode_record,
    node_of,
)


class Topology(Protocol):
    """Queues and policies, as this node has applied them."""

    def record_of(self, name: QueueName) -> QueueRecord | None: ...

    def policy_of(self, record: QueueRecord) -> Mapping[str, object]:
        """Return the effective policy of a queue, all policies merged."""
        ...

    def is_here(self, name: QueueName) -> bool:
        """True if this node serves the queue: it is the master, or the only copy."""
        ...

    def names(self) -> Iterable[QueueName]:
        """Names of all queues."""
        ...

    def names_here(self, vhost: str | None = None) -> list[QueueName]:
        """Names of queues served here that may have copies: by a policy, or as quorum queues."""
        ...

    def masters_declared(self) -> Counter[str]:
        """Number of queues by the node on which each was declared."""
        ...


class StoredGroup(NamedTuple):
    record: GroupRecord
    version: int


@dataclass(slots=True)
class ViewChange:
    """The difference that a change of the store made to the view."""

    groups: list[tuple[QueueName, GroupRecord | None]] = field(default_factory=list)
    """Groups that changed, each with its record before."""
    ended: list[Session] = field(default_factory=list)
    begun: list[Session] = field(default_factory=list)
    queues: list[QueueName] = field(default_factory=list)
    vhosts_of_policies: set[str] = field(default_factory=set)
    is_own_session_lost: bool = False
    is_any_state_changed: bool = False
    """Another node told what it is short of, whether it is in service, or whom it cannot reach."""

    @property
    def is_about_all(self) -> bool:
        """True if it may matter to queues that it does not name."""
        is_about_nodes = self.ended or self.begun or self.is_any_state_changed
        return bool(is_about_nodes or self.vhosts_of_policies)


class ClusterView:
    def __init__(self, name: str, topology: Topology) -> None:
        self.name = name
        self.incarnation = ""
        """The life of this node: that of the session put last."""
        self.topology = topology
        self.sessions: dict[str, Session] = {}
        self.linked: set[str] = set()
        self.given_up: set[str] = set()
        """Nodes with a session that clients do not wait for: no link for too long."""
        self.drained: set[str] = set()
        self.stopping: set[str] = set()
        """Other nodes that are about to end."""
        self.short_of_disk: set[str] = set()
        """Other nodes whose disk alarm is set."""
        self.cuts: dict[str, tuple[str, ...]] = {}
        """By other node: the nodes that it says it cannot reach."""
        self.groups: dict[QueueName, StoredGroup] = {}
        self.chosen: dict[QueueName, tuple[str, ...]] = {}
        """By quorum queue: the nodes that an operator chose for its copies."""

    # What the store tells.

    def apply(self, changes: Sequence[Change]) -> ViewChange:
        """Apply a change of the store, groups before sessions, and say what is different."""
        parsed = [(key, c) for c in changes if (key := parse_key(c.key)) is not None]
        changed = ViewChange()
        for key, change in parsed:
            if key.kind is KeyKind.GROUP:
                self._apply_group(key, change, changed)
            elif key.kind is KeyKind.CHOSEN_NODES:
                self._apply_chosen(key, change, changed)
            elif key.kind is KeyKind.QUEUE:
                changed.queues.append((key.parts[0], key.parts[1]))
            elif key.kind in (KeyKind.POLICY, KeyKind.OPERATOR_POLICY):
                changed.vhosts_of_policies.add(key.parts[0])
        for key, change in parsed:
            if key.kind is KeyKind.NODE:
                self._apply_session(key.parts[0], change, changed)
            elif key.kind is KeyKind.NODE_STATE and key.parts[0] != self.name:
                self._apply_state(key.parts[0], change)
                changed.is_any_state_changed = True
        return changed

    def _apply_group(self, key: ParsedKey, change: Change, changed: ViewChange) -> None:
        name = (key.parts[0], key.parts[1])
        before = self.group_of(name)
        if change.record is None:
            self.groups.pop(name, None)
        else:
            group = decode_record(change.record.value)
            self.groups[name] = StoredGroup(group, change.record.version)
        changed.groups.append((name, before))

    def _apply_chosen(self, key: ParsedKey, change: Change, changed: ViewChange) -> None:
        name = (key.parts[0], key.parts[1])
        if change.record is None:
            self.chosen.pop(name, None)
        else:
            self.chosen[name] = decode_chosen(change.record.value)
        changed.queues.append(name)

    def _apply_session(self, node: str, change: Change, changed: ViewChange) -> None:
        session = None if change.record is None else decode_session(change.record.value)
        if node == self.name:
            is_own = session is not None and session.incarnation == self.incarnation
            changed.is_own_session_lost = not is_own
            return
        before = self.sessions.get(node)
        if before == session:
            return
        if before is not None:
            del self.sessions[node]
            self.linked.discard(node)
            self.given_up.discard(node)
            changed.ended.append(before)
        if session is not None:
            self.sessions[node] = session
            changed.begun.append(session)

    def _apply_state(self, node: str, change: Change) -> None:
        state = NodeState() if change.record is None else decode_state(change.record.value)
        (self.drained.add if state.is_drained else self.drained.discard)(node)
        (self.stopping.add if state.is_stopping else self.stopping.discard)(node)
        is_short = Resource.DISK.value in state.alarms
        (self.short_of_disk.add if is_short else self.short_of_disk.discard)(node)
        self.cuts[node] = state.unreachable

    # Nodes.

    @property
    def running_nodes(self) -> list[str]:
        """Names of all nodes with a session, this one included."""
        return sorted({self.name, *self.sessions})

    @property
    def nodes_in_service(self) -> list[str]:
        """Nodes that run, and are neither drained nor about to stop."""
        left = self.drained | self.stopping
        return [node for node in self.running_nodes if node not in left]

    def incarnation_of(self, node: str) -> str:
        """The life that a node lives now; empty if it has no session."""
        if node == self.name:
            return self.incarnation
        session = self.sessions.get(node)
        return "" if session is None else session.incarnation

    def is_alive(self, member: Member) -> bool:
        """True if the session that the member belongs to still exists."""
        return self.incarnation_of(member.node) == member.incarnation

    def reaches_all(self, group: GroupRecord) -> bool:
        """True if there is a link to every living member of a group."""
        alive = {member.node for member in group.live if self.is_alive(member)}
        return alive - {self.name} <= self.linked

    # Groups and masters.

    def group_of(self, name: QueueName) -> GroupRecord | None:
        stored = self.groups.get(name)
        return None if stored is None else stored.record

    def group_keys(self, vhost: str, queue: str) -> list[str]:
        """Keys that go from the store along with a queue."""
        name = (vhost, queue)
        keys = [group_key(*name)] if name in self.groups else []
        return [*keys, chosen_nodes_key(*name)] if name in self.chosen else keys

    def is_led_here(self, group: GroupRecord) -> bool:
        leader = group.find(group.leader)
        return leader is not None and leader.node == self.name and self.is_alive(leader)

    def master_of(self, record: QueueRecord) -> str:
        """Node of the queue's master; empty while a mirrored queue has none."""
        group = self.group_of((record.vhost, record.name))
        if group is None:
            return record.node
        leader = group.find(group.leader)
        if leader is None or leader.is_dead or not self.is_alive(leader):
            return ""
        return leader.node

    def survivors_of(self, record: QueueRecord) -> list[Member]:
        """Living members that are, or could become, the master of a mirrored queue."""
        group = self.group_of((record.vhost, record.name))
        if group is None:
            return []
        alive = [member for member in group.live if self.is_alive(member)]
        if any(member.id in group.insync for member in alive):
            return alive
        return alive if self._may_lose_messages(record, group) else []

    def _may_lose_messages(self, record: QueueRecord, group: GroupRecord) -> bool:
        """True if an unsynchronised mirror may lead rather than the queue wait for its master."""
        mirroring = self.mirroring_of(record)
        is_waiting = group.state is not QueueState.LIVE
        return not is_waiting and (mirroring is None or mirroring.promotes_unsynced_on_failure)

    def mirroring_of(
        self, record: QueueRecord, batch_default: int = SYNC_BATCH_DEFAULT
    ) -> Mirroring | None:
        """The copies that a queue should have; None if it is not to be mirrored."""
        chosen = self.chosen.get((record.vhost, record.name), ())
        return copies_wished(record, self.topology.policy_of(record), chosen, batch_default)

    def moved_masters(self) -> Counter[str]:
        """By node: number of mirrored queues it leads, less those that were declared there."""
        moved: Counter[str] = Counter()
        for name, stored in self.groups.items():
            record = self.topology.record_of(name)
            if record is not None:
                moved[record.node] -= 1
                moved[node_of(stored.record.leader)] += 1
        return moved

    def masters(self) -> Counter[str]:
        """Number of queues each node is master of."""
        masters = self.moved_masters()
        masters.update(self.topology.masters_declared())
        return masters
