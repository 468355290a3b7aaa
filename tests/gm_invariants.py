"""What must hold of a group, whatever happens to it: I1 to I13, watched all along."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from warren.replication.gm.events import Deliver
from warren.replication.gm.ring_view import RingView
from warren.replication.group_record import GroupRecord

if TYPE_CHECKING:
    from gm_world import Peer


class Violation(AssertionError):
    """Named after the invariant, so that a broken machine is told from a broken test."""


def require(is_held: bool, invariant: str, what: str) -> None:
    if not is_held:
        raise Violation(f"{invariant}: {what}")


class Journal:
    """What one member was told, checked as it comes."""

    def __init__(self, member_id: str) -> None:
        self.id = member_id
        self.serial = 0
        self.announced: set[str] = set()
        self.dead: set[str] = set()
        self.heard: dict[str, dict[int, bytes]] = {}
        # Of our own publications: the view in which each was made, and the last one settled.
        self.views: dict[int, int] = {}
        self.settled = 0

    def next_payload(self) -> bytes:
        self.serial += 1
        return f"{self.id}#{self.serial}".encode()

    def changed(self, births: frozenset[str], deaths: frozenset[str]) -> None:
        require(bool(births or deaths), "I13", f"{self.id} was told of no change")
        is_first = not self.announced
        require(self.id in births or not is_first, "G5", f"{self.id} is not among its first")
        require(not births & self.announced, "I8", f"{births} were born twice at {self.id}")
        require(deaths <= self.announced, "I8", f"{deaths} died unannounced at {self.id}")
        self.announced = (self.announced | births) - deaths
        self.dead |= deaths

    def deliver(self, delivery: Deliver, record: GroupRecord | None) -> None:
        origin, number, payload = delivery.origin, delivery.number, bytes(delivery.payload)
        require(record is not None and record.is_live(self.id), "I11", f"{self.id} is out")
        require(origin not in self.dead, "I8", f"{self.id} heard {origin} after its death")
        require(origin in self.announced, "G5", f"{self.id} heard {origin} before its birth")
        if number == 0:
            require(origin == self.id, "1-08", f"{self.id} heard {origin} without a number")
            return
        heard = self.heard.setdefault(origin, {})
        require(number not in heard, "I10", f"{self.id} heard {origin} {number} twice")
        last = next(reversed(heard), number - 1)
        require(number == last + 1, "I1", f"{self.id} heard {origin} {number} after {last}")
        heard[number] = payload
        if origin == self.id:
            assert record is not None
            self.views[number] = record.view


class Witness:
    """Sees all members and the stored record at once, as no member can."""

    def __init__(self, peers: Mapping[str, Peer], stored: Callable[[], GroupRecord | None]) -> None:
        self._peers = peers
        self._stored = stored
        self.settled = 0

    def proposed(self, peer: Peer, record: GroupRecord) -> None:
        """I4 to I6 of every record that may come to be; I11: nobody proposes who is out."""
        known = peer.machine.record
        if known is not None:
            require(record.view > known.view, "I5", f"{known.view} to {record.view}")
            if peer.journal.announced:
                require(known.is_live(peer.id), "I11", f"{peer.id} proposes and is out")
        if not record.live:
            return
        view = RingView(record)
        for member in record.members:
            heirs = [m.id for m in record.live if member.id in view.aliases_of(m.id)]
            require(len(heirs) == int(member.is_dead), "I4", f"{member.id} has heirs {heirs}")
        ring = [record.live[0]]
        while len(ring) <= len(record.live) and view.right_of(ring[-1].id) != ring[0]:
            ring.append(view.right_of(ring[-1].id))
            require(view.left_of(ring[-1].id) == ring[-2], "I6", "left of right is not oneself")
        require(set(ring) == set(record.live), "I6", "the ring leaves members out")

    def look_at(self, peer: Peer) -> None:
        """I7, I12: nobody holds what its origin knows to be forgotten, or has not published.

        And I9, of what the member has come to know as settled.
        """
        rounds = peer.machine._ring.rounds
        self._look_at_settled(peer, rounds.own.acked)
        if not peer.is_member or not rounds.is_caught_up:
            return
        for origin_id, origin in rounds._origins.items():
            require(len(origin.pending) == origin.last_pub - origin.acked, "I7", "a gap")
            publisher = self._peers[origin_id]
            if publisher is peer or not self._is_in_ring(publisher, peer):
                continue
            own = publisher.machine._ring.rounds.own
            what = f"{peer.id} holds {origin.acked + 1} to {origin.last_pub} of {origin_id}"
            require(origin.acked >= own.returned, "I12", f"{what}, {own.returned} is forgotten")
            require(origin.last_pub <= own.last_pub, "I7", f"{what}, {own.last_pub} published")

    def _is_in_ring(self, publisher: Peer, holder: Peer) -> bool:
        """Both as far as the store and they themselves know; outside it nothing is promised."""
        record = self._stored()
        if record is None or not (record.is_live(publisher.id) and record.is_live(holder.id)):
            return False
        rounds = publisher.machine._ring
        return (
            publisher.is_member
            and rounds.view is not None
            and holder.id in rounds.view.known
            and not rounds.is_alone
        )

    def _look_at_settled(self, peer: Peer, upto: int) -> None:
        """I9: every living member that it was meant for has what its origin forgets."""
        journal, record = peer.journal, self._stored()
        fresh = range(journal.settled + 1, upto + 1)
        journal.settled = upto
        for number in fresh if record is not None else ():
            if number not in journal.views:
                continue  # the first publication of a newcomer, which is meant for nobody
            self.settled += 1
            for member in record.live:
                if member.joined_view <= journal.views[number]:
                    heard = self._peers[member.id].journal.heard.get(peer.id, {})
                    what = f"{member.id} lacks {number} of {peer.id}, which is settled"
                    require(number in heard, "I9", what)

    def at_rest(self) -> None:
        """I2 and I3, once nothing is under way any more and nobody is cut off."""
        record = self._stored()
        survivors = [p for p in self._peers.values() if p.is_member]
        require(record is not None, "I3", "there is no record")
        assert record is not None
        require(
            {m.id for m in record.members} == {p.id for p in survivors},
            "I3",
            f"{[m.id for m in record.members]} recorded, {[p.id for p in survivors]} alive",
        )
        for peer in survivors:
            require(peer.machine.record == record, "I3", f"{peer.id} has another record")
            rounds = peer.machine._ring.rounds
            require(rounds.is_caught_up, "I3", f"{peer.id} never caught up")
            for origin_id, origin in rounds._origins.items():
                what = f"{peer.id} has {origin_id} at {origin.acked} of {origin.last_pub}"
                require(not origin.pending and origin.last_pub == origin.acked, "I3", what)
        for origin in self._peers.values():
            self._heard_alike(origin, record, survivors)

    def _heard_alike(self, origin: Peer, record: GroupRecord, survivors: list[Peer]) -> None:
        for number, view in origin.journal.views.items():
            meant = set()
            for peer in survivors:
                member = record.find(peer.id)
                assert member is not None
                if member.joined_view <= view:
                    meant.add(peer.id)
            heard = {p.id for p in survivors if number in p.journal.heard.get(origin.id, {})}
            what = f"{number} of {origin.id} was heard by {heard}, was meant for {meant}"
            require(heard == meant or (not heard and not origin.is_member), "I2", what)
        for peer in survivors:
            for number, payload in peer.journal.heard.get(origin.id, {}).items():
                said = origin.journal.heard[origin.id][number]
                require(payload == said, "I2", f"{peer.id} heard {payload!r} for {said!r}")
