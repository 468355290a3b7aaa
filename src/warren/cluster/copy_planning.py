"""Planning of copies: what the master of a queue has to do so that copies are where policies want.

Nothing is remembered here: a plan is a function of the view and of what is under way already, and
an empty plan means that everything is as it should be or has been asked for. Whoever changes
something that a plan depends on has it made again; the simulator asserts after every event that
no plan was forgotten (`ClusterNode.overlooked`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from warren.cluster.view import ClusterView
from warren.model.records import QueueName
from warren.policy.wanted_copies import (
    Choose,
    Copies,
    Mirroring,
    MirrorMode,
    wanted_copies,
)
from warren.replication.group_record import GroupRecord, Member, node_of


@dataclass(frozen=True, slots=True)
class BeginGroup:
    """The queue is served here, is to be mirrored, and has no group yet."""


@dataclass(frozen=True, slots=True)
class Invite:
    """A node should hold a copy, and has not been asked since the link to it came up."""

    node: str


@dataclass(frozen=True, slots=True)
class ExpelMember:
    """A copy is too many; `is_unwanted`: what its node has on its disk may be deleted."""

    member: str
    is_unwanted: bool


@dataclass(frozen=True, slots=True)
class HandOverTo:
    """A synchronised mirror should be master instead; `keeps_copy`: this node stays a mirror."""

    member: str
    keeps_copy: bool


@dataclass(frozen=True, slots=True)
class Synchronise:
    """Mirrors lack messages, and the policy (or a relocation) has them synchronised."""


@dataclass(frozen=True, slots=True)
class Dissolve:
    """The queue is not to be mirrored any more, and only this copy is left."""


Step: TypeAlias = BeginGroup | Invite | ExpelMember | HandOverTo | Synchronise | Dissolve


@dataclass(frozen=True, slots=True)
class UnderWay:
    """The state of a queue's replica on this node, and what has been asked for already."""

    group: GroupRecord | None = None
    """The record by which this node leads; None if it has no replica, or does not lead."""
    has_replica: bool = False
    is_beginning: bool = False
    invited: frozenset[str] = frozenset()
    expelled: frozenset[str] = frozenset()
    is_handing_over: bool = False
    is_dissolving: bool = False
    lacks_synchronisation: bool = False
    """Mirrors lack messages, none is being synchronised, and nobody cancelled that."""
    relocation: str = ""
    """Node to which `rebalance` moves the master; empty if there is none."""


def plan(view: ClusterView, name: QueueName, now: UnderWay, choose: Choose) -> list[Step]:
    """Return what has to be done about the copies of a queue, in this order."""
    record = view.topology.record_of(name)
    if record is None or record.exclusive or not view.topology.is_here(name):
        return []
    mirroring = view.mirroring_of(record)
    if not now.has_replica:
        is_wanted = mirroring is not None and name not in view.groups
        return [BeginGroup()] if is_wanted and not now.is_beginning else []
    if now.group is None:
        return []
    chosen = _choice(view, now, choose)
    wanted = relocated(wanted_by_policy(view, mirroring, now.group, chosen), now)
    steps = _invitations(view, wanted, now) + _expulsions(view, wanted, now)
    steps += _hand_over(view, wanted, mirroring, now)
    is_synced_by = mirroring is not None and mirroring.is_sync_automatic
    if now.lacks_synchronisation and (is_synced_by or now.relocation):
        steps.append(Synchronise())
    # Elsewhere than where it was declared, nothing but the group's record says where a queue is.
    is_declared_here = record.node == view.name
    is_alone = mirroring is None and len(now.group.members) == 1
    if is_alone and is_declared_here and not now.is_dissolving:
        steps.append(Dissolve())
    return steps


def _choice(view: ClusterView, now: UnderWay, choose: Choose) -> Choose:
    """Choose nodes that were invited already first, then those that can be invited."""

    def chosen(nodes: Sequence[str], count: int) -> Sequence[str]:
        invited = [node for node in nodes if node in now.invited][:count]
        linked = [node for node in nodes if node in view.linked and node not in invited]
        others = [node for node in nodes if node not in view.linked and node not in invited]
        missing = count - len(invited)
        found = [*invited, *choose(linked, min(missing, len(linked)))]
        return [*found, *others[: count - len(found)]]

    return chosen


