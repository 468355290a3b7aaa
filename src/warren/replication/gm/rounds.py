"""The two rounds of the ring: what a member has under way, for itself, for others and for the dead.

Everything here is about one question: of each origin's publications, up to which number have we had
them, and up to which has everybody. What comes from the left moves these numbers on, and what moved
is what the right has to be told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from warren.replication.gm.events import Deliver
from warren.replication.gm.frames import Payload, Progress
from warren.replication.gm.publications import NOBODYS_VIEW, Origin, Publication, Window
from warren.replication.gm.ring_view import RingView

# Acknowledgements, and the word to an origin that its publications have come round, wait for the
# next frame to go with, unless so many publications, or so many bytes of them, have gathered.
OWED_ACKS_MAX: Final = 64
OWED_BYTES_MAX: Final = 262_144


class News:
    """For the right: progress of origins, and the payloads that belong to it."""

    def __init__(self, progress: tuple[Progress, ...], payloads: tuple[Payload, ...]) -> None:
        self.progress = progress
        self.payloads = payloads


class Merged:
    """What came of what the left told: for the right, and then for the replica."""

    def __init__(
        self, moved: list[tuple[str, list[Publication]]], deliveries: list[Deliver]
    ) -> None:
        self.moved = moved
        self.deliveries = deliveries


class Rounds:
    def __init__(self, me: str) -> None:
        self._me = me
        self._view: RingView
        self._joined_view = 0
        self.own = Origin()
        self._origins = {me: self.own}
        self._mine = frozenset({me})
        self.aliases: frozenset[str] = frozenset()
        self.is_caught_up = False
        self.window = Window()
        self._unsent: list[Publication] = []
        self.unsent_bytes = 0
        self._acked_sent = 0
        self._marker = 0
        # Origins with progress that the right has not been told, and the publications in it.
        self._owed_origins: dict[str, None] = {}
        self._owed_count = 0
        self._owed_bytes = 0

    def set_view(self, view: RingView) -> None:
        """Who the others are now: the erased are forgotten, of the newly dead we inherit."""
        self._view = view
        self._joined_view = view.members[self._me].joined_view
        aliases = view.aliases_of(self._me)
        for inherited in aliases - self.aliases:
            if inherited in self._origins:
                # Acknowledgements that the dead one waited for come back to us from now on.
                self._origins[inherited].returned = -1
        self.aliases = aliases
        self._mine = aliases | {self._me}
        for erased in self._origins.keys() - view.known:
            del self._origins[erased]
            self._owed_origins.pop(erased, None)

    def begin_alone(self) -> None:
        """Nobody else holds anything, so nothing is under way, whatever it was."""
        self._origins = {self._me: self.own}
        self.own.settle(self.own.last_pub)
        self.own.returned = self.own.last_pub
        self._all_is_sent()
        self.is_caught_up = True

    def publish(self, payload: Payload, size: int) -> int:
        self.own.publish(Publication(self._view.version, payload))
        self._unsent.append(self.own.pending[-1])
        self.unsent_bytes += size
        self.window.add(size)
        return self.own.last_pub

    def adopt(self) -> None:
        """After the first catchup: publish what is meant for nobody, and see it come round."""
        self.is_caught_up = True
        self.own.publish(Publication(NOBODYS_VIEW, b""))
        self.window.add(0)
        self._marker = self.own.last_pub

    def merge(self, progress: tuple[Progress, ...], payloads: tuple[Payload, ...]) -> Merged:
        moved: list[tuple[str, list[Publication]]] = []
        deliveries: list[Deliver] = []
        at = 0
        for told in progress:
            count = len(told.views)
            part = payloads[at : at + count]
            at += count
            origin_id = told.origin
            if origin_id not in self._view.known:
                continue
            origin = self._origins.get(origin_id)
            if origin is None:
                origin = self._origins[origin_id] = Origin()
            acked = origin.acked
            is_own = origin_id == self._me
            fresh = [] if is_own else origin.take(told, part)
            first = origin.last_pub - len(fresh) + 1
            self._settle(told, origin)
            # Our own acknowledgements wait for our next broadcast.
            if fresh or (origin.acked > acked and not is_own):
                moved.append((origin_id, fresh))
            if fresh:
                self._choose(deliveries, origin_id, first, fresh)
        return Merged(moved, deliveries)

    def _settle(self, told: Progress, origin: Origin) -> None:
        if told.origin not in self._mine:
            origin.settle(told.acked)
            return
        # It has come round to whom it belongs, or to the heir: so everybody has it.
        assert told.last_pub <= origin.last_pub
        origin.returned = max(origin.returned, told.acked)
        origin.settle(told.last_pub)

    def _choose(
        self, deliveries: list[Deliver], origin: str, first: int, fresh: list[Publication]
    ) -> None:
        """Only what was published by somebody who knew of us is meant for us."""
        for number, publication in enumerate(fresh, first):
            if publication.view >= self._joined_view:
                deliveries.append(Deliver(origin, number, publication.payload))

    def release_window(self) -> None:
        """Keep in the window only publications whose acknowledgement has not returned."""
        self.window.keep(self.own.last_pub - self.own.returned)

    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def is_anything_owed(self) -> bool:
        """True if there is progress that others need only to forget publications."""
        return self.own.acked > self._acked_sent or bool(self._owed_origins)

    def is_much_owed(self) -> bool:
        """True if so much waits to be forgotten that it had better be told now."""
        return (
            self.own.acked - self._acked_sent >= OWED_ACKS_MAX
            or self._owed_count >= OWED_ACKS_MAX
            or self._owed_bytes >= OWED_BYTES_MAX
        )

    def owe(self, right: str, moved: list[tuple[str, list[Publication]]]) -> bool:
        """Note progress for the right. True if it must be told now.

        An origin at our right does not lack what it has published itself, only the number: that
        may wait. Acknowledgements that come alone have waited long enough with their origin.
        """
        must_go = False
        for origin_id, fresh in moved:
            self._owed_origins[origin_id] = None
            if origin_id != right or not fresh:
                must_go = True
            else:
                self._owed_count += len(fresh)
                for publication in fresh:
                    self._owed_bytes += len(publication.payload)
        return must_go

    def unsent_news(self, right: str) -> News:
        """Return our own publications that are not sent yet, and all progress that is owed."""
        return self.owed_news(right, [(self._me, self._unsent)])

    def owed_news(self, right: str, moved: list[tuple[str, list[Publication]]]) -> News:
        """Return what has moved, with all other progress that is owed."""
        named = {origin_id for origin_id, _ in moved}
        owed: list[tuple[str, list[Publication]]]
        owed = [(origin_id, []) for origin_id in self._owed_origins if origin_id not in named]
        news = self.news(right, moved + owed if owed else moved)
        if self._me in named:
            self._own_is_sent()
        self._nothing_is_owed()
        return news

    def all_there_is(self, right: str) -> News:
        """For a catchup."""
        known = ((i, self._origins.get(i)) for i in sorted(self._view.known))
        news = self.news(
            right, ((i, list(origin.pending) if origin else []) for i, origin in known)
        )
        self._all_is_sent()
        return news

    def news(self, right: str, moved: Iterable[tuple[str, list[Publication]]]) -> News:
        progress: list[Progress] = []
        payloads: list[Payload] = []
        for origin_id, publications in moved:
            origin = self._origins.get(origin_id) or _NOTHING
            if origin_id == right:
                # It holds what it has published, and needs only the number.
                progress.append(Progress(origin_id, origin.last_pub, origin.acked))
                continue
            views = tuple([p.view for p in publications])
            parts = [p.payload for p in publications]
            lengths = tuple([len(part) for part in parts])
            progress.append(Progress(origin_id, origin.last_pub, origin.acked, views, lengths))
            payloads += parts
        return News(tuple(progress), tuple(payloads))

    def _all_is_sent(self) -> None:
        self._own_is_sent()
        self._nothing_is_owed()

    def _nothing_is_owed(self) -> None:
        self._owed_origins = {}
        self._owed_count = self._owed_bytes = 0

    def _own_is_sent(self) -> None:
        self._unsent = []
        self.unsent_bytes = 0
        self._acked_sent = self.own.acked

    def settled_aliases(self) -> frozenset[str]:
        """The dead whose heir we are, and who have nothing under way any more."""
        if not self.aliases or not self.is_caught_up or self.own.acked < self._marker:
            return frozenset()
        return frozenset(
            alias for alias in self.aliases if self._origins.get(alias, _NOTHING).is_settled
        )

    def is_all_everywhere(self, origin: str) -> bool:
        """True if everybody has all that ever came of a member that we are next to inherit from.

        Everything it got out has come here first. Some may not have forgotten it yet, which they
        do when they read that the member is erased.
        """
        if not self.is_caught_up or self.own.acked < self._marker:
            return False
        known = self._origins.get(origin, _NOTHING)
        return known.last_pub == known.acked


_NOTHING: Final = Origin()
