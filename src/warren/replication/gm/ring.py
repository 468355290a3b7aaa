"""A member's place in the ring: what its left tells it, what it tells its right.

See `gm` for what this is all about. Here are the moves of one member that knows its neighbours;
how it comes to know them, and whom it listens to, is decided there.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from warren.replication.gm.events import (
    Action,
    Deliver,
    MembersChanged,
    Send,
    SetTimer,
    Timer,
)
from warren.replication.gm.frames import Activity, Catchup, CheckNeighbours, Frame, Payload
from warren.replication.gm.neighbour_links import LeftStream, RightStream
from warren.replication.gm.ring_view import RingView
from warren.replication.gm.rounds import News, Rounds
from warren.replication.group_record import FOUNDING_VIEW, GroupRecord, Member

BUFFER_BYTES_MAX: Final = 100_000_000
"""Broadcasts wait for the end of the turn, but not if they are more than this."""

Payloads: TypeAlias = tuple[Payload, ...]


class Ring:
    """What is to be done is added to `actions`, in order."""

    def __init__(self, me: Member, uid: str) -> None:
        self.me = me
        self.actions: list[Action] = []
        self.timers: set[Timer] = set()
        self.fence = (uid, 0, 0, me.id)
        self.view: RingView | None = None
        self.rounds = Rounds(me.id)
        # While somebody is known to know more than we do, nothing new is sent.
        self.is_behind = False
        self._left = LeftStream(me)
        self._right = RightStream(me, 0)
        self._is_cut_off = False

    @property
    def is_alone(self) -> bool:
        return self.view is not None and self.view.is_alone

    def has_news(self) -> bool:
        return self.rounds.has_unsent() or self.rounds.is_anything_owed()

    def send(self, to: Member, frame: Frame, payloads: Payloads = ()) -> None:
        self.actions.append(Send(to, frame, payloads))

    def set_timer(self, timer: Timer, delay_ms: int) -> None:
        if timer not in self.timers:
            self.timers.add(timer)
            self.actions.append(SetTimer(timer, delay_ms))

    # Broadcasting.

    def broadcast(self, payload: Payload, size: int) -> None:
        """Publish a payload. A ring of one delivers its own publications at once, unnumbered."""
        if self.view is not None and self.view.is_alone:
            self.actions.append(Deliver(self.me.id, 0, payload))
            return
        number = self.rounds.publish(payload, size)
        self.actions.append(Deliver(self.me.id, number, payload))
        if self.rounds.unsent_bytes > BUFFER_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        if self.has_news() and self.rounds.is_caught_up and not self.is_behind:
            self._send_activity(self.rounds.unsent_news(self._right.to.id))

    def end_step(self) -> None:
        """Release what everybody has forgotten from the window; send what is owed if it is much.

        Acknowledgements may wait for the next broadcast: the others need them only to forget. But
        while a member is dead they are what its heir waits for before it announces the death.
        """
        rounds = self.rounds
        rounds.release_window()
        if rounds.is_anything_owed() and (
            rounds.is_much_owed()
            or rounds.window.is_shut
            or (self.view is not None and self.view.has_dead)
        ):
            self.flush()

    # What neighbours say.

    def activity(self, frame: Activity, payloads: Payloads) -> None:
        if self._left.goes_on_with(frame):
            self._left.advance()
            self._merge(frame, payloads)
        elif self._left.misses_some_before(frame):
            self._ask_for_catchup()

    def catchup(self, frame: Catchup, payloads: Payloads) -> None:
        if not self._left.begins_with(frame):
            return
        if self.rounds.is_caught_up:
            self._merge(frame, payloads)
            return
        merged = self.rounds.merge(frame.progress, payloads)
        self.rounds.adopt()
        self.begin_stream()
        self.actions += merged.deliveries

    def check_neighbours(self, frame: CheckNeighbours) -> None:
        """Its view has had its effect already; this is for who has lost our stream."""
        is_lost = frame.lost_stream is not None and frame.lost_stream >= self._right.stream
        if is_lost and frame.sender == self._right.to.id:
            self.begin_stream()

    def _merge(self, frame: Activity | Catchup, payloads: Payloads) -> None:
        """The right is told before the replica is: what we deliver is on its way to others."""
        rounds = self.rounds
        merged = rounds.merge(frame.progress, payloads)
        right = self._right.to.id
        if merged.moved and rounds.owe(right, merged.moved):
            self._send_activity(rounds.owed_news(right, merged.moved))
        self.actions += merged.deliveries

    def cut_off(self, sender: str, stream: int) -> None:
        """Our right has thrown away what we sent; it gets it anew as soon as it would listen."""
        if sender == self._right.to.id and stream == self._right.stream:
            self._is_cut_off = True
        self.resume()

    def resume(self) -> None:
        if self._is_cut_off:
            self.begin_stream()

    def lose(self, sender: str, stream: int) -> bool:
        """Something of this stream was thrown away, so what follows is of no use; True if it is
        our left's.
        """
        if sender != self._left.sender.id:
            return False
        self._left.lose(stream)
        return True

    def _ask_for_catchup(self) -> None:
        self.send(self._left.sender, CheckNeighbours(*self.fence, self._left.seen))

    # Links.

    def link_down(self, node: str) -> None:
        if node == self._right.to.node:
            self._right.is_link_up = False

    def link_up(self, node: str) -> None:
        if node == self._right.to.node:
            self._right.is_link_up = True
            self.begin_stream()
        if node == self._left.sender.node:
            self.ask_again()

    def ask_again(self) -> None:
        """Nothing if we are in step with our left, or if nothing has come of it yet: it will."""
        if self._left.seen and not self._left.is_in_step:
            self._ask_for_catchup()

    def begin_stream(self) -> None:
        right = self._right
        if right.to.id == self.me.id or not right.is_link_up or not self.rounds.is_caught_up:
            return
        self._is_cut_off = self.is_behind
        if self.is_behind:
            return
        news = self.rounds.all_there_is(right.to.id)
        self.send(right.to, Catchup(*self.fence, right.begin(), news.progress), news.payloads)

    def _send_activity(self, news: News) -> None:
        """What a link that is down does not take is in the catchup that it begins again with."""
        right = self._right
        if right.to.id == self.me.id or not right.is_link_up:
            return
        frame = Activity(*self.fence, right.stream, right.next_number(), news.progress)
        self.send(right.to, frame, news.payloads)

    # Views.

    def change_view(self, record: GroupRecord) -> None:
        """Take up a record's view: announce changed members, and talk to the new neighbours."""
        old = self.view
        view = self.view = RingView(record)
        self.me = view.members[self.me.id]
        self.rounds.set_view(view)
        if view.is_alone:
            self.rounds.begin_alone()
        elif old is None and self.me.joined_view == FOUNDING_VIEW:
            # The ring has looked like this since before anything was said, so this member has
            # missed nothing: what it has not heard yet, nobody beyond it has.
            self.rounds.is_caught_up = True
        known: frozenset[str] = frozenset() if old is None else old.known
        if known != view.known:
            self.actions.append(MembersChanged(view.known - known, known - view.known))
        self._change_left(view.left_of(self.me.id))
        self._change_right(view.right_of(self.me.id))
        if record.leader == self.me.id and not self.rounds.is_caught_up:
            # Everybody else may be waiting for a catchup, too, and it has to begin somewhere. If
            # somebody is not, it tells us what it knows all the same.
            self.rounds.adopt()
            self.begin_stream()

    def _change_left(self, left: Member) -> None:
        old = self._left.sender
        if left.id == old.id:
            return
        self._left = LeftStream(left)
        self._show_view(old)
        self._show_view(left)

    def _change_right(self, right: Member) -> None:
        """A catchup shows our view just as well."""
        old = self._right.to
        if right.id == old.id:
            return
        self._right = RightStream(right, self._right.stream)
        self._show_view(old)
        if self.rounds.is_caught_up:
            self.begin_stream()
        else:
            self._show_view(right)

    def _show_view(self, member: Member) -> None:
        if member.id != self.me.id:
            self.send(member, CheckNeighbours(*self.fence))
