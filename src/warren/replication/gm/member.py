"""Guaranteed multicast: what one replica of a queue says, all of them hear, or none.

The guarantee. Who stays alive delivers the same publications of each member, in the order in
which that member made them, each once; and a member's death is announced only after the last of
what it said. It is the essence of a mirrored queue that when its master dies in the middle of
telling its mirrors something, no mirror knows what another one does not.

The naive way is for the master to send every message to each of its n mirrors. It costs the
master n times the bandwidth; but worse, a master that dies after the third of five sends leaves
two mirrors ignorant, and they would have to find out from the others what they have missed, while
some of these may be dying, too. Commit protocols solve it by asking everybody before doing
anything, and stop when one does not answer.

The way of GM: members form a ring, each sends only to its right-hand neighbour, and keeps what it
has sent until it knows that everybody has it.

              m                     publish round: m goes from A to B to C to D, each of them keeps
          A ─────► B                it (pending), passes it on, and only then delivers it. When D's
          ▲        │                word that it has m reaches A, everybody has it, in memory: for
        m │        │ m              A, m is *settled*. Nothing is confirmed to a publisher by this.
          │        ▼                ack round: A says so, in the next thing it sends: "all up to m
          D ◄───── C                have been everywhere". It goes round as well, and everybody
              m                     forgets m. When it is back at A, m leaves A's window.

Two kinds of acknowledgement go from mirrors to their master, and neither can do the other's work.

    the ring's acks (here)          who has *received* m. For memory: they tell every member when it
                                    may forget m, which it keeps so that it can send m again to the
                                    neighbour that a death gives it; they tell an heir when nothing
                                    of a dead member is under way, so that the death may be
                                    announced; and they bound what a publisher has under way
                                    (`has_room`).
    `Held` (`under_way`,            who has m *on its disk*, if m has to be there. For publishers: a
    `mirror.progress`)              confirm is given when all mirrors in sync hold it. It goes
                                    straight to the master, so a confirm waits for the slowest disk
                                    and not for the rest of the round.

`Held` could not replace the acks: a mirror holds publications of other origins as well (a dead
master's, that of a newcomer), and what is on one disk says nothing about who else may lack it. The
acks could not replace `Held`: a ring that passed publications on only after its fsync would wait
for n disks one after the other, and the mirrors out of sync, which the ring has to wait for, would
hold up every confirm. RabbitMQ has both, for the same reasons.

What everything rests on is an invariant: if a member has m, then everybody from its origin on, in
the ring's direction, up to that member has had m; and each of them holds m, or knows that
everybody has had it. So who is missing m finds it at its left. When a member dies, its left-hand
neighbour sends its new right-hand neighbour all that it knows, a *catchup*, and the hole is
closed, whatever was lost in the dead one's hands:

          A ──► (B) ──► C         B dies. A's new right is C, so A sends C a catchup: of each origin
          A ──────────► C         how far it has come, how far it is acknowledged, and between the
                                  two the publications. C takes what it did not have, and goes on.

What the dead one itself had published, nobody calls home any more. Its heir does it, the nearest
living member to its right: everything that the dead one ever got out has passed the heir first,
so once it comes round to the heir again, everybody has it. The heir treats the dead member's name
as an *alias* of its own, and when nothing under that name is under way any more it has it erased
from the record; that is when its death is announced, and why nothing can come after the
announcement.

A newcomer asks the leader, who puts it at its own right in the record, and in the same step in
which it sees that this has happened sends it a catchup. All that the leader broadcast before that
step is not meant for the newcomer, all that comes later is; a publication carries the view in
which it was made, so this is exact for every other origin, too. The newcomer passes all on,
delivering what it is meant to, and makes a first publication of its own that says nothing. Before
that one has come round the newcomer erases nobody: if the leader died before its catchup, then
there may be things of the leader under way that the newcomer, its heir, has yet to see.

Membership is not agreed upon in the ring, but stored (`group_record`). All frames carry the
queue's uid and the sender's epoch and view. Of a newer view than our own: they wait until we have
read it. Of an older epoch: rejected, so that the sender learns that it is out of date. From
somebody who is not our left: ignored. Anything lost between two neighbours makes a new stream
begin (`gm_links`). Who finds that it is not in the record, stops on the spot.

A ring of one has nobody to tell and numbers nothing. RabbitMQ's GM has the same rounds and names;
its acks list numbers, ours say "up to", since publications of one origin never overtake each
other, and are sent along with the next broadcast, which halves the frames of a busy ring. The last
step of a publish round, from D to A, brings A nothing but a number, so it waits for a frame to go
with as well, a second at most: a mirrored queue with ten messages a second sends one frame per
message and neighbour, not three. Nobody waits for these numbers while all members live. When one
has died its heir does, to announce the death, and then they are sent at once.

This is a machine: it is told events and answers with actions (`gm_events`), and does nothing
itself. Tests: tests/unit/replication, and tests/simulation/test_gm_runs.py, that tries it with
everything that can go wrong between nodes.
"""