def wanted_by_policy(
    view: ClusterView, mirroring: Mirroring | None, group: GroupRecord, choose: Choose
) -> Copies:
    """Return the copies that the policy wants, given those that there are."""
    master = node_of(group.leader)
    if mirroring is None:
        return Copies(master)
    mirrors = _eldest_first(member for member in group.live if member.id != group.leader)
    present = Copies(master, tuple(member.node for member in mirrors))
    synced = [member.node for member in mirrors if member.id in group.insync]
    return wanted_copies(mirroring, present, synced, view.running_nodes, choose)


def _eldest_first(members: Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda member: member.joined_view)


def relocated(wanted: Copies, now: UnderWay) -> Copies:
    """Return the wanted copies plus a relocation's destination, which leads once it is in sync."""
    group, node = now.group, now.relocation
    if group is None or not node:
        return wanted
    is_ready = any(m.node == node and m.id in group.insync for m in group.live)
    master = node if is_ready else wanted.master
    mirrors = (*wanted.mirrors, wanted.master, node)
    return Copies(master, tuple(dict.fromkeys(each for each in mirrors if each != master)))


def _invitations(view: ClusterView, wanted: Copies, now: UnderWay) -> list[Step]:
    assert now.group is not None, "only a master plans for its copies"
    present = {member.node for member in now.group.live}
    missing = [node for node in wanted.mirrors if node not in present]
    return [Invite(n) for n in missing if n in view.linked and n not in now.invited]


def _expulsions(view: ClusterView, wanted: Copies, now: UnderWay) -> list[Step]:
    assert now.group is not None, "only a master plans for its copies"
    kept = {*wanted.mirrors, wanted.master}
    return [
        # A node that does not run keeps what it has, for when it comes back.
        ExpelMember(member.id, is_unwanted=member.node in view.running_nodes)
        for member in now.group.live
        if member.node not in kept
        and member.id != now.group.leader
        and member.id not in now.expelled
    ]


def _hand_over(
    view: ClusterView, wanted: Copies, mirroring: Mirroring | None, now: UnderWay
) -> list[Step]:
    """Have the copy of another node lead, if it lacks nothing."""
    group = now.group
    assert group is not None, "only a master plans for its copies"
    if wanted.master == node_of(group.leader) or now.is_handing_over:
        return []
    keeps_copy = view.name in wanted.mirrors and is_fixed(mirroring)
    successors = [m for m in group.live if m.node == wanted.master and m.id in group.insync]
    return [HandOverTo(member.id, keeps_copy) for member in successors[:1]]


def is_fixed(mirroring: Mirroring | None) -> bool:
    """True if a master that hands over keeps its copy.

    So it is where the policy says on which nodes there are copies, not only how many, and for all
    quorum queues.
    """
    if mirroring is None:
        return False
    return mirroring.mode is not MirrorMode.EXACTLY or mirroring.is_kept_by_old_master


def is_as_wanted(view: ClusterView, name: QueueName) -> bool:
    """True if a declared queue has as many synchronised copies as its policy wants."""
    record = view.topology.record_of(name)
    if record is None or record.exclusive:
        return True
    mirroring = view.mirroring_of(record)
    if mirroring is None:
        return True
    group = view.group_of(name)
    if group is None:
        return False
    wanted = wanted_by_policy(view, mirroring, group, _first)
    return len(group.insync) > len(wanted.mirrors)


def successor_of(group: GroupRecord, nodes: Sequence[str]) -> Member | None:
    """Return the eldest synchronised mirror on one of the nodes, or None."""
    for member in _eldest_first(group.live):
        is_other = member.id != group.leader and member.id in group.insync
        if is_other and member.node in nodes:
            return member
    return None


def _first(nodes: Sequence[str], count: int) -> Sequence[str]:
    return nodes[:count]
