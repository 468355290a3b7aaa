"""What a member would like the record to be.

A member never writes the record; it proposes the next one, and may find that somebody else was
faster. So it does not remember what it has proposed, only what it wants, and whenever it sees a
record it works out anew what is still missing in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from warren.replication.gm.events import Propose
from warren.replication.group_record import (
    GroupRecord,
    Member,
    NotAllowed,
    RemovedByLeader,
    SessionGone,
    add_right_of,
    erase,
    leave,
    leave_if_spared,
    mark_dead,
    revive,
)

GONE_MAX: Final = 1_024
"""Ends of nodes' lives that are remembered. They are old news long before they are forgotten."""


class MembershipGoals:
    __slots__ = (
        "_gone",
        "_is_spared_only",
        "_me",
        "_unwanted",
        "expelled",
        "is_leaving",
        "newcomers",
    )

    def __init__(self, me: Member) -> None:
        self._me = me
        self._gone: dict[SessionGone, None] = {}
        self.is_leaving = self._is_spared_only = False
        self.expelled: set[str] = set()
        self._unwanted: set[str] = set()
        self.newcomers: dict[str, Member] = {}

    @property
    def ended_sessions(self) -> frozenset[SessionGone]:
        return frozenset(self._gone)

    def note_end(self, gone: SessionGone) -> None:
        """Also of who is no member: it may have asked to become one just before."""
        self._gone.pop(gone, None)  # whoever is told of again is in a record, and counts as new
        self._gone[gone] = None
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]
        for newcomer in [n for n in self.newcomers.values() if self.is_gone(n)]:
            del self.newcomers[newcomer.id]

    def expel(self, member_id: str, is_unwanted: bool) -> None:
        self.expelled.add(member_id)
        if is_unwanted:
            self._unwanted.add(member_id)

    def leave(self, is_spared_only: bool) -> None:
        self.is_leaving = True
        self._is_spared_only = is_spared_only

    def as_member(
        self,
        record: GroupRecord,
        revision: int,
        settled: frozenset[str],
        is_all_everywhere: Callable[[str], bool],
    ) -> Propose | None:
        """`settled`: the dead we are heir of who have nothing under way any more.

        Who had nothing under way when it died (`is_all_everywhere`) is erased in the same step: so
        a node's death costs a queue at rest one transaction.
        """
        wanted, evidence = self._bury(record)
        if self.is_leaving:
            go = leave_if_spared if self._is_spared_only else leave
            try:
                return Propose(go(wanted, self._me.id), revision, evidence)
            except NotAllowed:  # as things are now, whatever they were when the wish came up
                self.is_leaving = False
        buried = (m.id for m in record.live if not wanted.is_live(m.id))
        erasable = settled.union(filter(is_all_everywhere, buried))
        if erasable:
            wanted = erase(wanted, self._me.id, erasable)
        if record.leader == self._me.id:
            wanted = self._as_leader(wanted)
        return Propose(wanted, revision, evidence) if wanted is not record else None

    def as_founder(
        self, record: GroupRecord | None, first: GroupRecord, revision: int
    ) -> Propose | None:
        """For one who is not a member: only where nobody is left who could let it in."""
        if record is None:
            return Propose(first, None)
        evidence = []
        wanted = record
        for member in record.live:
            gone = self._end_of(member)
            if gone is None:
                return None
            evidence.append(gone)
            wanted = mark_dead(wanted, member.id, gone)
        return Propose(revive(wanted, self._me), revision, tuple(evidence))

    def is_gone(self, member: Member) -> bool:
        return self._end_of(member) is not None

    def _end_of(self, member: Member) -> SessionGone | None:
        session = SessionGone(member.node, member.incarnation)
        return session if session in self._gone else None

    def _bury(self, record: GroupRecord) -> tuple[GroupRecord, tuple[SessionGone, ...]]:
        """Mark those dead that we are next to inherit from; the others have nearer heirs."""
        wanted, evidence = record, []
        at = next(i for i, m in enumerate(record.members) if m.id == self._me.id)
        for member in reversed((*record.members[at + 1 :], *record.members[:at])):
            if member.is_dead:
                continue
            gone = self._end_of(member)
            if gone is None:
                break
            wanted = mark_dead(wanted, member.id, gone)
            evidence.append(gone)
        return wanted, tuple(evidence)

    def _as_leader(self, record: GroupRecord) -> GroupRecord:
        for member_id in self.expelled:
            evidence = RemovedByLeader(self._me.id, member_id in self._unwanted)
            record = mark_dead(record, member_id, evidence)
        for newcomer in self.newcomers.values():
            record = add_right_of(record, self._me.id, newcomer)
        return record