from __future__ import annotations

from typing import Final

from warren.replication.gm.events import (
    Action,
    Broadcast,
    Event,
    Expel,
    FrameArrived,
    FramesLost,
    Idle,
    Join,
    Leave,
    LinkDown,
    LinkUp,
    ProposalAnswered,
    ReadRecord,
    RecordChanged,
    SessionEnded,
    Stopped,
    Timer,
    TimerFired,
)
from warren.replication.gm.frames import (
    Activity,
    AddedOnRight,
    AddOnRight,
    Catchup,
    CheckNeighbours,
    Frame,
    Payload,
    Rejected,
)
from warren.replication.gm.membership import RETRY_MS, Membership, Standing
from warren.replication.gm.neighbour_links import HeldFrames
from warren.replication.gm.ring import Ring
from warren.replication.group_record import GroupRecord, Member, SessionGone, node_of

FLUSH_MS: Final = 25
"""The longest that a broadcast waits for the turn to end."""
ACKS_WAIT_MS: Final = 1_000
"""The longest that an acknowledgement waits for a broadcast to go with."""


class GroupMember:
    """One replica's member of its queue's group.

    `me` is who we are, or would like to be: its id has never been used before.
    """

    def __init__(self, me: Member, uid: str) -> None:
        self.uid = uid
        self.is_stopped = False
        self._ring = Ring(me, uid)
        self._membership = Membership(self._ring, uid)
        self._held = HeldFrames()
        # A view that we were told of by somebody who would not listen to us without it.
        self._must_reach = 0

    @property
    def me(self) -> Member:
        return self._ring.me

    @property
    def record(self) -> GroupRecord | None:
        return self._membership.record

    @property
    def revision(self) -> int:
        return self._membership.revision

    @property
    def is_caught_up(self) -> bool:
        """Whether what is broadcast goes anywhere."""
        return self._ring.rounds.is_caught_up

    def has_unsent(self) -> bool:
        """Return True if something was broadcast in this turn and is not sent yet."""
        return self._ring.rounds.has_unsent()

    @property
    def ended_sessions(self) -> frozenset[SessionGone]:
        """The last ones that it was told of."""
        return self._membership.wishes.ended_sessions

    def has_room(self) -> bool:
        """Return True if more may be broadcast. What is broadcast all the same is not refused."""
        return not self._ring.rounds.window.is_shut

    def handle(self, event: Event) -> list[Action]:
        """What is to be done, in this order. A member that has stopped does nothing ever again."""
        if self.is_stopped:
            return []
        actions: list[Action] = []
        self._ring.actions = actions
        self._dispatch(event)
        self._end_step()
        return actions

    # The two events that come with every message, without an object for each.

    def frame_arrived(self, frame: Frame, payloads: tuple[Payload, ...]) -> list[Action]:
        """Do what `handle` does with a `FrameArrived`."""
        if self.is_stopped:
            return []
        actions: list[Action] = []
        self._ring.actions = actions
        self._frame_arrived(frame, payloads)
        self._end_step()
        return actions

    def broadcast(self, payload: Payload, size: int, is_last: bool) -> list[Action]:
        """Do what `handle` does with a `Broadcast`."""
        if self.is_stopped:
            return []
        actions: list[Action] = []
        self._ring.actions = actions
        self._broadcast(payload, size, is_last)
        self._end_step()
        return actions

    def _dispatch(self, event: Event) -> None:
        if isinstance(event, FrameArrived):
            self._frame_arrived(event.frame, event.payloads)
        elif isinstance(event, Broadcast):
            self._broadcast(event.payload, event.size, event.is_last)
        else:
            self._dispatch_rare(event)

    def _broadcast(self, payload: Payload, size: int, is_last: bool) -> None:
        ring = self._ring
        if ring.rounds.is_caught_up:
            ring.broadcast(payload, size)
            if is_last:
                ring.flush()

    def _dispatch_rare(self, event: Event) -> None:
        match event:
            case Idle():
                if self._ring.rounds.has_unsent():
                    self._ring.flush()
            case TimerFired(timer):
                self._timer_fired(timer)
            case RecordChanged(record, revision):
                self._record_changed(record, revision)
            case FramesLost(sender, stream):
                if self._ring.lose(sender, stream):
                    self._ring.ask_again()
            case LinkDown(node):
                self._ring.link_down(node)
            case LinkUp(node):
                self._ring.link_up(node)
                self._membership.seek()
            case _:
                self._dispatch_wish(event)
                self._membership.pursue()

    def _dispatch_wish(self, event: Event) -> None:
        membership = self._membership
        match event:
            case ProposalAnswered(is_stored):
                if not is_stored:
                    self._act(ReadRecord())
                    self._ring.set_timer(Timer.RETRY, RETRY_MS)
            case Join(may_found, epoch):
                membership.join(may_found, epoch)
            case SessionEnded(gone):
                membership.wishes.note_end(gone)
                membership.seek()
            case Expel(member_id, is_unwanted):
                membership.wishes.expel(member_id, is_unwanted)
            case Leave(is_spared_only):
                membership.wishes.leave(is_spared_only)
                if self._ring.view is None and not membership.is_joining:
                    self._stop("normal")

    def _end_step(self) -> None:
        ring = self._ring
        if self.is_stopped or ring.view is None:
            return
        ring.end_step()
        if ring.rounds.has_unsent():
            ring.set_timer(Timer.FLUSH, FLUSH_MS)
        elif ring.rounds.is_anything_owed():
            ring.set_timer(Timer.ACKS, ACKS_WAIT_MS)
        if ring.rounds.aliases:
            self._membership.pursue()

    def _timer_fired(self, timer: Timer) -> None:
        self._ring.timers.discard(timer)
        if timer is Timer.RETRY:
            self._membership.retry()
        else:
            self._ring.flush()

    def _act(self, action: Action) -> None:
        self._ring.actions.append(action)

    def _stop(self, reason: str) -> None:
        self.is_stopped = True
        self._act(Stopped(reason))

    # The fence: whom we listen to.

    def _frame_arrived(self, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        record = self.record
        if frame.uid != self.uid or record is None:
            return
        if isinstance(frame, Rejected):
            self._rejected(frame)
        elif frame.view > record.view or self._ring.is_behind or self._held.is_held(frame.sender):
            if self._held.hold(frame, payloads):
                self._act(ReadRecord())
        else:
            self._take_or_reject(frame, payloads)

    def _take_or_reject(self, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        assert self.record is not None
        if frame.epoch < self.record.epoch:
            self._reject(frame, self.record)
        else:
            self._take(frame, payloads)

    def _take(self, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        if isinstance(frame, Activity):
            if self._ring.view is not None:
                self._ring.activity(frame, payloads)
            return
        match frame:
            case AddOnRight():
                self._membership.asked_to_add(frame)
            case AddedOnRight(is_added=is_added):
                if is_added and self._ring.view is None:
                    self._act(ReadRecord())
            case _ if self._ring.view is None:
                return
            case Catchup():
                self._ring.catchup(frame, payloads)
            case CheckNeighbours():
                self._ring.check_neighbours(frame)

    def _reject(self, frame: Frame, record: GroupRecord) -> None:
        """Reject a frame of an older epoch.

        The sender restarts its stream after catching up, or learns that it was expelled.
        """
        stream = frame.stream if isinstance(frame, Activity | Catchup) else 0
        self._ring.lose(frame.sender, stream)
        sender = record.find(frame.sender) or Member(frame.sender, node_of(frame.sender), "")
        self._ring.send(sender, Rejected(*self._ring.fence, stream))

    def _rejected(self, frame: Rejected) -> None:
        self._must_reach = max(self._must_reach, frame.view)
        self._see_whether_behind()
        if self._ring.is_behind:
            self._act(ReadRecord())
        self._ring.cut_off(frame.sender, frame.stream)

    def _see_whether_behind(self) -> None:
        assert self.record is not None
        self._ring.is_behind = self.record.view < self._must_reach

    # Membership.

    def _record_changed(self, record: GroupRecord | None, revision: int) -> None:
        match self._membership.note(record, revision):
            case Standing.LOST:
                is_leaving = self._membership.wishes.is_leaving
                self._stop("normal" if is_leaving else "shutdown")
            case Standing.OUTSIDE:
                self._membership.seek()
            case Standing.MEMBER:
                assert record is not None
                self._change_view(record)
            case Standing.UNCHANGED:
                pass

    def _change_view(self, record: GroupRecord) -> None:
        self._see_whether_behind()
        self._ring.change_view(record)
        self._membership.answer_newcomers(record)
        self._membership.wishes.expelled &= {m.id for m in record.live}
        self._resume(record.view)
        self._membership.pursue()

    def _resume(self, view: int) -> None:
        """What had to wait for us to know this view."""
        if self._ring.is_behind:
            return
        self._ring.resume()
        for frame, payloads in self._held.release(view):
            self._take_or_reject(frame, payloads)
        for sender, stream in self._held.take_overflown():
            if self._ring.lose(sender, stream):
                self._ring.ask_again()
