"""How a member gets into the record, what it makes of it, and what it wants in it.

See `gm` for what this is all about; `gm_proposals` works out what to propose.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from warren.replication.gm.events import Propose, Timer
from warren.replication.gm.frames import AddedOnRight, AddOnRight
from warren.replication.gm.membership_goals import MembershipGoals
from warren.replication.gm.ring import Ring
from warren.replication.group_record import GroupRecord, Member, create

RETRY_MS: Final = 100
"""Until one who wants to join asks again, and a proposal that failed is made again."""


class Standing(Enum):
    """What a record says about us."""

    UNCHANGED = "unchanged"
    OUTSIDE = "outside"
    MEMBER = "member"
    LOST = "lost"


class Membership:
    __slots__ = (
        "_first_epoch",
        "_may_found",
        "_proposed_at",
        "_ring",
        "_uid",
        "is_joining",
        "record",
        "revision",
        "wishes",
    )

    def __init__(self, ring: Ring, uid: str) -> None:
        self._ring = ring
        self._uid = uid
        self.wishes = MembershipGoals(ring.me)
        self.record: GroupRecord | None = None
        self.revision = -1
        self.is_joining = False
        self._may_found = False
        self._first_epoch = 1
        self._proposed_at: int | None = None

    @property
    def me(self) -> Member:
        return self._ring.me

    def note(self, record: GroupRecord | None, revision: int) -> Standing:
        """Late news of an earlier record is no news."""
        if revision <= self.revision:
            return Standing.UNCHANGED
        self.revision = revision
        was_member = self._ring.view is not None
        if record is None or record.uid != self._uid:
            self.record = None
            return Standing.LOST if was_member or record is not None else Standing.OUTSIDE
        self.record = record
        self._ring.fence = (self._uid, record.epoch, record.view, self.me.id)
        if record.is_live(self.me.id):
            return Standing.MEMBER
        is_known = record.find(self.me.id) is not None
        return Standing.LOST if was_member or is_known else Standing.OUTSIDE

    # Getting in.

    def join(self, may_found: bool, first_epoch: int) -> None:
        self.is_joining = True
        self._may_found = may_found
        self._first_epoch = first_epoch
        self.seek()

    def seek(self) -> None:
        """Ask the leader, or found the group if there is nobody who could be asked."""
        if not self.is_joining or self._ring.view is not None or self.revision < 0:
            return
        record = self.record
        self._ring.set_timer(Timer.RETRY, RETRY_MS)
        if self._may_found:
            first = create(self._uid, self.me, self._first_epoch)
            founding = self.wishes.as_founder(record, first, self.revision)
            if founding is not None:
                self._propose(founding)
                return
        leader = None if record is None else record.find(record.leader)
        if leader is not None and not leader.is_dead and not self.wishes.is_gone(leader):
            self._ring.send(leader, AddOnRight(*self._ring.fence, self.me))

    # Letting others in.

    def asked_to_add(self, frame: AddOnRight) -> None:
        """The leader lets newcomers in, at its right: so it knows what it will tell them first.

        Only who knows the record as it is may ask: so no question that was under way for long
        brings somebody back who has been a member since, and has died.
        """
        record, newcomer = self.record, frame.newcomer
        assert record is not None
        is_new = frame.view == record.view and record.find(newcomer.id) is None
        is_welcome = is_new and not self.wishes.is_gone(newcomer)
        if is_welcome and record.leader == self.me.id and self._is_ready:
            self.wishes.newcomers[newcomer.id] = newcomer
            self.pursue()
        else:
            self._answer(newcomer, record)

    @property
    def _is_ready(self) -> bool:
        return self._ring.rounds.is_caught_up and not self.wishes.is_leaving

    def answer_newcomers(self, record: GroupRecord) -> None:
        """They are in, or have to ask again of this record."""
        for newcomer in self.wishes.newcomers.values():
            self._answer(newcomer, record)
        self.wishes.newcomers.clear()

    def _answer(self, newcomer: Member, record: GroupRecord) -> None:
        answer = AddedOnRight(*self._ring.fence, record.is_live(newcomer.id))
        self._ring.send(newcomer, answer)

    # Proposing.

    def pursue(self) -> None:
        """What is missing in the record; nothing if we know that we know too little."""
        record, ring = self.record, self._ring
        if record is None or ring.view is None or ring.is_behind:
            return
        rounds = ring.rounds
        settled, is_all_everywhere = rounds.settled_aliases(), rounds.is_all_everywhere
        wanted = self.wishes.as_member(record, self.revision, settled, is_all_everywhere)
        if wanted is not None:
            self._propose(wanted)

    def retry(self) -> None:
        self._proposed_at = None
        self.seek()
        self.pursue()

    def _propose(self, proposal: Propose) -> None:
        """One for each revision that we see, so that nothing is proposed in vain twice."""
        if self._proposed_at != self.revision:
            self._proposed_at = self.revision
            self._ring.actions.append(proposal)
