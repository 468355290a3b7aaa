"""Sees the whole cluster at once, as nobody in it can, and says what must never be.

While things happen:

    P1, 7-10  at no time do two nodes confirm or deliver: epochs that never go back, one node each
    E1        one leader in each epoch
    E2        epochs never go back at a node
    E3        what is confirmed is on the disk of every member of the stored in-sync set
    E4        whoever confirms or delivers has a session
    E5        who leads was in sync, unless the policy takes the loss
    FIFO      in an epoch messages are first delivered in the order of their numbers, and none
              again that was not returned
    order     whoever leads: a message without the mark `redelivered` was never delivered before,
              and comes after all that its publisher published before what was delivered

At the end, when all copies are where they should be and the cluster is at rest:

    total     what was confirmed and not purged was acknowledged by a consumer, or is still there
    E3        every copy has the same messages under the same numbers
    and each publish of a living node has been answered
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gm_invariants import Violation
from warren.mirror.group_record import GroupRecord, node_of
from warren.mirror.group_sight import Promoted, news_between
from warren.wire.codec import QueuedMessage

if TYPE_CHECKING:
    from cluster_simulation.copy_of_node import SimCopy
    from cluster_simulation.world import World

Place = tuple[int, int]
"""Level and number."""


class Witness:
    def __init__(self, world: World) -> None:
        self._world = world
        self.places: dict[int, Place] = {}
        """Where each body that a master has taken is in the queue."""
        self.transient: set[int] = set()
        self.confirmed: set[int] = set()
        self.acknowledged: set[int] = set()
        self.forgiven: set[int] = set()
        """Purged, or lost in a way that was allowed."""
        self.unsafe_promotions = 0
        self.promotions = 0
        self.heard_us: dict[str, int] = {}
        """When clients on each node last heard a confirm."""
        self._epoch = 0
        self._actor = ""
        self._epochs_seen: dict[str, int] = {}
        self._origins: dict[int, str] = {}
        """The publisher of each body."""
        self._had: set[int] = set()
        """Bodies that were delivered, by any master."""
        self._highest: dict[tuple[str, int], int] = {}
        """The newest body of each publisher, at each level, that was delivered by any master."""
        self._first: dict[int, int] = {}
        """By level: the last number that was delivered for the first time in this epoch."""
        self._with_consumers: set[Place] = set()
        self._returned: set[Place] = set()
        self._done: set[Place] = set()

    # The record.

    def stored(self, before: GroupRecord | None, after: GroupRecord) -> None:
        if before is None:
            return
        if after.view <= before.view or after.epoch < before.epoch:
            raise Violation(f"view or epoch went back: {before} -> {after}")
        if after.leader != before.leader and after.epoch == before.epoch:
            raise Violation(f"E1: two leaders in one epoch: {before} -> {after}")
        for news in news_between(before, after):
            if isinstance(news, Promoted):
                self.promotions += 1
                self._promoted(news, before, after)

    def _promoted(self, news: Promoted, before: GroupRecord, after: GroupRecord) -> None:
        if not news.is_safe:
            if not self._world.mirroring.promotes_unsynced_on_failure:
                raise Violation(f"E5: a leader that was not in sync: {before} -> {after}")
            self.unsafe_promotions += 1
            self.forgiven |= self.confirmed
        elif before.find(after.leader) is None:
            # Begun again with what a disk had: nobody was left who had the rest.
            self.forgiven |= self.transient

    def epoch_seen(self, node: str, record: GroupRecord | None) -> None:
        epoch = 0 if record is None else record.epoch
        if epoch < self._epochs_seen.get(node, 0):
            raise Violation(f"E2: {node} goes back to epoch {epoch}")
        self._epochs_seen[node] = epoch

    # Clients.

    def taken(self, body: int, origin: str, level: int, sequence: int) -> None:
        self.places[body] = (level, sequence)
        self._origins[body] = origin

    def confirms(self, copy: SimCopy, body: int) -> None:
        """The master says so; whether the client hears it is another matter."""
        self._acts(copy, "confirms")
        if body not in self.transient and copy.disk.is_present(*self.places[body]):
            self._is_everywhere(body)  # and has not gone already

    def _is_everywhere(self, body: int) -> None:
        record = self._world.store.value
        assert record is not None
        place = self.places[body]
        for member in record.insync:
            if not self._has(member, place):
                raise Violation(f"E3: {body} at {place} is confirmed, and {member} lacks it")

    def _has(self, member: str, place: Place) -> bool:
        node = self._world.nodes[node_of(member)]
        level, sequence = place
        if node.copy is not None:
            return node.copy.disk.has_safe(level, sequence)
        return any(written.sequence == sequence for written in node.saved.get(level, ()))

    def heard_confirm(self, node: str, body: int) -> None:
        self.confirmed.add(body)
        self.heard_us[node] = self._world.schedule.now_us

    def delivered(self, copy: SimCopy, queued: QueuedMessage, place: Place) -> None:
        self._acts(copy, "delivers")
        body = int(queued.message.body)
        if place in self._with_consumers:
            raise Violation(f"FIFO: {body} at {place} is delivered to two consumers at once")
        if place in self._done:
            raise Violation(f"FIFO: {body} at {place} is delivered again, though acknowledged")
        level, sequence = place
        is_first = sequence > self._first.get(level, -1)
        if is_first:
            self._first[level] = sequence
        elif place not in self._returned:
            raise Violation(f"FIFO: {body} at {place} comes after {self._first[level]}")
        self._with_consumers.add(place)
        self._is_in_order(queued, level)

    def _is_in_order(self, queued: QueuedMessage, level: int) -> None:
        """As one consumer sees it that gets everything and lives through all masters."""
        body = int(queued.message.body)
        publisher = (self._origins[body], level)
        highest = self._highest.get(publisher, 0)
        if not queued.redelivered:
            if body < highest:
                raise Violation(f"order: {body} of {publisher} comes as new after {highest}")
            if body in self._had:
                raise Violation(f"order: {body} is delivered again, without the mark")
        self._had.add(body)
        self._highest[publisher] = max(highest, body)

    def acked(self, copy: SimCopy, queued: QueuedMessage, place: Place) -> None:
        self._with_consumers.discard(place)
        if copy.replica.record is not None and copy.replica.record.epoch == self._epoch:
            self._done.add(place)
        self.acknowledged.add(int(queued.message.body))

    def returned(self, copy: SimCopy, queued: QueuedMessage, place: Place) -> None:
        self._with_consumers.discard(place)
        self._returned.add(place)

    def purged(self, copy: SimCopy) -> None:
        kept = {int(queued.message.body) for queued in copy.outstanding.values()}
        self.forgiven |= self.places.keys() - kept

    def _acts(self, copy: SimCopy, what: str) -> None:
        record, name = copy.replica.record, copy.node.name
        assert record is not None
        if record.epoch < self._epoch:
            raise Violation(f"P1: {name} {what} in epoch {record.epoch} after a later one")
        if record.epoch == self._epoch and name != self._actor:
            raise Violation(f"P1: {name} {what}, and {self._actor} does")
        if (name, copy.node.incarnation) not in self._world.store.sessions:
            raise Violation(f"E4: {name} {what} and has no session")
        if record.epoch > self._epoch:
            self._epoch, self._actor = record.epoch, name
            self._first, self._with_consumers = {}, set()
            self._returned, self._done = set(), set()

    # The end.

    def reckon(self) -> None:
        """All is well, and everybody has a copy in sync. It takes the copies to pieces."""
        copies = [node.copy for node in self._world.nodes.values() if node.copy is not None]
        leaders = [copy for copy in copies if copy.replica.master is not None]
        if len(leaders) != 1:
            raise Violation(f"{len(leaders)} leaders at the end: {self._world.store.value}")
        contents = {copy.node.name: copy.disk.drained() for copy in copies}
        here = contents[leaders[0].node.name]
        left = {int(body) for level in here.values() for _, body in level}
        lost = self.confirmed - self.acknowledged - self.forgiven - left
        if lost:
            raise Violation(f"P2: confirmed and lost: {sorted(lost)[:10]}")
        unheard_of = left - self.places.keys()
        if unheard_of:
            raise Violation(f"nobody published {sorted(unheard_of)[:10]}")
        for name, there in contents.items():
            if there != here:
                raise Violation(f"E3: {leaders[0].node.name} has {here}, and {name} {there}")
