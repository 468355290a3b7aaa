"""Gives mirrors the messages that were there before them, while the queue goes on.

RabbitMQ stops a queue to synchronise it: its mirrors throw away what they have, are sent everything
in order, and only then does anybody hear of the queue again. Here a mirror keeps what it has. It
holds the master's messages from its boundary on, and what it lacks is sent to it from the newest
to the oldest, each batch lowering the boundary a little:

    master   1 2 3 4 5 6 7 8 9      a mirror came when 7 was the next number: 7 8 9 it was told
    mirror               7 8 9
             Older: 5 6 of [5, 7)   now it holds all from 5 on, and goes on to be told of these
    mirror           5 6 7 8 9

At every moment it is a copy of the master's newest messages without a hole, so nothing has to be
thrown away if the synchronisation is interrupted: it continues at the boundary. And a queue is
consumed at the other end, where the two meet halfway.

Batches go through the ring in order with everything else. What leaves the master while a piece of
its messages is being sent is passed over (`MasterBacking.departed`): it was gone before the batch
that would have had it, so mirrors were never told of it, and are not told that it is gone.

Several mirrors have different boundaries. The highest is lowered to the next, and from there on
they go down together: a batch is for all whose boundary is where it begins, others pass over it.

Nobody waits for this, unless that is wanted (`is_sync_blocking`). No more is under way than mirrors
have shown to be able to take, by holding what was sent before, on disk; a step is a few hundred
kilobytes, and between two steps others have their turn; memory that is short, or a ring that is
full, stops it.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final, Protocol

from warren.replication.classic.instructions import Older
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.rejoining import CatchUp, CatchUpHost
from warren.replication.classic.sync_pace import SyncSettings, Throttle, is_batch_due
from warren.replication.classic.under_way import NOTHING_HELD
from warren.storage.queue.collecting import Piece
from warren.wire.codec import QueuedMessage

STEP_BYTES_MAX: Final = 65_536
"""A batch is no larger, but for its last message: what it takes to make one holds up the rest."""
UNDER_WAY_MAX: Final = 4
"""Batches that not all mirrors hold yet."""
PROGRESS_MS: Final = 1_000


class SyncEvent(Enum):
    STARTED = "started"
    PROGRESS = "progress"
    COMPLETE = "complete"
    CANCELLED = "cancelled"


class SyncHost(CatchUpHost, Protocol):
    """What a synchroniser needs of its node. `wake` when it is paused no more.

    It is while memory is short, or the ring is full.
    """

    def now_ms(self) -> int: ...

    def sync_settings(self) -> SyncSettings: ...

    def sync_told(self, event: SyncEvent) -> None: ...


class Synchroniser:
    def __init__(self, master: MasterBacking, host: SyncHost) -> None:
        self.is_syncing = False
        self.sent_count = 0
        """Messages, since it began."""
        self._master = master
        self._host = host
        self._is_due = False
        self._is_collecting = False
        self._level = 0
        self._piece: Piece | None = None
        self._departed: set[tuple[int, int]] = set()
        self._under_way: deque[int] = deque()
        self._catch_up = CatchUp(master, host)
        self._throttle = Throttle(0)
        self._told_ms = 0
        self._cancelled: set[str] = set()
        """Mirrors that are not to be synchronised unless somebody asks for it again."""

    # What is wanted.

    @property
    def lacking_mirrors(self) -> list[str]:
        coverages = self._master.coverages.items()
        return [member for member, coverage in coverages if coverage.lacking]

    @property
    def lacking_counts(self) -> dict[str, int]:
        """How many messages each mirror lacks that is not complete."""
        return {member: coverage.lacking for member, coverage in self._master.coverages.items()}

    @property
    def is_wanting(self) -> bool:
        """True if mirrors lack messages, and neither is that being mended nor was it cancelled."""
        lacking = self.lacking_mirrors
        return not self.is_syncing and not self._cancelled.issuperset(lacking)

    def start(self) -> bool:
        """False if there is nothing to do."""
        if not self.lacking_mirrors:
            return False
        self._cancelled.clear()
        if not self.is_syncing:
            self.is_syncing = True
            self.sent_count = 0
            self._told_ms = self._host.now_ms()
            self._throttle = Throttle(self._told_ms)
            self._host.sync_told(SyncEvent.STARTED)
        self.wake()
        return True

    def cancel(self) -> bool:
        """False if nothing was under way. Mirrors keep what they have got."""
        if not self.is_syncing:
            return False
        self._cancelled = set(self._master.coverages)
        self._end(SyncEvent.CANCELLED)
        return True

    def consider(self, is_automatic: bool) -> None:
        """Something may have changed: go on, or begin if a new mirror is to be synchronised."""
        self._cancelled &= self._master.coverages.keys()
        if is_automatic and not self._cancelled.issuperset(self.lacking_mirrors):
            self.start()
        else:
            self.wake()

    def wake(self) -> None:
        """Go on if there is anything to send: asked whenever a mirror has come further."""
        if self._master.coverages:
            self._catch_up.wake()
        if self.is_syncing and not self._is_due and not self._is_collecting:
            self._is_due = True
            self._host.call_later(0, self._step)

    def _end(self, event: SyncEvent) -> None:
        self.is_syncing = False
        self._piece = None
        self._under_way.clear()
        self._master.departed = None
        self._host.sync_told(event)

    # One step after the other.

    def _step(self) -> None:
        self._is_due = False
        master = self._master
        if not self.is_syncing or self._is_collecting:
            return
        target = None if master.is_deposed else self._target()
        if target is None:
            self._end(SyncEvent.COMPLETE)
        elif self._may_send():
            if self._is_at_hand(*target):
                self._send()
            else:
                self._collect(*target)

    def _target(self) -> tuple[int, int] | None:
        """The level to go on with, and the highest boundary there."""
        boundaries = [
            (level, below)
            for coverage in self._master.coverages.values()
            if not coverage.is_complete
            for level, below in coverage.boundary.items()
            if below
        ]
        return max(boundaries, default=None)

    def _may_send(self) -> bool:
        master = self._master
        if self._host.is_sync_paused:
            self._piece = None  # it keeps messages in memory
            return False
        if self._catch_up.member is not None:
            return False  # one after the other
        held = [master.held_by.get(member, NOTHING_HELD) for member in master.coverages]
        everywhere = min(held, default=master.number)
        while self._under_way and self._under_way[0] <= everywhere:
            self._under_way.popleft()
        is_frozen = master.is_frozen and not self._host.is_sync_blocking
        return len(self._under_way) < UNDER_WAY_MAX and not is_frozen

    def _is_at_hand(self, level: int, below: int) -> bool:
        piece = self._piece
        is_current = self._master.departed is self._departed
        return is_current and piece is not None and (self._level, piece.below) == (level, below)

    def _collect(self, level: int, below: int) -> None:
        master = self._master
        departed = master.departed = self._departed = set()
        self._piece = None
        self._is_collecting = True
        unacked = [queued for (at, _), queued in master.unacked.items() if at == level]

        def collected(piece: Piece) -> None:
            self._is_collecting = False
            if self._departed is departed:
                self._level = level
                self._piece = piece
                piece.cut(self._next_boundary(level, below))
            self.wake()

        master.level_queues()[level].collect(below, unacked, collected)

    def _next_boundary(self, level: int, below: int) -> int:
        """Where another mirror waits."""
        boundaries = [c.boundary.get(level, 0) for c in self._master.coverages.values()]
        return max((boundary for boundary in boundaries if boundary < below), default=0)

    def _send(self) -> None:
        piece, level = self._piece, self._level
        assert piece is not None
        settings = self._host.sync_settings()
        batch, size = self._cut_batch(piece, settings)
        boundary = batch[-1].sequence if piece.messages else piece.start
        expiries = tuple([queued.expires_at_ms for queued in batch])
        older = Older(
            level,
            piece.below,
            boundary,
            tuple([queued.sequence for queued in batch]),
            expiries if any(expiries) else (),
        )
        self._master.tell_older(older, [queued.message for queued in batch])
        piece.below = boundary
        if boundary == piece.start:
            self._piece = None
        self._under_way.append(self._master.number)
        self.sent_count += len(batch)
        self._go_on(size, settings)

    def _cut_batch(self, piece: Piece, settings: SyncSettings) -> tuple[list[QueuedMessage], int]:
        """The newest of the piece that are still there, and the bytes of their bodies."""
        batch: list[QueuedMessage] = []
        size = 0
        messages, level, departed = piece.messages, self._level, self._departed
        limit, sent = settings.bytes_per_s, self._throttle.sent_bytes
        while messages and size < STEP_BYTES_MAX:
            queued = messages.pop()
            if (level, queued.sequence) in departed:
                continue
            batch.append(queued)
            size += queued.size
            if is_batch_due(len(batch), settings.batch_size, sent + size, limit):
                break
        return batch, size

    def _go_on(self, size: int, settings: SyncSettings) -> None:
        now_ms = self._host.now_ms()
        if now_ms - self._told_ms >= PROGRESS_MS:
            self._told_ms = now_ms
            self._host.sync_told(SyncEvent.PROGRESS)
        pause = self._throttle.sent(size, settings.bytes_per_s, now_ms)
        if self.is_syncing and not self._is_due:
            self._is_due = True
            self._host.call_later(pause, self._step)
