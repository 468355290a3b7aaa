"""What recovery knows while it goes on: of each queue, and of what it came upon."""

from __future__ import annotations

from dataclasses import dataclass, field

from warren.storage.index.checkpoint import QueueState
from warren.storage.index.segment import SEGMENT_ENTRIES, SEGMENT_SHIFT, pieces_among, pieces_of
from warren.wire.codec import QueuedMessage


@dataclass(slots=True)
class Findings:
    """What recovery came upon, for the log and for tests."""

    phase: str = "checkpoint"  # what is being read
    is_clean: bool = False
    checkpoint_problem: str = ""
    journal_files: int = 0
    journal_files_total: int = 0
    records: int = 0
    segments_read: int = 0
    segments_total: int = 0
    damaged_stretches: int = 0
    damaged_bytes: int = 0
    torn_bytes: int = 0  # at the end of the newest journal file
    lost_bodies: int = 0
    problems: list[str] = field(default_factory=list)

    def damaged(self, path: str, start: int, stop: int) -> None:
        self.damaged_stretches += 1
        self.damaged_bytes += stop - start
        self.problems.append(f"{path}: bytes {start} to {stop} are damaged")


@dataclass(slots=True)
class RecoveringQueue:
    """One queue while the journal is replayed."""

    state: QueueState
    journaled: dict[int, QueuedMessage] = field(default_factory=dict)
    seen: dict[int, bool] = field(default_factory=dict)
    """Whether the message store has the body, of those it was asked for."""
    stored: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Where bodies of segments are, if the segments had to be read."""
    lost: list[int] = field(default_factory=list)
    """Those in the journal without a body: most likely of a batch that nobody was told was safe."""
    orphans: dict[int, QueuedMessage] = field(default_factory=dict)
    """Gone by a purge, or with the queue, and the message store has not been told."""

    first_seen: int | None = None
    """The lowest number that the journal has a record of."""

    def see(self, sequence: int) -> None:
        self.state.next_sequence = max(self.state.next_sequence, sequence + 1)
        self._see_first(sequence)

    def _see_first(self, sequence: int) -> None:
        if self.first_seen is None or sequence < self.first_seen:
            self.first_seen = sequence

    @property
    def used_from(self) -> int:
        """Number below which nothing has left a trace on the disk; it may be too low."""
        traces = [segment.first_trace for segment in self.state.segments.values()]
        if self.first_seen is not None:
            traces.append(self.first_seen)
        return min(traces, default=0)

    def is_segmented(self, sequence: int) -> bool:
        segment = self.state.segments.get(sequence >> SEGMENT_SHIFT)
        return segment is not None and bool(segment.live >> (sequence & (SEGMENT_ENTRIES - 1)) & 1)

    def ack(self, first: int, count: int, body_bytes: int) -> None:
        self.see(first + count - 1)
        self._see_first(first)
        if self.journaled or self.orphans:
            for sequence in range(first, first + count):
                self.journaled.pop(sequence, None)
                self.orphans.pop(sequence, None)
        for number, places in pieces_of(first, first + count):
            segment = self.state.segments.get(number)
            if segment is not None:
                segment.ack(places, body_bytes)

    def ack_range(self, start: int, end: int) -> None:
        self._see_first(start)
        # Some may have been in segments by then, and are known from the journal again.
        for sequence in [s for s in self.journaled if start <= s < end]:
            self._orphan(sequence)
        for segment, places in pieces_among(self.state.segments, start, end):
            segment.purge_places(places)

    def delete(self) -> None:
        self.state.is_deleted = True
        for sequence in list(self.journaled):
            self._orphan(sequence)

    def _orphan(self, sequence: int) -> None:
        queued = self.journaled.pop(sequence)
        if queued.store_file >= 0:
            self.orphans[sequence] = queued
