"""Who replicates a queue, as the metadata store has it: one value under one key.

RabbitMQ kept this in two tables, the multicast group's and the queue's, changed at different
times by different processes, and there were moments when they disagreed. Here the ring, the
leader and the set of those in sync are one value, that changes by compare-and-set, so everybody
who reads it reads something that was once decided.

`members` is the ring: each one's right-hand neighbour is the next in the list, the last one's is
the first. Who dies stays in its place with a mark, because its place says who inherits what it
had under way: the nearest living member to its right. When nothing of it is under way any more,
it is erased.

Every transition below gives a new record, whose `view` is one higher, or raises `NotAllowed`.
Views never repeat, not even when all members have died and the group begins anew; so "I have seen
a higher view" always means "I know more". `epoch` counts leaders: who still speaks in a lower one
has been deposed and does not know it yet.

**Suspicion is not death.** That a member cannot be reached proves nothing, and two who each
declared the other dead would both go on. So a death needs evidence: either the store itself says
that the session of that life of the node is gone, which the transaction that writes the mark has
to compare, or the leader, who alone may, puts a member out whom it would rather do without. Who
leads is never put out: it dies by its session, or leaves by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

FOUNDING_VIEW: Final = 1
"""The first view of a group. Only members that the group began with joined in it."""


class QueueState(Enum):
    LIVE = "live"
    STOPPED = "stopped"
    CRASHED = "crashed"


class Member(msgspec.Struct, frozen=True):
    """A replica's place in the ring.

    `incarnation` is the life of the node that it belongs to. `joined_view` is the view that brought
    it in: the lower, the older, and the older is promoted first.
    """

    id: str
    node: str
    incarnation: str
    joined_view: int = 0
    is_dead: bool = False


class GroupRecord(msgspec.Struct, frozen=True):
    """`insync` has those that hold everything that was ever confirmed.

    It is never empty: the last one stays in it, though dead, for nobody else has what it has.

    `recoverable` are the nodes whose disks have a copy, whole or not, of this very group, oldest
    first: those of living members, and of nodes that are not there and had one when last seen.
    """

    uid: str
    epoch: int
    view: int
    leader: str
    members: tuple[Member, ...]
    insync: tuple[str, ...]
    recoverable: tuple[str, ...] = ()
    state: QueueState = QueueState.LIVE
    successor: str = ""
    """Whom a leader that has left wants to be the next, if it is still in sync then."""

    def find(self, member_id: str) -> Member | None:
        return next((m for m in self.members if m.id == member_id), None)

    def is_live(self, member_id: str) -> bool:
        member = self.find(member_id)
        return member is not None and not member.is_dead

    @property
    def live(self) -> tuple[Member, ...]:
        return tuple(m for m in self.members if not m.is_dead)


class SessionGone(msgspec.Struct, frozen=True):
    """The store has no session of this life of this node; to be compared where it is used."""

    node: str
    incarnation: str


class RemovedByLeader(msgspec.Struct, frozen=True):
    """The leader would rather do without the member, whether it lives or not.

    `is_unwanted`: for good, so that its copy is to be deleted.
    """

    leader: str
    is_unwanted: bool = False


Evidence: TypeAlias = SessionGone | RemovedByLeader


class NotAllowed(Exception):
    """The record as it stands does not admit of this change."""


class LostMembership(NotAllowed):
    """Who wants the change is not, or no longer, a living member."""


def make_member_id(node: str, incarnation: str, number: int) -> str:
    """Ids are never used twice; `number` tells the members apart that one life of a node starts."""
    return f"{node}/{incarnation}/{number}"


def node_of(member_id: str) -> str:
    return member_id.rsplit("/", 2)[0]


def encode_record(record: GroupRecord) -> bytes:
    return msgspec.json.encode(record)


def decode_record(data: bytes) -> GroupRecord:
    return msgspec.json.decode(data, type=GroupRecord)


def create(uid: str, founder: Member, epoch: int = 1) -> GroupRecord:
    """A new queue's group; there must be no record of this `uid` yet."""
    member = replace(founder, joined_view=FOUNDING_VIEW, is_dead=False)
    ids, nodes = (member.id,), (member.node,)
    return GroupRecord(uid, epoch, FOUNDING_VIEW, member.id, (member,), ids, nodes)


def create_together(uid: str, founder: Member, mirrors: Sequence[Member]) -> GroupRecord:
    """Return the group of a queue that is declared with it: every copy is empty, so in sync."""
    members = tuple(
        replace(each, joined_view=FOUNDING_VIEW, is_dead=False) for each in (founder, *mirrors)
    )
    ids, nodes = tuple(m.id for m in members), tuple(m.node for m in members)
    return GroupRecord(uid, 1, FOUNDING_VIEW, founder.id, members, ids, nodes)


