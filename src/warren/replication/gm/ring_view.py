"""A record as a member sees it: who is left and right of whom, and who inherits from whom."""

from __future__ import annotations

from warren.replication.group_record import GroupRecord, Member


class RingView:
    """Living members in the order of the ring, and for each dead one the member that is its heir.

    The heir is the nearest living member to the right, round the end of the list if need be: the
    one that anything the dead member published must have passed first.
    """

    def __init__(self, record: GroupRecord) -> None:
        self.version = record.view
        self.members = {m.id: m for m in record.members}
        self._ring = tuple(m.id for m in record.live)
        if not self._ring:
            raise ValueError("a ring needs a living member")
        self.is_alone = len(self._ring) == 1
        self._heirs = _find_heirs(record.members)
        self.has_dead = bool(self._heirs)
        """True if a member is dead and not erased yet."""
        # The dead are known until they are erased: only then has everybody all that they said.
        self.known = frozenset(self.members)

    def right_of(self, member_id: str) -> Member:
        at = self._ring.index(member_id) + 1
        return self.members[self._ring[at % len(self._ring)]]

    def left_of(self, member_id: str) -> Member:
        return self.members[self._ring[self._ring.index(member_id) - 1]]

    def aliases_of(self, member_id: str) -> frozenset[str]:
        return frozenset(dead for dead, heir in self._heirs.items() if heir == member_id)


def _find_heirs(members: tuple[Member, ...]) -> dict[str, str]:
    """Twice round the list from right to left: the first round finds who follows its end."""
    heirs = {}
    heir = ""
    for member in (*reversed(members), *reversed(members)):
        if not member.is_dead:
            heir = member.id
        elif heir:
            heirs[member.id] = heir
    return heirs
