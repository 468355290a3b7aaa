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
          ▲        │                word that it has m reaches A, everybody has it: A confirms.
        m │        │ m
          │        ▼                ack round: A says so, in the next thing it sends: "all up to m
          D ◄───── C                have been everywhere". It goes round as well, and everybody
              m                     forgets m. When it is back at A, m leaves A's window.

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
other, and are sent along with the next broadcast, which halves the frames of a busy ring.

This is a machine: it is told events and answers with actions (`gm_events`), and does nothing
itself. Tests: tests/unit/mirror, and tests/simulation/test_gm_runs.py, that tries it with
everything that can go wrong between nodes.
"""

from __future__ import annotations

from typing import Final

from warren.mirror.frames import (
    Activity,
    AddedOnRight,
    AddOnRight,
    Catchup,
    CheckNeighbours,
    Frame,
    Payload,
    Rejected,
)
from warren.mirror.gm_events import (
    Action,
    Broadcast,
    ConfirmedBroadcast,
    Event,
    Expel,
    FrameArrived,
    Idle,
    Join,
    Joined,
    Leave,
    LinkDown,
    LinkUp,
    ProposalAnswered,
    Propose,
    ReadRecord,
    RecordChanged,
    Refused,
    SessionEnded,
    SetTimer,
    ShutDown,
    Stopped,
    Timer,
    TimerFired,
)
from warren.mirror.gm_links import HeldFrames
from warren.mirror.gm_proposals import Wishes
from warren.mirror.gm_ring import Ring
from warren.mirror.group_record import GroupRecord, Member

FLUSH_MS: Final = 25
"""The longest that a broadcast waits for the turn to end, or an acknowledgement for a broadcast."""

RETRY_MS: Final = 100
"""Until one who wants to join asks again, and a proposal that failed is made again."""


class GroupMember:
    """One replica's member of its queue's group.

    `me` is who we are, or would like to be: its id has never been used before.
    """

    def __init__(self, me: Member, uid: str) -> None:
        self.uid = uid
        self.record: GroupRecord | None = None
        self.revision = -1
        self.is_stopped = False
        self._ring = Ring(me, uid)
        self._held = HeldFrames()
        self._wishes = Wishes(me)
        self._is_joining = False
        self._may_found = False
        # A view that we were told of by somebody who would not listen to us without it.
        self._must_reach = 0
        self._proposed_at: int | None = None
        self._timers: set[Timer] = set()
        self._stop_reason = ""

    @property
    def me(self) -> Member:
        return self._ring.me

    @property
    def is_caught_up(self) -> bool:
        """Whether what is broadcast goes anywhere."""
        return self._ring.rounds.is_caught_up

    @property
    def has_room(self) -> bool:
        """Whether to broadcast more. What is broadcast all the same is not refused."""
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

    def _dispatch(self, event: Event) -> None:
        match event:
            case FrameArrived(frame, payloads):
                self._frame_arrived(frame, payloads)
            case Broadcast(payload, size):
                if self.is_caught_up and not self._stop_reason:
                    self._ring.broadcast(payload, size)
            case Idle():
                if self._ring.rounds.has_unsent:
                    self._ring.flush()
            case ConfirmedBroadcast():
                self._confirmed_broadcast(event)
            case TimerFired(timer):
                self._timer_fired(timer)
            case RecordChanged(record, revision):
                self._record_changed(record, revision)
            case LinkDown(node):
                self._ring.link_down(node)
            case LinkUp(node):
                self._ring.link_up(node)
                self._seek_membership()
            case _:
                self._dispatch_wish(event)

    def _dispatch_wish(self, event: Event) -> None:
        match event:
            case Join(may_found):
                self._is_joining = True
                self._may_found = may_found
                self._seek_membership()
            case SessionEnded(gone):
                self._wishes.note_end(gone)
                self._seek_membership()
            case ProposalAnswered(is_stored):
                if not is_stored:
                    self._act(ReadRecord())
                    self._set_timer(Timer.RETRY, RETRY_MS)
                return
            case Expel(member_id):
                self._wishes.expelled.add(member_id)
            case Leave():
                self._wishes.is_leaving = True
                if not self._is_joining:
                    self._stop_unjoined("normal")
            case ShutDown(reason):
                self._stop_reason = reason
                self._stop_unjoined(reason)
        self._pursue_wishes()

    def _end_step(self) -> None:
        ring = self._ring
        if self.is_stopped or ring.view is None:
            return
        ring.end_step()
        if self._stop_reason:
            ring.flush()
            if ring.is_alone or not self.is_caught_up or ring.rounds.is_all_settled:
                self._stop(self._stop_reason)
        elif ring.has_news:
            self._set_timer(Timer.FLUSH, FLUSH_MS)
        if ring.rounds.aliases and not self.is_stopped:
            self._pursue_wishes()

    def _confirmed_broadcast(self, event: ConfirmedBroadcast) -> None:
        if self._stop_reason:
            self._act(Refused(event.token, "shutting_down"))
        elif not self.is_caught_up:
            self._act(Refused(event.token, "not_joined"))
        else:
            self._ring.broadcast(event.payload, event.size, event.token)

    def _timer_fired(self, timer: Timer) -> None:
        self._timers.discard(timer)
        if timer is Timer.FLUSH:
            self._ring.flush()
        else:
            self._proposed_at = None
            self._seek_membership()
            self._pursue_wishes()

    def _set_timer(self, timer: Timer, delay_ms: int) -> None:
        if timer not in self._timers:
            self._timers.add(timer)
            self._act(SetTimer(timer, delay_ms))

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
        elif frame.view > record.view or self._is_behind or self._held.is_held(frame.sender):
            if self._held.hold(frame, payloads):
                self._act(ReadRecord())
        else:
            self._take_or_reject(frame, payloads)

    def _take_or_reject(self, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        assert self.record is not None
        if frame.epoch < self.record.epoch:
            self._reject(frame)
        else:
            self._take(frame, payloads)

    def _take(self, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        match frame:
            case AddOnRight():
                self._asked_to_add(frame)
            case AddedOnRight(is_added=is_added):
                if is_added and self._ring.view is None:
                    self._act(ReadRecord())
            case _ if self._ring.view is None:
                return
            case Activity():
                self._ring.activity(frame, payloads)
            case Catchup():
                self._ring.catchup(frame, payloads)
            case CheckNeighbours():
                self._ring.check_neighbours(frame)

    @property
    def _is_behind(self) -> bool:
        return self.record is not None and self.record.view < self._must_reach

    def _reject(self, frame: Frame) -> None:
        """Who is told so begins its stream anew once it knows better."""
        assert self.record is not None
        stream = frame.stream if isinstance(frame, Activity | Catchup) else 0
        self._ring.lose(frame.sender, stream)
        sender = self.record.find(frame.sender)
        if isinstance(frame, AddOnRight):
            sender = frame.newcomer
        if sender is not None:
            self._ring.send(sender, Rejected(*self._ring.fence, stream))

    def _rejected(self, frame: Rejected) -> None:
        self._must_reach = max(self._must_reach, frame.view)
        self._ring.is_behind = self._is_behind
        if self._is_behind:
            self._act(ReadRecord())
        self._ring.cut_off(frame.sender, frame.stream)

    def _resume(self, view: int) -> None:
        """What had to wait for us to know this view."""
        self._ring.is_behind = self._is_behind
        if self._is_behind:
            return
        self._ring.resume()
        for frame, payloads in self._held.release(view):
            self._take_or_reject(frame, payloads)
        for sender, stream in self._held.take_overflown():
            if self._ring.lose(sender, stream):
                self._ring.ask_again()

    # Membership.

    def _record_changed(self, record: GroupRecord | None, revision: int) -> None:
        if revision <= self.revision:
            return
        self.revision = revision
        was_member = self._ring.view is not None
        if record is None or record.uid != self.uid:
            self.record = None
            is_lost = was_member or record is not None
        else:
            self.record = record
            self._ring.fence = (self.uid, record.epoch, record.view, self.me.id)
            is_lost = record.find(self.me.id) is not None or was_member
            is_lost = is_lost and not record.is_live(self.me.id)
        if is_lost:
            reason = "normal" if self._wishes.is_leaving else self._stop_reason or "shutdown"
            self._stop(reason)
        elif record is not None and record.is_live(self.me.id):
            self._change_view(record)
        else:
            self._seek_membership()

    def _change_view(self, record: GroupRecord) -> None:
        is_first = self._ring.view is None
        self._ring.is_behind = self._is_behind
        self._ring.change_view(record)
        if is_first:
            self._act(Joined(frozenset(m.id for m in record.members)))
        for newcomer in self._wishes.newcomers.values():
            answer = AddedOnRight(*self._ring.fence, record.is_live(newcomer.id))
            self._ring.send(newcomer, answer)
        self._wishes.newcomers.clear()
        self._wishes.expelled &= {m.id for m in record.live}
        self._resume(record.view)
        self._pursue_wishes()

    def _asked_to_add(self, frame: AddOnRight) -> None:
        """The leader lets newcomers in, at its right: so it knows what it will tell them first.

        Only who knows the record as it is may ask: so no question that was under way for long
        brings somebody back who has been a member since, and has died.
        """
        record, newcomer = self.record, frame.newcomer
        assert record is not None
        is_ready = self.is_caught_up and not self._stop_reason and not self._wishes.is_leaving
        is_welcome = frame.view == record.view and not self._wishes.is_gone(newcomer)
        if record.leader == self.me.id and is_ready and is_welcome and not record.find(newcomer.id):
            self._wishes.newcomers[newcomer.id] = newcomer
            self._pursue_wishes()
        else:
            is_added = record.is_live(newcomer.id)
            self._ring.send(newcomer, AddedOnRight(*self._ring.fence, is_added))

    def _seek_membership(self) -> None:
        if not self._is_joining or self._ring.view is not None or self.revision < 0:
            return
        record = self.record
        self._set_timer(Timer.RETRY, RETRY_MS)
        if self._may_found:
            founding = self._wishes.as_founder(record, self.uid, self.revision)
            if founding is not None:
                self._propose(founding)
                return
        leader = None if record is None else record.find(record.leader)
        if leader is not None and not leader.is_dead and not self._wishes.is_gone(leader):
            self._ring.send(leader, AddOnRight(*self._ring.fence, self.me))

    def _stop_unjoined(self, reason: str) -> None:
        if self._ring.view is None:
            self._stop(reason)

    def _pursue_wishes(self) -> None:
        """One proposal for each revision that we see, so that nothing is proposed in vain twice."""
        record = self.record
        if record is None or self._ring.view is None or self._is_behind:
            return
        if self._stop_reason or self.is_stopped:
            return
        settled = self._ring.rounds.settled_aliases()
        wanted = self._wishes.as_member(record, self.revision, settled)
        if wanted is not None:
            self._propose(wanted)

    def _propose(self, proposal: Propose) -> None:
        if self._proposed_at != self.revision:
            self._proposed_at = self.revision
            self._act(proposal)
