"""How a master that is well has another copy lead: nothing is lost, nobody is refused.

A master that dies leaves to its mirrors what it has told them; what it had not told anybody is
gone, and publishers who want to know are asked to publish again. One that goes deliberately does
better. It stops delivering, tells the mirrors all that there is to tell, and waits until all in
sync hold it. Then it leaves the ring, in one step with the name of its successor; the ring does
what it does after a death, and the successor is promoted once nobody can hear anything of the old
master any more.

Between the last word and the record in which it does not lead any more, clients go on publishing.
None of that is answered: it is kept, also what nobody waits for, and goes to the successor with the
number that it has, so it is there once. What clients acknowledge in between comes again, as after
every failover.
"""

from __future__ import annotations

from functools import partial

from warren.replication.classic.master import MasterBacking
from warren.replication.classic.under_way import NOTHING_HELD
from warren.replication.group_record import FOUNDING_VIEW, GroupRecord, hand_over


class HandOver:
    """A leader's wish that somebody else leads, until the record says so or it cannot be."""

    def __init__(
        self, master: MasterBacking, leader: str, successor: str, keeps_copy: bool
    ) -> None:
        """`keeps_copy`: the old master may be asked to go on as a mirror."""
        self._master = master
        self._leader = leader
        self._successor = successor
        self._keeps_copy = keeps_copy
        master.begin_leaving()
        self._number = master.number

    def pursue(self, record: GroupRecord) -> GroupRecord | None:
        """The record to propose; None as long as somebody in sync does not hold everything.

        Raises NotAllowed if the successor is not what it was any more.
        """
        handed_over = hand_over(record, self._leader, self._successor, self._keeps_copy)
        others = [member for member in record.insync if member != self._leader]
        held = map(partial(self._held_by, record), others)
        return handed_over if min(held) >= self._number else None

    def _held_by(self, record: GroupRecord, member_id: str) -> int:
        """Return the last batch that a mirror holds.

        Batches count from 1. Who is a member since the queue was declared has told nothing before
        the first one, and lacks nothing.
        """
        member = record.find(member_id)
        is_founder = member is not None and member.joined_view == FOUNDING_VIEW
        return self._master.held_by.get(member_id, 0 if is_founder else NOTHING_HELD)

    def abandon(self) -> None:
        self._master.stay()
