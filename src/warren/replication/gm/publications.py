"""What a member knows of one origin's publications: how far they have come, and those under way."""

from __future__ import annotations

from collections import deque
from typing import Final

from warren.replication.gm.frames import Payload, Progress

# What one member may have under way in its group, from the broadcast until everybody has forgotten
# it again. Since others hold a publication no longer than its origin counts it, this is also what
# a link, and what a member's memory, may be asked to hold for each that publishes.
WINDOW_PUBLICATIONS: Final = 1_024
WINDOW_BYTES: Final = 8_388_608

# A view that is below every member's first one: what is published in it is delivered to nobody.
NOBODYS_VIEW: Final = 0


class Publication:
    """`view` is the origin's when it published: who was not a member in it is not meant."""

    def __init__(self, view: int, payload: Payload) -> None:
        self.view = view
        self.payload = payload


class Origin:
    """One member's publications as another one, or itself, sees them.

    All up to `acked` have been everywhere, and are forgotten. `pending` has the others, up to
    `last_pub`, in order and without a gap. For the origin itself and its heir, `returned` is how
    far the acknowledgements have come back: everybody has forgotten what is up to there.
    """

    def __init__(self) -> None:
        self.last_pub = 0
        self.acked = 0
        self.returned = 0
        self.pending: deque[Publication] = deque()

    @property
    def is_settled(self) -> bool:
        return self.last_pub == self.acked == self.returned

    def publish(self, publication: Publication) -> None:
        self.last_pub += 1
        self.pending.append(publication)

    def take(self, progress: Progress, payloads: tuple[Payload, ...]) -> list[Publication]:
        """Add what is new to us of what came; gives that."""
        views = progress.views
        before = progress.last_pub - len(views)
        if before > self.last_pub:
            # All the others have had what we lack, so it was not meant for us.
            assert before <= progress.acked
            self.settle(before)
        skipped = self.last_pub - before
        fresh: list[Publication] = []
        for at in range(skipped, len(views)):
            publication = Publication(views[at], payloads[at])
            fresh.append(publication)
            self.pending.append(publication)
        self.last_pub += len(fresh)
        assert self.last_pub - self.acked == len(self.pending)
        return fresh

    def settle(self, up_to: int) -> None:
        """Everybody has had all up to there."""
        if up_to <= self.acked:
            return
        for _ in range(min(up_to - self.acked, len(self.pending))):
            self.pending.popleft()
        self.acked = up_to
        self.last_pub = max(self.last_pub, up_to)


class Window:
    """The sizes of our own publications that somebody may still hold, and whether there is room."""

    def __init__(self) -> None:
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self.is_shut = False

    def add(self, size: int) -> None:
        self._sizes.append(size)
        self._bytes += size
        if len(self._sizes) >= WINDOW_PUBLICATIONS or self._bytes >= WINDOW_BYTES:
            self.is_shut = True

    def keep(self, count: int) -> None:
        """Keep the newest `count` sizes, and reopen a shut window that is half empty.

        Not earlier, so that publishers do not stop and go with every batch.
        """
        sizes = self._sizes
        while len(sizes) > count:
            self._bytes -= sizes.popleft()
        if self.is_shut:
            is_half_free = len(sizes) <= WINDOW_PUBLICATIONS // 2
            self.is_shut = not (is_half_free and self._bytes <= WINDOW_BYTES // 2)
