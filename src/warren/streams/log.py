"""One stream's log: segments that are safe, and how more gets there.

    publishes gather ─► fill: encode chunks ─► (store: write, sync) ─► committed: readers, confirms
                                                       │
                                                       ╰─► failed: go on in a new segment

Offsets are given when chunks are encoded, so they have no gaps, whatever fails. A reader sees a
record when it is safe, never before: `end_offset` is the boundary. When a segment is long enough,
another is begun; what comes meanwhile gathers, for the millisecond that takes.

A failed write or sync leaves a file that cannot be trusted beyond what was safe (see disk.py), so
the log begins another segment there and writes the same messages again. If that fails, too, those
who wait for a confirm are refused, and it is tried again every RETRY_S.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from warren.storage.committer import Batch
from warren.storage.disk import Buffer, append_all
from warren.storage.layout import encode_name
from warren.streams.backing import StreamBacking
from warren.streams.chunk_format import CHUNK_BYTES, CHUNK_RECORDS_MAX
from warren.streams.chunks import decode_chunk, encode_chunk, with_offsets
from warren.streams.reading import SegmentReader
from warren.streams.retention import removable
from warren.streams.segments import IndexEntry, Segment, SegmentFiles
from warren.wire.codec import Message, QueuedMessage

if TYPE_CHECKING:
    from warren.streams.store import StreamStore

SEGMENT_BYTES_DEFAULT: Final = 500_000_000
# What was committed last stays in memory for those who follow closely.
RECENT_BYTES_MAX: Final = 4 * 1_048_576
RETRY_S: Final = 1.0
NAME_FILE: Final = ".queue_name"

_log = logging.getLogger("warren.streams")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a stream may grow to; None: without a limit."""

    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    bytes_max: int | None = None
    age_ms_max: int | None = None


class RecentChunk:
    """A chunk as it was written, while it is in memory."""

    __slots__ = ("_messages", "_told", "end", "first_offset", "size")

    def __init__(self, first_offset: int, messages: list[Message], size: int) -> None:
        self.first_offset = first_offset
        self.end = first_offset + len(messages)
        self.size = size
        self._messages = messages
        self._told: list[Message] | None = None

    def messages(self) -> list[Message]:
        """As consumers get them, made once for all of them."""
        if self._told is None:
            self._told = with_offsets(self._messages, self.first_offset)
        return self._told