def revive(record: GroupRecord, founder: Member) -> GroupRecord:
    """Begin again after all members have died; whether the founder has what counts is not asked."""
    if record.live:
        raise NotAllowed(f"{record.live[0].id} is alive, so the group need not begin again")
    view = record.view + 1
    member = replace(founder, joined_view=view, is_dead=False)
    return replace(
        record,
        epoch=record.epoch + 1,
        view=view,
        leader=member.id,
        members=(member,),
        insync=(member.id,),
        recoverable=_with(record.recoverable, member.node),
    )


def reclaim(
    record: GroupRecord, founder: Member, former: str, gone: frozenset[SessionGone]
) -> tuple[GroupRecord, tuple[SessionGone, ...]]:
    """Begin again with what a member of an earlier life left on its node's disk.

    That is as good as any copy if the member was in sync, as long as nobody leads and no other
    copy in sync is alive, of which `gone` is the evidence; what of it counted comes with the
    record. Those that are alive and lack something have to begin anew, too.
    """
    if former not in record.insync:
        raise NotAllowed(f"{former} was not in sync")
    evidence = []
    for member in record.live:
        if member.id == record.leader or member.id in record.insync:
            end = SessionGone(member.node, member.incarnation)
            if end not in gone:
                raise NotAllowed(f"{member.id} is alive, and in sync")
            evidence.append(end)
    view = record.view + 1
    member = replace(founder, joined_view=view, is_dead=False)
    reclaimed = replace(
        record,
        epoch=record.epoch + 1,
        view=view,
        leader=member.id,
        members=(member,),
        insync=(member.id,),
        recoverable=_with(record.recoverable, member.node),
        state=QueueState.LIVE,
    )
    return reclaimed, tuple(evidence)


def add_right_of(record: GroupRecord, left: str, newcomer: Member) -> GroupRecord:
    """The newcomer's place is between `left` and all that was to its right, the dead included.

    Asking twice changes nothing, so that who did not hear the answer may ask again.
    """
    _require_live(record, left)
    if record.find(newcomer.id) is not None:
        return record
    view = record.view + 1
    member = replace(newcomer, joined_view=view, is_dead=False)
    record = _without_former(record, member)
    at = next(i for i, m in enumerate(record.members) if m.id == left) + 1
    members = (*record.members[:at], member, *record.members[at:])
    recoverable = _with(record.recoverable, member.node)
    return replace(record, view=view, members=members, recoverable=recoverable)


def _without_former(record: GroupRecord, newcomer: Member) -> GroupRecord:
    """Whoever its node was in the group before is dead, and the newcomer begins in its place.

    Its copy is not one that anybody may count on from now on, so the two are one step. A leader is
    dead when its session is known to be gone, not before; nobody begins anything until then.
    """
    for member in record.live:
        if member.node == newcomer.node and member.id != record.leader:
            record = _with_mark(record, member)
    return record


def mark_dead(record: GroupRecord, member_id: str, evidence: Evidence) -> GroupRecord:
    """Who is dead already, or unknown, makes no difference."""
    member = record.find(member_id)
    if member is None or member.is_dead:
        return record
    if isinstance(evidence, SessionGone):
        if (evidence.node, evidence.incarnation) != (member.node, member.incarnation):
            raise NotAllowed(
                f"the end of session {evidence.incarnation} of {evidence.node} says nothing "
                f"about {member_id}"
            )
    else:
        _require_leader(record, evidence.leader)
        if member_id == record.leader:
            raise NotAllowed("a leader is not put out, it leaves")
        if evidence.is_unwanted:
            record = _without_copy(record, member.node)
    return _with_mark(record, member)


def leave(record: GroupRecord, member_id: str) -> GroupRecord:
    """A member's own doing. What it has under way is inherited, as if it had died."""
    _require_live(record, member_id)
    member = record.find(member_id)
    assert member is not None
    return _with_mark(_without_copy(record, member.node), member)


def leave_if_spared(record: GroupRecord, member_id: str) -> GroupRecord:
    """Leave, if somebody else is alive who has all that was confirmed: else this copy is needed.

    It is asked here, of the record that changes, for no other answer lasts: who had everything may
    have died since the member last looked.
    """
    if not any(m.id in record.insync and m.id != member_id for m in record.live):
        raise NotAllowed(f"nobody is in sync who could do without {member_id}")
    return leave(record, member_id)


