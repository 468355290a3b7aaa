"""One node's part in a mirrored queue: a copy, its place in the ring, and what follows from both.

A copy is a mirror's or the master's, and which of them is written in the group's record, nowhere
else: who reads there that it leads, leads; who reads that somebody else does, does not. All else
is a consequence:

    the record says                      what this node does
    ───────────────────────────────      ──────────────────────────────────────────────────────────
    we lead                              be master, with what the mirror holds
    somebody is in sync                  wait for it before anything is confirmed
    a leader that has died, and been     stand for promotion, if we are the eldest that is in sync
      erased: nobody is still hearing
      what it said
    nothing of us any more               stop

Two rules about the order of things make a confirm worth its name. **Before** a mirror is proposed
for the in-sync set, the master already waits for it, and it has caught up with all that was
confirmed without it: so when the record says it is in sync, it is. **After** a mirror has been put
out of the set, and not before, the master stops waiting for it: so there is no moment when a
message is confirmed that a member of the stored set may lack.

A master that has lost its link to a mirror in the set freezes: it neither confirms nor delivers,
for it cannot tell whether the others have found a new master. It thaws when the link is there
again, or the record without that mirror.

A machine: everything it needs of the world is its `ReplicaHost`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from warren.replication.classic.master import MasterBacking
from warren.replication.classic.mirror import Mirror
from warren.replication.classic.rejoining import begin_with
from warren.replication.classic.retained import NOTHING, RetainedMessages
from warren.replication.gm.events import (
    Action,
    Deliver,
    Event,
    Expel,
    FramesLost,
    Idle,
    Join,
    Leave,
    LinkDown,
    LinkUp,
    MembersChanged,
    ProposalAnswered,
    Propose,
    ReadRecord,
    RecordChanged,
    Send,
    SessionEnded,
    SetTimer,
    Stopped,
    Timer,
    TimerFired,
)
from warren.replication.gm.frames import Frame, Payload
from warren.replication.gm.member import GroupMember
from warren.replication.group_record import (
    GroupRecord,
    Member,
    NotAllowed,
    SessionGone,
    admit_to_insync,
    heir_of,
    node_of,
    promote,
    reclaim,
)
from warren.replication.hand_over import HandOver
from warren.replication.stream.stream_master import StreamMaster


class ReplicaHost(Protocol):
    """What a replica needs of its node."""

    def send(self, to: Member, frame: Frame, payloads: tuple[Payload, ...]) -> None: ...

    def propose(
        self,
        record: GroupRecord,
        revision: int | None,
        gone: tuple[SessionGone, ...],
        answered: Callable[[bool], None],
    ) -> None:
        """Store the record if that revision is stored and those sessions are gone."""
        ...

    def read_record(self) -> None: ...

    def set_timer(self, timer: Timer, delay_ms: int) -> None: ...

    def tell_kept(self, leader: Member, epoch: int, remains: RetainedMessages) -> None:
        """Tell the leader's replica with what this one comes: its `kept`."""
        ...

    def flush_due(self, replica: Replica, urgency: int) -> None:
        """Have `flush` called when it is so urgent: see `outbox`."""
        ...

    def may_promote_unsynced(self) -> bool:
        """What the policy says about losing messages rather than the queue."""
        ...

    def lead_elsewhere(self, replica: Replica) -> None:
        """The disk of this node, which leads, takes nothing: call `hand_over`, if one can lead."""
        ...

    def lead(self, replica: Replica) -> MasterBacking:
        """The record says that this node leads: make its copy the queue's."""
        ...

    def step_down(self, replica: Replica) -> None:
        """This node led, and does not any more."""
        ...

    def stopped(self, replica: Replica, reason: str) -> None: ...


