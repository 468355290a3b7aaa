"""Bringing messages back from segments.

A reader goes through a queue from its oldest message on, some bytes at a time. Where it stopped is
remembered, so that the next piece of a segment need not be searched for; that works as long as
entries stand in the file in order of their sequence numbers, which those of persistent messages do.
A segment in which they do not is read as a whole, and sorted.

What should be there and is not, in whatever way the file came to harm, is lost: it is counted,
reported, and acknowledged, so that nobody waits for it. A disk that will not read is another thing:
it is asked again, and the messages are left where they are (patience.py).

A queue may have kept the places of messages in memory and not their bodies (message_tiers.py). It
asks for these by name: the same files are read, and no entry but theirs is made a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warren.model.logs import EventLog
from warren.storage.disk.files import Disk
from warren.storage.disk.read_retry import ReadRetry
from warren.storage.index.index_format import ALIGNMENT, FILE_HEADER_BYTES
from warren.storage.index.index_records import EntryReader
from warren.storage.index.segment import SEGMENT_ENTRIES, SEGMENT_SHIFT, Segment, places_of, runs_of
from warren.storage.index.segment_entry import note_messages, places_by_segment
from warren.wire.codec import Message, QueuedMessage

if TYPE_CHECKING:
    from warren.storage.disk.layout import IndexLayout
    from warren.storage.index.index_host import IndexHost
    from warren.storage.index.queue_index import QueueIndex

CHUNK_BYTES_MIN: Final = 64 * 1_024
ENTRY_BYTES_USUAL: Final = 96
"""What an entry has beside its body, about: a head, a route key, properties."""

_log = EventLog("storage")


@dataclass(slots=True)
class Cursor:
    """The entries of a segment from `sequence` on stand at `offset` or behind it."""

    segment: Segment | None = None
    sequence: int = 0
    offset: int = FILE_HEADER_BYTES


@dataclass(slots=True)
class Piece:
    """What is to be read of one segment, and what came of it. `read` blocks."""

    path: Path
    segment: Segment
    wanted: int
    reader: EntryReader
    offset: int
    end: int
    bytes_max: int
    chunk_bytes: int
    is_complete: bool = False
    is_missing: bool = False

    def read(self, disk: Disk) -> list[QueuedMessage]:
        """May be called again if it raises OSError."""
        start, left = self.offset, self.reader.left
        try:
            descriptor = disk.open(self.path)
        except FileNotFoundError:
            self.is_complete = self.is_missing = True
            return []
        entries: list[QueuedMessage] = []
        try:
            self._read(disk, descriptor, entries)
        except OSError as error:
            error.filename = error.filename or str(self.path)
            if not entries or not self.segment.is_ordered:
                self.offset, self.reader.left = start, left
                raise
        finally:
            disk.close(descriptor)
        return entries

    def _read(self, disk: Disk, descriptor: int, entries: list[QueuedMessage]) -> None:
        room = self.bytes_max
        # Records are filled up to a multiple of this. Were a piece to end within that, the next
        # one would begin where no record does.
        chunk = -(-max(CHUNK_BYTES_MIN, self.chunk_bytes) // ALIGNMENT) * ALIGNMENT
        while room > 0 and not self.is_complete:
            size = min(chunk, self.end - self.offset)
            found = self.reader.read(disk.read(descriptor, self.offset, size), 0, room)
            entries.extend(found)
            room -= sum(queued.size for queued in found)
            is_last = self.offset + size >= self.end
            self.offset += self.reader.position
            is_at_end = self.offset >= self.end or (is_last and room > 0 and not found)
            if is_at_end or not self.reader.left:
                self.is_complete = True
            if not self.reader.position:
                chunk *= 2  # a record larger than that, or damage


class SegmentReading:
    def __init__(self, host: IndexHost, layout: IndexLayout, salt: int) -> None:
        self._host = host
        self._layout = layout
        self._salt = salt
        self._cursors: dict[int, Cursor] = {}
        self._patience = ReadRetry(host.workers)
        self.entries_read = 0
        self.entries_lost = 0

    async def read(
        self, queue: QueueIndex, start: int, end: int, bytes_max: int
    ) -> list[QueuedMessage] | None:
        """The first messages alive in segments from `start` to before `end`, in order.

        None if nobody wants them any more, because the queue or the node is going.
        """
        queue.close_run()
        entries: list[QueuedMessage] = []
        for number in self._numbers(queue, start, end):
            segment = queue.segments.get(number)
            if segment is None or bytes_max <= 0:
                continue
            wanted = segment.readable & _range_places(number, start, end)
            if not wanted:
                continue
            piece = self._piece(queue, segment, wanted, (bytes_max, bytes_max))
            found = await self._perform(queue, piece, is_patient=not entries)
            if found is None and not entries:
                return None
            self._check(queue, piece, found or [])
            entries.extend(found or ())
            if found is None or not piece.is_complete:
                break
            bytes_max -= sum(queued.size for queued in found)
        mark_redelivered(queue, entries)
        self.entries_read += len(entries)
        return entries

    async def read_messages(
        self, queue: QueueIndex, places: list[QueuedMessage]
    ) -> dict[int, Message] | None:
        """Messages of these places, whose bodies are in segments, by sequence number.

        None if nobody wants them any more. What is acknowledged by then, or lost, is left out; the
        loss has been reported, and is for the queue to acknowledge.
        """
        queue.close_run()
        messages: dict[int, Message] = {}
        for number, (wanted, body_bytes) in sorted(places_by_segment(places).items()):
            segment = queue.segments.get(number)
            if segment is None or not (wanted := wanted & segment.readable):
                continue
            sizes = (segment.file_size, body_bytes + wanted.bit_count() * ENTRY_BYTES_USUAL)
            piece = self._piece(queue, segment, wanted, sizes)
            found = await self._perform(queue, piece, is_patient=True)
            if found is None:
                return None
            self._report(queue, piece, self._missing(queue, piece, found))
            note_messages(messages, found)
        self.entries_read += len(messages)
        return messages

    def forget(self, queue_id: int) -> None:
        self._cursors.pop(queue_id, None)

    def stop(self) -> None:
        """Try nothing again that has failed."""
        self._patience.end()

    @staticmethod
    def _numbers(queue: QueueIndex, start: int, end: int) -> list[int]:
        first, last = start >> SEGMENT_SHIFT, (end - 1) >> SEGMENT_SHIFT
        if last - first < len(queue.segments):
            return [n for n in range(first, last + 1) if n in queue.segments]
        return sorted(n for n in queue.segments if first <= n <= last)

    def _piece(
        self, queue: QueueIndex, segment: Segment, wanted: int, sizes: tuple[int, int]
    ) -> Piece:
        """`sizes` are how much to read at most, and at a time; of a segment in order, that is."""
        if not segment.is_ordered:
            sizes = (segment.file_size, segment.file_size)
        first = segment.base + (wanted & -wanted).bit_length() - 1
        cursor = self._cursors.setdefault(queue.queue_id, Cursor())
        can_resume = cursor.segment is segment and cursor.sequence <= first
        return Piece(
            path=self._layout.segment_file(queue.name, segment.number),
            segment=segment,
            wanted=wanted,
            reader=EntryReader(
                self._salt,
                segment.base,
                wanted.to_bytes(SEGMENT_ENTRIES // 8, "little"),
            ),
            offset=cursor.offset if segment.is_ordered and can_resume else FILE_HEADER_BYTES,
            end=segment.file_size,
            bytes_max=sizes[0],
            chunk_bytes=sizes[1],
        )

    async def _perform(
        self, queue: QueueIndex, piece: Piece, *, is_patient: bool
    ) -> list[QueuedMessage] | None:
        read = partial(piece.read, self._host.disk)
        if is_patient:
            entries = await self._patience.read(read, lambda: not queue.is_deleted)
        else:
            entries = await self._patience.read_once(read)
        if entries is None:
            return None
        segment = piece.segment
        if not segment.is_ordered:
            entries.sort(key=attrgetter("sequence"))
        self._cursors[queue.queue_id] = Cursor(segment, piece.reader.passed, piece.offset)
        return entries

    def _check(self, queue: QueueIndex, piece: Piece, entries: list[QueuedMessage]) -> None:
        """Acknowledge what is missing: nobody is going to have it."""
        missing = self._missing(queue, piece, entries)
        self._report(queue, piece, missing)
        for first, length in runs_of(missing):
            base = piece.segment.base + first
            queue.ack_range(base, base + length)

    @staticmethod
    def _missing(queue: QueueIndex, piece: Piece, entries: list[QueuedMessage]) -> int:
        """Places of what was not there: everything alive that the reader has passed must be."""
        segment, wanted = piece.segment, piece.wanted
        if not piece.is_complete and entries:
            passed = entries[-1].sequence + 1 - segment.base
            wanted &= (1 << passed) - 1
        elif not piece.is_complete:
            return 0
        if len(entries) == wanted.bit_count():
            return 0
        found = bytearray(SEGMENT_ENTRIES // 8)
        for queued in entries:
            place = queued.sequence - segment.base
            found[place >> 3] |= 1 << (place & 7)
        missing = wanted & ~int.from_bytes(found, "little")
        if queue.segments.get(segment.number) is not segment:
            return 0
        return missing & segment.readable  # others may have been acknowledged meanwhile

    def _report(self, queue: QueueIndex, piece: Piece, missing: int) -> None:
        if not missing:
            return
        count = missing.bit_count()
        self.entries_lost += count
        reason = "file missing" if piece.is_missing else f"{piece.reader.damaged} damaged bytes"
        _log.error(
            "messages of a segment lost",
            queue=queue.name, messages=count, path=piece.path, reason=reason,
        )  # fmt: skip


def mark_redelivered(queue: QueueIndex, entries: list[QueuedMessage]) -> None:
    if not entries:
        return
    below = queue.redelivered_below
    first, last = entries[0].sequence, entries[-1].sequence
    if first < below:
        for queued in entries:
            if queued.sequence < below:
                queued.redelivered = True
    runs = [r for r in queue.delivered if r[0] <= last and r[0] + r[1] > first]
    for start, count in runs:
        for queued in entries:
            if start <= queued.sequence < start + count:
                queued.redelivered = True


def _range_places(number: int, start: int, end: int) -> int:
    base = number << SEGMENT_SHIFT
    first, stop = max(start, base), min(end, base + SEGMENT_ENTRIES)
    return places_of(first, stop - first) if stop > first else 0
