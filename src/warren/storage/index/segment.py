"""A segment: 2048 consecutive sequence numbers of one queue, and what is left alive of them.

The file is appended to and, when nothing in it is alive any more, deleted. What is alive is known
without reading it, as a number with one bit per place: 2048 bits for 2048 messages. The segments
of a backlog, in which everything is alive, share one such number. Sets of places are numbers, too,
so a run of acknowledgements is one operation, and doing it twice changes nothing. That is what
makes recovery simple: an acknowledgement may be in the checkpoint and in the journal after it.

Acknowledgements are also appended to the file, now and then, so that the segments alone, should the
checkpoint be lost, still tell the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

SEGMENT_ENTRIES: Final = 2_048
SEGMENT_SHIFT: Final = 11
ALL: Final = (1 << SEGMENT_ENTRIES) - 1


class Segment:
    __slots__ = (
        "doomed", "embedded_bytes", "entries", "file_size", "has_file", "is_ordered", "is_suspect",
        "last_place", "live", "number", "stored", "stored_bytes", "transient", "unwritten_acks",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        self.live = 0
        # Of those alive: not to outlive the process; with the body in a message store.
        self.transient = 0
        self.stored = 0
        # Acknowledged, but the message store is still to be told; never delivered again.
        self.doomed = 0
        self.unwritten_acks = 0
        self.entries = 0
        # Bodies of those alive that are not transient, in the segment and in the message store.
        self.embedded_bytes = 0
        self.stored_bytes = 0
        self.file_size = 0
        self.has_file = False
        self.is_ordered = True  # by sequence number, in the file
        self.last_place = -1
        # The file may be longer than it should be: it is cut before anything is appended.
        self.is_suspect = False

    @property
    def base(self) -> int:
        return self.number << SEGMENT_SHIFT

    @property
    def live_count(self) -> int:
        return self.live.bit_count()

    @property
    def first_trace(self) -> int:
        """Lowest number that its file may know; of one in which all is alive, the first of that."""
        is_whole = self.live and self.entries == self.live_count
        return self.base + ((self.live & -self.live).bit_length() - 1 if is_whole else 0)

    @property
    def readable(self) -> int:
        return self.live & ~self.doomed

    @property
    def body_bytes(self) -> int:
        """Of what can be read; what a purge took of those in a message store is estimated."""
        if not self.doomed:
            return self.embedded_bytes + self.stored_bytes
        share = (self.stored & ~self.doomed).bit_count() / self.stored.bit_count()
        return self.embedded_bytes + int(self.stored_bytes * share)

    def add(self, places: int, transient: int, body_bytes: int, stored_bytes: int) -> None:
        """These are in the file now; bytes without those of transient ones.

        Which of them have their body in a message store is to be added to `stored`.
        """
        assert not self.live & places, "an entry is written once"
        self.live |= places
        if self.live == ALL:
            self.live = ALL  # the one that all full segments share
        self.transient |= transient
        self.embedded_bytes += body_bytes
        self.stored_bytes += stored_bytes

    def ack(self, places: int, body_bytes: int) -> int:
        """How many of them were alive; they are not any more.

        `body_bytes` is what all of `places` have together. Either all are in a message store or
        none is, and the same for being transient.
        """
        gone = self.live & places
        if not gone:
            return 0
        count = gone.bit_count()
        if count != (asked := places.bit_count()):
            body_bytes = body_bytes * count // asked
        if gone & self.stored & ~self.transient:
            self.stored_bytes -= body_bytes
        elif gone & ~self.transient:
            self.embedded_bytes -= body_bytes
        self.live ^= gone
        self.transient &= self.live
        self.stored &= self.live
        self.doomed &= self.live
        self.unwritten_acks |= gone
        self._round_bytes()
        return count

    def _round_bytes(self) -> None:
        """Nothing weighs nothing, whatever was estimated."""
        lasting = self.live & ~self.transient
        if not lasting & ~self.stored:
            self.embedded_bytes = 0
        if not lasting & self.stored:
            self.stored_bytes = 0
        self.embedded_bytes = max(0, self.embedded_bytes)
        self.stored_bytes = max(0, self.stored_bytes)

    def purge_places(self, places: int) -> int:
        """Acknowledge without knowing sizes, or where bodies are; how many are gone for readers.

        Those with a body in a message store stay, as doomed, until that has been told.
        """
        gone = self.readable & places
        if not gone:
            return 0
        count = gone.bit_count()
        self.doomed |= gone & self.stored
        embedded = self.live & ~self.stored
        self.ack(gone & embedded & self.transient, 0)
        lasting = gone & embedded & ~self.transient
        share = lasting.bit_count() / max(1, (embedded & ~self.transient).bit_count())
        self.ack(lasting, int(self.embedded_bytes * share))
        return count

    def forget_transient(self) -> None:
        """After a start: what was not to outlive the process has not."""
        self.unwritten_acks |= self.transient
        self.live &= ~self.transient
        self.stored &= self.live
        self.doomed &= self.live
        self.transient = 0

    def note_order(self, first_place: int, last_place: int) -> None:
        self.is_ordered = self.is_ordered and first_place > self.last_place
        self.last_place = max(self.last_place, last_place)


def places_of(first: int, count: int) -> int:
    """The places of consecutive sequence numbers of one segment."""
    place = first & (SEGMENT_ENTRIES - 1)
    assert place + count <= SEGMENT_ENTRIES, "a run does not cross segments"
    return ((1 << count) - 1) << place


def runs_of(places: int) -> Iterator[tuple[int, int]]:
    """First place and length of each run, in order."""
    position = 0
    while places:
        gap = (places & -places).bit_length() - 1
        places >>= gap
        length = (~places & (places + 1)).bit_length() - 1
        yield position + gap, length
        places >>= length
        position += gap + length


def pieces_among(
    segments: Mapping[int, Segment], start: int, end: int
) -> Iterator[tuple[Segment, int]]:
    """As `pieces_of`, of the segments there are: a range may be far longer than these."""
    if start >= end:
        return
    first, last = start >> SEGMENT_SHIFT, (end - 1) >> SEGMENT_SHIFT
    for number in sorted(n for n in segments if first <= n <= last):
        base = number << SEGMENT_SHIFT
        low, high = max(start, base), min(end, base + SEGMENT_ENTRIES)
        yield segments[number], places_of(low, high - low)


def pieces_of(start: int, end: int) -> Iterator[tuple[int, int]]:
    """The segments that a range of sequence numbers touches: number, and the places in it."""
    while start < end:
        number = start >> SEGMENT_SHIFT
        stop = min(end, (number + 1) << SEGMENT_SHIFT)
        yield number, places_of(start, stop - start)
        start = stop