def hand_over(
    record: GroupRecord, leader: str, successor: str, keeps_copy: bool = False
) -> GroupRecord:
    """The leader leaves, for somebody to lead who holds everything, too."""
    _require_leader(record, leader)
    if successor == leader or successor not in record.insync:
        raise NotAllowed(f"{successor} is no mirror that is in sync")
    left = leave(record, leader)
    recoverable = record.recoverable if keeps_copy else left.recoverable
    return replace(left, successor=successor, recoverable=recoverable)


def erase(record: GroupRecord, eraser: str, member_ids: frozenset[str]) -> GroupRecord:
    """Forget the dead of whom nothing is under way any more; only heirs can know who that is."""
    _require_live(record, eraser)
    kept = tuple(m for m in record.members if m.id not in member_ids)
    erased = [m for m in record.members if m.id in member_ids]
    if not erased:
        return record
    for member in erased:
        if not member.is_dead:
            raise NotAllowed(f"{member.id} is alive and cannot be erased")
    return replace(record, view=record.view + 1, members=kept)


def promote(record: GroupRecord, member_id: str, is_sync_needed: bool = True) -> GroupRecord:
    """A new leader, and with it a new epoch, once the old one is proven gone.

    Who is in sync with the new leader begins with those that were in sync with the old one: they
    hold all that was confirmed. A leader that was not in sync makes a set of its own, of one.
    """
    _require_live(record, member_id)
    if record.is_live(record.leader):
        raise NotAllowed(f"{record.leader} leads and is alive")
    is_synced = member_id in record.insync
    if not is_synced and (is_sync_needed or record.state is QueueState.STOPPED):
        raise NotAllowed(f"{member_id} is not in sync, and promoting it would lose messages")
    insync = tuple(i for i in record.insync if record.is_live(i)) if is_synced else (member_id,)
    return replace(
        record,
        epoch=record.epoch + 1,
        view=record.view + 1,
        leader=member_id,
        insync=insync,
        state=QueueState.LIVE,
        successor="",
    )


def heir_of(record: GroupRecord) -> Member | None:
    """Who of those in sync is to lead when nobody does: whoever was asked to, else the eldest."""
    in_sync = [member for member in record.live if member.id in record.insync]
    eldest = min(in_sync, key=lambda member: member.joined_view, default=None)
    return next((member for member in in_sync if member.id == record.successor), eldest)


def stop(record: GroupRecord, leader: str) -> GroupRecord:
    """The leader has the only good copy and is about to stop: the queue waits for its return."""
    _require_leader(record, leader)
    if record.insync != (leader,):
        raise NotAllowed("there is another good copy")
    return replace(record, view=record.view + 1, state=QueueState.STOPPED)


def admit_to_insync(record: GroupRecord, leader: str, member_id: str) -> GroupRecord:
    _require_leader(record, leader)
    _require_live(record, member_id)
    if member_id in record.insync:
        return record
    return replace(record, view=record.view + 1, insync=(*record.insync, member_id))


def forget_node(record: GroupRecord, node: str) -> GroupRecord | None:
    """A node that has no session is not to come back; None if the queue is lost with it.

    If nobody else has all that was confirmed, the oldest copy that is left counts from now on: of a
    node that runs or of one that does not. Whoever has it leads, as soon as it reads this.
    """
    left = replace(_without_copy(record, node), view=record.view + 1)
    for member in record.live:
        if member.node == node:
            left = mark_dead(left, member.id, SessionGone(node, member.incarnation))
    insync = tuple(i for i in record.insync if node_of(i) != node)
    if insync:
        return replace(left, insync=insync)
    if not left.recoverable:
        return None
    heir = left.recoverable[0]
    former = next((m.id for m in record.live if m.node == heir), make_member_id(heir, "", 0))
    return replace(left, insync=(former,), state=QueueState.LIVE)


def _with(nodes: tuple[str, ...], node: str) -> tuple[str, ...]:
    return nodes if node in nodes else (*nodes, node)


def _without_copy(record: GroupRecord, node: str) -> GroupRecord:
    return replace(record, recoverable=tuple(n for n in record.recoverable if n != node))


def _with_mark(record: GroupRecord, member: Member) -> GroupRecord:
    dead = replace(member, is_dead=True)
    members = tuple(dead if m.id == member.id else m for m in record.members)
    others = tuple(i for i in record.insync if i != member.id)
    return replace(record, view=record.view + 1, members=members, insync=others or record.insync)


def _require_live(record: GroupRecord, member_id: str) -> None:
    if not record.is_live(member_id):
        raise LostMembership(f"{member_id} is not a living member in view {record.view}")


def _require_leader(record: GroupRecord, member_id: str) -> None:
    _require_live(record, member_id)
    if record.leader != member_id:
        raise NotAllowed(f"{member_id} does not lead, {record.leader} does")