class StreamLog:
    def __init__(
        self, store: StreamStore, name: str, files: SegmentFiles, segments: list[Segment]
    ) -> None:
        self._store = store
        self._host = store.host
        self.name = name
        self.files = files
        self.segments = segments
        self.limits = Limits()
        self.held_from: Callable[[], int | None] = lambda: None
        """The first offset that somebody has still to read, and retention is to leave."""
        self.backing = StreamBacking(self._host.credit, self._mark)
        self.backing.on_deleted = self._delete
        self.backing.look = self._look
        self.reader = SegmentReader(self._host.disk, files)
        self.recent: deque[RecentChunk] = deque()
        self._recent_bytes = 0
        self.is_followed = False
        """Whether somebody reads what is new, so that it is worth keeping at hand."""
        self.on_committed: Callable[[], None] | None = None
        self.is_ready = False
        self.is_deleted = False
        self.truncated_bytes = 0
        self._data = self._index = -1
        self._flight: list[tuple[IndexEntry, int, list[Message]]] = []
        self._failures = 0
        self._last_ms = segments[-1].last_ms if segments else 0
        self.opening: Awaitable[None] | None = None
        self._count()

    @property
    def first_offset(self) -> int:
        return self.segments[0].base if self.segments else 0

    @property
    def end_offset(self) -> int:
        """Behind the last record that is safe: the next one's offset."""
        return self.segments[-1].end if self.segments else 0

    @property
    def last_chunk(self) -> int:
        """Where `last` is: the first record of the newest chunk."""
        for segment in reversed(self.segments):
            if segment.chunks:
                return segment.last_chunk
        return self.end_offset

    def safe_segments(self) -> list[Segment]:
        """What a reader may look at, as of now."""
        return [replace(segment) for segment in self.segments if segment.chunks]

    def now_ms(self) -> int:
        return self._host.now_ms()

    async def _look(self, position: int, limit: int, bytes_max: int) -> list[QueuedMessage]:
        """Records from the `position`th on, of one stretch."""
        segments, wanted = self.safe_segments(), self.first_offset + position
        find = partial(self.reader.find_stretch, segments, wanted, bytes_max)
        stretch = await self._host.workers.run_in_thread(find)
        shown: list[QueuedMessage] = []
        if stretch is None:
            return shown
        for at, header in stretch.chunks:
            messages = with_offsets(decode_chunk(stretch.data, at), header.first_offset)
            for offset, message in enumerate(messages, header.first_offset):
                if offset < wanted:
                    continue
                if len(shown) == limit or bytes_max <= 0:
                    return shown
                bytes_max -= len(message.body)
                shown.append(QueuedMessage(message, offset, 0))
        return shown

    def apply(self, limits: Limits) -> None:
        self.limits = limits
        self.retain()

    # Writing.

    def _mark(self) -> None:
        if self.is_ready:
            self._store.mark(self)

    def fill(self, batch: Batch) -> None:
        """Encode what has gathered, into a batch that is about to be submitted."""
        active = self.segments[-1]
        now_ms = self._last_ms = max(self._host.now_ms(), self._last_ms)
        offset, position = active.end, active.size
        pieces: list[Buffer] = []
        entries = []
        for messages in _chunks_of(self.backing.take()):
            encoded = encode_chunk(messages, offset, now_ms)
            entry = IndexEntry(offset, now_ms, position, len(messages))
            size = sum(map(len, encoded))
            pieces.extend(encoded)
            entries.append(entry.encoded())
            self._flight.append((entry, size, messages))
            offset += len(messages)
            position += size
        batch.writes.append((self._data, pieces))
        batch.writes.append((self._index, [b"".join(entries)]))
        batch.syncs.append(self._data)

    def committed(self) -> None:
        self._failures = 0
        flight, self._flight = self._flight, []
        active = self.segments[-1]
        for entry, size, messages in flight:
            active.add(entry, size)
            self.backing.length += entry.records
            self.backing.ready_bytes += size
            if self.is_followed:
                self._remember(RecentChunk(entry.first_offset, messages, size))
        if self.is_deleted:
            self.backing.length = self.backing.ready_bytes = 0
            self._close_files()
        self.backing.committed()
        if self.is_deleted:
            return
        if self.on_committed is not None:
            self.on_committed()
        if active.size >= self.limits.segment_bytes:
            self.is_ready = False
            self._host.workers.spawn(self._begin_segment())
        elif self.backing.messages:
            self._store.mark(self)

    def failed(self, error: OSError) -> None:
        self._flight = []
        self.is_ready = False
        if self.is_deleted:
            self._close_files()
            self.backing.committed()
            return
        self.backing.put_back()
        self._report(error)
        self._host.workers.spawn(self._begin_segment())

    def follow(self, is_followed: bool) -> None:
        self.is_followed = is_followed
        if not is_followed:
            self.recent.clear()
            self._recent_bytes = 0

    def _remember(self, chunk: RecentChunk) -> None:
        self.recent.append(chunk)
        self._recent_bytes += chunk.size
        while self._recent_bytes > RECENT_BYTES_MAX and len(self.recent) > 1:
            self._recent_bytes -= self.recent.popleft().size

    def _count(self) -> None:
        self.backing.length = sum(segment.end - segment.base for segment in self.segments)
        self.backing.ready_bytes = sum(segment.size for segment in self.segments)

    # Segments.

    async def open(self) -> None:
        """Make it ready to be written to; it can be read at once."""
        while not self.is_deleted and not self._store.is_closing:
            try:
                await self._host.workers.run_in_thread(self._open_files)
            except OSError as error:
                self._report(error)
                await self._pause_failing()
                continue
            self._ready()
            return
        self._close_files()

    def _ready(self) -> None:
        if self.is_deleted:
            self._close_files()
            return
        self.is_ready = True
        self.backing.is_refusing = False
        if self.backing.messages:
            self._store.mark(self)

    async def _begin_segment(self) -> None:
        """Go on in another file, because this one is long enough, or has failed."""
        while not self.is_deleted and not self._store.is_closing:
            base = self.end_offset
            try:
                await self._host.workers.run_in_thread(partial(self._create, base))
            except OSError as error:
                self._report(error)
                await self._pause_failing()
                continue
            if self.segments[-1].base != base:
                self.segments.append(Segment(base, base))
            self.retain()
            self._ready()
            return
        self._close_files()

    async def _pause_failing(self) -> None:
        self.backing.refuse()
        await self._host.workers.pause(RETRY_S)

    def _report(self, error: OSError) -> None:
        if self.is_deleted:  # and its directory with it
            return
        self._failures += 1
        _log.error("cannot write to stream '%s': %s", self.name, error)
        self._host.on_failure(error)
        if self._failures > 1:
            self.backing.refuse()

    def _open_files(self) -> None:
        """The newest segment, or the first one of all. Blocks."""
        disk = self._host.disk
        if not self.segments:
            disk.make_directory(self.files.directory)
            name = disk.open(self.files.directory / NAME_FILE, create=True)
            try:
                disk.truncate(name, 0)
                append_all(disk, name, [encode_name(self.name)])
            finally:
                disk.close(name)
            self._create(0)
            for directory in (self.files.directory.parent, self.files.directory.parent.parent):
                disk.sync_directory(directory)
            self.segments.append(Segment(0, 0))
            return
        base = self.segments[-1].base
        self._data = disk.open(self.files.data(base))
        self._index = disk.open(self.files.index(base))

    def _create(self, base: int) -> None:
        """Files for a segment that begins with this offset. Blocks."""
        disk = self._host.disk
        former = self.segments[-1] if self.segments else None
        if self._data >= 0:
            self._leave_files(former)
        for path in (self.files.index(base), self.files.data(base)):
            if former is not None and former.base == base:
                disk.unlink(path)  # nothing in it was ever safe, and it may be beyond repair
        self._index = disk.open(self.files.index(base), create=True)
        self._data = disk.open(self.files.data(base), create=True)
        disk.sync_directory(self.files.directory)

    def _leave_files(self, former: Segment | None) -> None:
        """Those of the segment so far, cut to what of it is safe."""
        disk = self._host.disk
        data, index, self._data, self._index = self._data, self._index, -1, -1
        try:
            if former is not None and disk.size(self.files.data(former.base)) > former.size:
                disk.truncate(data, former.size)
            disk.sync(index)
        except OSError as error:  # or it is deleted
            _log.warning("segment of stream '%s' left as it is: %s", self.name, error)
        finally:
            disk.close(data)
            disk.close(index)

    def _close_files(self) -> None:
        data, index, self._data, self._index = self._data, self._index, -1, -1
        self.is_ready = False
        for descriptor in (data, index):
            if descriptor >= 0:
                self._host.disk.close(descriptor)

    def close(self) -> None:
        """Nothing is written any more."""
        assert not self._flight, "a store waits for its last commit"
        self._close_files()

    # Letting go.

    def retain(self) -> None:
        """Remove what is beyond the limits."""
        age_ms = self.limits.age_ms_max
        oldest_ms = None if age_ms is None else self._host.now_ms() - age_ms
        count = removable(self.segments, self.limits.bytes_max, oldest_ms, self.held_from())
        if not count:
            return
        gone, self.segments = self.segments[:count], self.segments[count:]
        self.truncated_bytes += sum(segment.size for segment in gone)
        self._count()
        _log.info("stream '%s' now begins at offset %d", self.name, self.first_offset)
        self._host.workers.spawn(self._unlink(gone))

    async def _unlink(self, segments: list[Segment]) -> None:
        """The oldest first, so that a crash leaves no hole."""
        for segment in segments:
            for path in (self.files.data(segment.base), self.files.index(segment.base)):
                try:
                    await self._host.workers.run_in_thread(partial(self._host.disk.unlink, path))
                except OSError as error:
                    if not self.is_deleted:
                        _log.warning("cannot remove %s: %s", path.name, error)

    def _delete(self) -> None:
        self.is_deleted = True
        self.recent.clear()
        if not self._flight and self.is_ready:
            self._close_files()
        self._store.bury(self)


def _chunks_of(messages: list[Message]) -> list[list[Message]]:
    chunks: list[list[Message]] = []
    start = size = 0
    for position, message in enumerate(messages):
        size += len(message.body)
        if size >= CHUNK_BYTES or position + 1 - start >= CHUNK_RECORDS_MAX:
            chunks.append(messages[start : position + 1])
            start, size = position + 1, 0
    if start < len(messages):
        chunks.append(messages[start:])
    return chunks