class Replica:
    def __init__(self, me: Member, uid: str, host: ReplicaHost) -> None:
        self.me = me
        self.uid = uid
        self.record: GroupRecord | None = None
        self.revision = -1
        self.master: MasterBacking | None = None
        self.mirror: Mirror | None = None
        self.is_stopped = False
        self._host = host
        self._gm = GroupMember(me, uid)
        self._is_proposing = False
        self._links_down: set[str] = set()
        self._begun: set[str] = set()
        """Mirrors that know where they begin, with the master of this epoch."""
        self._kept: dict[str, tuple[int, RetainedMessages]] = {}
        """What other members have told of themselves, in which epoch."""
        self._told_epoch = 0
        """The last leader's that we have told with what we come."""
        self._admitting: dict[str, int] = {}
        """Mirrors about to be in sync, and the batch that they must hold before."""
        self._had_room = True
        self._is_flushing = False
        self._held_early: dict[str, tuple[int, int]] = {}
        """Epoch and batch, of those who have read of it before us."""
        self._is_blocked = False
        self._hand_over: HandOver | None = None
        self._was_in_sync = False
        """By the record before this one."""
        self._gave_up_at = -1
        """The record that this copy last wanted to leave; another one may admit of it."""

    @property
    def has_room(self) -> bool:
        """Whether the ring takes more than it must."""
        return self._gm.has_room()

    @property
    def is_handing_over(self) -> bool:
        return self._hand_over is not None

    # What happens.

    def found(self, epoch: int = 1) -> None:
        """This node has what the queue had: begin the group, with this node as its leader."""
        self._handle(Join(may_found=True, epoch=epoch))

    def join(self, mirror: Mirror) -> None:
        """Be a mirror; or lead again, with what the mirror has from an earlier life."""
        self.mirror = mirror
        self._handle(Join(may_found=False))
        self._follow_record()

    def record_changed(self, record: GroupRecord | None, revision: int) -> None:
        if revision <= self.revision:
            return
        is_new_leader = record is not None and (
            self.record is None or record.leader != self.record.leader
        )
        in_sync = () if record is None else record.insync
        if is_new_leader and self.mirror is not None and self.me.id not in in_sync:
            self.mirror.report_retained()  # what the new one may have said is not for this copy yet
        self._was_in_sync = self.record is not None and self.me.id in self.record.insync
        self.record = record
        self.revision = revision
        self._handle(RecordChanged(record, revision))
        self._follow_record()
        if is_new_leader and self.mirror is not None:
            self.mirror.tell_held()

    def frame_arrived(self, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        self._do(self._gm.frame_arrived(frame, payloads))

    def frames_lost(self, sender: str, stream: int) -> None:
        self._handle(FramesLost(sender, stream))

    def link_down(self, node: str) -> None:
        self._links_down.add(node)
        self._handle(LinkDown(node))
        self._follow_record()

    def link_up(self, node: str) -> None:
        self._links_down.discard(node)
        self._handle(LinkUp(node))
        if self.mirror is not None and self.mirror.boundary is None:
            self._told_epoch = 0  # what was told may have been lost
        self._follow_record()
        self._tell_held_again(node)

    def _tell_held_again(self, node: str) -> None:
        """What was told over the link before may be lost with it, and a master waits for it."""
        leader = None if self.record is None else self.record.find(self.record.leader)
        if self.mirror is not None and leader is not None and leader.node == node:
            self.mirror.tell_held()

    def session_ended(self, gone: SessionGone) -> None:
        self._handle(SessionEnded(gone))
        self._follow_record()

    def timer_fired(self, timer: Timer) -> None:
        self._handle(TimerFired(timer))

    def held(self, member: str, epoch: int, number: int) -> None:
        """A mirror tells its master how far it has come; perhaps before we know that we lead."""
        if self.record is not None and epoch > self.record.epoch:
            self._held_early[member] = (epoch, number)
        elif self.master is not None and self.record is not None and epoch == self.record.epoch:
            self.master.held(member, number)
            if self._admitting:
                self._admit()
            if self._hand_over is not None:
                self._pursue_hand_over(self.record)

    def kept(self, member: str, epoch: int, remains: RetainedMessages) -> None:
        """A mirror tells its master what it has from before; perhaps before we know we lead."""
        self._kept[member] = (epoch, remains)
        self._follow_record()

    def expel(self, member: str, *, is_unwanted: bool = False) -> None:
        self._handle(Expel(member, is_unwanted))

    def block(self, is_blocked: bool) -> None:
        """A master that is to do nothing else while its mirrors are synchronised, as RabbitMQ's."""
        self._is_blocked = is_blocked
        if self.master is not None and self.record is not None and not self.is_stopped:
            self._freeze_or_thaw(self.record)

    def give_up(self) -> None:
        """The disk refuses what the master sends: the others go on without us, if one can."""
        if self.master is None and not self.is_stopped and self._gave_up_at != self.revision:
            self._gave_up_at = self.revision
            self._handle(Leave(is_spared_only=True))

    def hand_over(self, successor: str, *, keeps_copy: bool) -> None:
        """Have a mirror lead that is in sync. One wish at a time: it is over soon."""
        if self.master is not None and self._hand_over is None and not self.is_stopped:
            self._hand_over = HandOver(self.master, self.me.id, successor, keeps_copy)
            self._follow_record()

    def refused(self) -> bool:
        """The disk here takes nothing: True if a mirror is about to lead, and answers.

        It is asked for each message, and again whenever the disk was tried again: so if a hand-over
        comes to nothing, the next one is begun, or publishers are told no.
        """
        if self._hand_over is None:
            self._host.lead_elsewhere(self)
        return self._hand_over is not None

    # The ring, as the master sees it.

    def broadcast(self, payload: bytes) -> None:
        self._do(self._gm.broadcast(payload, len(payload), self._is_flushing))

    def flush_due(self, master: MasterBacking, urgency: int) -> None:
        self._host.flush_due(self, urgency)

    def covered(self, member: str) -> None:
        """From now on the master waits for it; what it must hold is what there is by now."""
        assert self.master is not None
        self._admitting[member] = self.master.number
        self._wait_for_those_in_sync()
        self._admit()

    def flush(self) -> None:
        """The turn ends."""
        if self.master is not None:
            self._is_flushing = True
            self.master.flush()
            self._is_flushing = False
            for level in self.master.level_queues().values():
                level.commit()  # the disk here need not be faster than those of the mirrors
        if self._gm.has_unsent():
            self._handle(Idle())

    # What follows.

    def _handle(self, event: Event) -> None:
        self._do(self._gm.handle(event))

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            # The first two come with every message, all others rarely.
            if isinstance(action, Send):
                self._host.send(action.to, action.frame, action.payloads)
            elif isinstance(action, Deliver):
                if action.origin != self.me.id and self.mirror is not None:
                    self.mirror.handle(action.payload)
            else:
                self._do_rare(action)
        self._tell_room()

    def _do_rare(self, action: Action) -> None:
        match action:
            case MembersChanged(_, deaths):
                self._forget(deaths)
            case Propose(record, revision, gone):
                wanted = self._with_promotion(record)
                self._host.propose(wanted, revision, gone, self._gm_answered)
            case ReadRecord():
                self._host.read_record()
            case SetTimer(timer, delay_ms):
                self._host.set_timer(timer, delay_ms)
            case Stopped(reason):
                self._stop(reason)

    def _with_promotion(self, record: GroupRecord) -> GroupRecord:
        """Lead in the same step in which the old leader is erased, if it is our turn to lead."""
        heir = heir_of(record) if record.find(record.leader) is None else None
        may_lead = heir is not None and heir.id == self.me.id and self.mirror is not None
        return promote(record, self.me.id) if may_lead else record

    def _gm_answered(self, is_stored: bool) -> None:
        self._handle(ProposalAnswered(is_stored))

    def _tell_room(self) -> None:
        has_room = self._gm.has_room()
        if has_room != self._had_room:
            self._had_room = has_room
            if self.master is not None:
                self.master.room_changed(self._had_room)

    def _stop(self, reason: str) -> None:
        self.is_stopped = True
        if self.master is not None:
            self._host.step_down(self)
        self._host.stopped(self, reason)

    def _follow_record(self) -> None:
        record = self.record
        if self.is_stopped or record is None:
            return
        if self.mirror is not None and node_of(record.leader) != self.me.node:
            self.mirror.follow()
        if not record.is_live(self.me.id):
            self._reclaim(record)
            return
        if record.leader == self.me.id:
            if self.master is None:
                if self.mirror is not None and not self._was_in_sync:
                    # Who published before it came is not to be told that their messages are here.
                    self.mirror.numbers.clear()
                self.master = self._host.lead(self)
                self.master.room_changed(self._had_room)
            self._begin_members(record)
            self._wait_for_those_in_sync()
            self._heed_early()
            self._freeze_or_thaw(record)
            self._admit()
            self._pursue_hand_over(record)
        else:
            self._tell_kept(record)
            self._stand_for_promotion(record)

    def _tell_kept(self, record: GroupRecord) -> None:
        """A master that does not count on us begins with what we have, if we have something."""
        leader = record.find(record.leader)
        if self.mirror is None or leader is None or leader.is_dead:
            return
        if self.me.id not in record.insync and self._told_epoch != record.epoch:
            self._told_epoch = record.epoch
            self._host.tell_kept(leader, record.epoch, self.mirror.report_retained())

    def _heed_early(self) -> None:
        early, self._held_early = self._held_early, {}
        for member, (epoch, number) in early.items():
            self.held(member, epoch, number)

    def _begin_members(self, record: GroupRecord) -> None:
        """Tell mirrors where they begin. Those in sync with a master before us go on."""
        assert self.master is not None
        for member in record.live:
            if member.id == self.me.id or member.id in self._begun:
                continue
            epoch, remains = self._kept.get(member.id, (0, NOTHING))
            if member.id in record.insync:
                self._begun.add(member.id)
            elif epoch == record.epoch:
                self._begun.add(member.id)
                if isinstance(self.master, StreamMaster):
                    self.master.begin_with(member.id, remains)
                else:
                    begin_with(self.master, member.id, remains)

    def _wait_for_those_in_sync(self) -> None:
        assert self.master is not None
        assert self.record is not None
        wanted = {*self.record.insync, *self._admitting} - {self.me.id}
        if wanted != self.master.in_sync:
            self.master.set_in_sync(wanted)

    def _freeze_or_thaw(self, record: GroupRecord) -> None:
        assert self.master is not None
        nodes = {member.node for member in record.live if member.id in record.insync}
        is_cut = bool(nodes & self._links_down)
        must_freeze = is_cut or self._hand_over is not None or self._is_blocked
        if must_freeze and not self.master.is_frozen:
            self.master.freeze()
        elif not must_freeze and self.master.is_frozen:
            self.master.thaw()

    def _admit(self) -> None:
        record, master = self.record, self.master
        if record is None or master is None or self._is_proposing or self.is_stopped:
            return
        for member, number in tuple(self._admitting.items()):
            if member in record.insync or not record.is_live(member):
                del self._admitting[member]
                self._wait_for_those_in_sync()
            elif master.held_by.get(member, -1) >= number:
                self._propose(admit_to_insync(record, self.me.id, member), ())
                return

    def _stand_for_promotion(self, record: GroupRecord) -> None:
        """Once the old leader is erased: then all that it said has been heard by everybody."""
        if record.find(record.leader) is not None or self._is_proposing:
            return
        heir = heir_of(record)
        eldest = min(record.live, key=lambda member: member.joined_view)
        if heir is not None:
            if heir.id == self.me.id:
                self._propose(promote(record, self.me.id), ())
        elif eldest.id == self.me.id and self._host.may_promote_unsynced():
            with suppress(NotAllowed):  # if the queue waits for a leader that has stopped
                self._propose(promote(record, self.me.id, is_sync_needed=False), ())

    def _pursue_hand_over(self, record: GroupRecord) -> None:
        if self._hand_over is None or self._is_proposing:
            return
        try:
            handed_over = self._hand_over.pursue(record)
        except NotAllowed:
            self._hand_over.abandon()
            self._hand_over = None
            self._freeze_or_thaw(record)
            return
        if handed_over is not None:
            self._propose(handed_over, ())

    def _reclaim(self, record: GroupRecord) -> None:
        """We are no member, but may have the best copy that is left.

        If an earlier life of this node is in the set then its copy is still on the disk: nobody
        has led since who could have had it replaced.
        """
        former = [each for each in record.insync if node_of(each) == self.me.node]
        if former and not self._is_proposing:
            with suppress(NotAllowed):
                self._propose(*reclaim(record, self.me, former[0], self._gm.ended_sessions))

    def _propose(self, record: GroupRecord, gone: tuple[SessionGone, ...]) -> None:
        self._is_proposing = True
        self._host.propose(record, self.revision, gone, self._answered)

    def _answered(self, is_stored: bool) -> None:
        self._is_proposing = False
        self._follow_record()

    def _forget(self, deaths: frozenset[str]) -> None:
        for member in deaths:
            self._begun.discard(member)
            self._kept.pop(member, None)
            self._admitting.pop(member, None)
            if self.master is not None:
                self.master.forget_member(member)
