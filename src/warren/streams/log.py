"""One stream's log: segments that are safe, and how more gets there.

    publishes gather ─► encode chunks ─► (store: write, sync) ─► release: readers, confirms
                             ▲                   │
        chunks of a master ──╯                   ╰─► failed: go on in a new segment

Offsets are given when chunks are encoded, so they have no gaps, whatever fails. A reader sees a
record when it is safe, never before: `end_offset` is the boundary. When a segment is long enough,
another is begun; what comes meanwhile gathers, for the millisecond that takes.

A failed write or sync leaves a file that cannot be trusted beyond what was safe (see disk.py), so
the log begins another segment there and writes the same messages again. If that fails, too, those
who wait for a confirm are refused, and it is tried again every RETRY_S.

**A log that has copies** is held (`hold`): somebody watches it, is told of every chunk, and says
from when on readers may see it (`release`). A chunk that was told is never taken back: if it could
not be written, the very same is written again. A copy is given chunks instead of messages
(`append`), and may have to be cut where its master's is another (`cut`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from warren.model.logs import EventLog
from warren.storage.disk.committer import Batch
from warren.storage.disk.files import Buffer
from warren.storage.disk.workers import Workers
from warren.streams.active_files import ActiveFiles
from warren.streams.backing import StreamBacking
from warren.streams.browsing import browse
from warren.streams.cutting import Cut, make_cut
from warren.streams.limits import SEGMENT_BYTES_MIN, SMALL_SEGMENTS_MAX, Limits
from warren.streams.pending_chunks import PendingChunk, encoded_chunks
from warren.streams.reading import SegmentReader
from warren.streams.recent_chunks import RecentChunk, RecentChunks
from warren.streams.retention import removable, unlink_segments
from warren.streams.segments import Segment, SegmentFiles
from warren.streams.tail import Tail
from warren.streams.watching import LogWatcher

if TYPE_CHECKING:
    from warren.streams.store import StreamStore

RETRY_S: Final = 1.0

_log = EventLog("streams")


class StreamLog:
    def __init__(
        self,
        store: StreamStore,
        name: str,
        files: SegmentFiles,
        segments: list[Segment],
        tail: Tail,
    ) -> None:
        self._store = store
        self._host = store.host
        self.name = name
        self.files = files
        self.segments = segments
        self.tail = tail
        """Its last chunks; kept up while the log is held."""
        self.limits = Limits()
        self.held_from: Callable[[], int | None] = lambda: None
        """The first offset that somebody has still to read, and retention is to leave."""
        self.backing = StreamBacking(self._host.credit, self._mark)
        self.backing.on_deleted = self.delete
        self.backing.look = partial(browse, self)
        self.reader = SegmentReader(self._host.disk, files)
        self.recent = RecentChunks()
        self.is_followed = False
        """Whether somebody reads what is new, so that it is worth keeping at hand."""
        self.on_committed: Callable[[], None] | None = None
        self.is_ready = False
        self.is_deleted = False
        self.truncated_bytes = 0
        self.is_settled = True
        """Whether readers see all that they have ever seen; not just after another one has led."""
        self.is_held = False
        self.watcher: LogWatcher | None = None
        self.end_offset = segments[-1].end if segments else 0
        """Behind the last record that readers may see: the next one's offset."""
        self.written_end = self.next_offset = self.end_offset
        """Behind the last record that is safe here, and the last that has an offset."""
        self._floor = 0
        self._active = ActiveFiles(self._host.disk, files, name)
        self._active_size = segments[-1].size if segments else 0
        self._queue: list[PendingChunk] = []
        self._flight: list[PendingChunk] = []
        self._unreleased: deque[PendingChunk] = deque()
        self._cut: Cut | None = None
        self._failures = 0
        self._last_ms = segments[-1].last_ms if segments else 0
        self.at_work: Awaitable[None] | None = None
        """The last that was done to its files, apart from writing to them."""
        self._count()

    @property
    def first_offset(self) -> int:
        return max(self._floor, self.segments[0].base) if self.segments else 0

    @property
    def workers(self) -> Workers:
        return self._host.workers

    @property
    def has_work(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._queue or self.backing.messages)

    @property
    def last_chunk(self) -> int:
        """Where `last` is: the first record of the newest chunk."""
        for segment in reversed(self.segments):
            if segment.chunks:
                return segment.last_chunk
        return self.end_offset

    @property
    def stored_end(self) -> int:
        """Behind the last record that `safe_segments` have; `unseen` has what follows."""
        base = self.segments[-1].base if self.segments else 0
        return next((s.end for s in reversed(self.segments) if s.chunks), base)

    def safe_segments(self) -> list[Segment]:
        """What a reader may look at, as of now."""
        return [replace(segment) for segment in self.segments if segment.chunks]

    def now_ms(self) -> int:
        return self._host.now_ms()

    def apply(self, limits: Limits) -> None:
        self.limits = limits
        self.retain()

    # Writing.

    def _mark(self) -> None:
        if self.is_ready:
            self._store.mark(self)

    def append(self, chunk: PendingChunk) -> None:
        """The next one, of whoever gives offsets to this log."""
        assert chunk.first_offset == self.next_offset, "nothing is left out"
        self.next_offset = chunk.end
        self._last_ms = max(self._last_ms, chunk.timestamp_ms)
        self.tail.add(chunk)
        self._queue.append(chunk)
        self._mark()

    def fill(self, batch: Batch) -> None:
        """Put what has gathered into a batch that is about to be submitted."""
        if not self._queue:
            self._encode()
        self._flight, self._queue = self._queue, []
        base, position = self.segments[-1].base, self._active_size
        pieces: list[Buffer] = []
        entries: list[Buffer] = []
        for chunk in self._flight:
            chunk.place(base, position)
            position += chunk.size
            pieces.extend(chunk.pieces)
            entries.append(chunk.entry.encoded())
        active = self._active
        batch.writes.append((active.data, pieces))
        batch.writes.append((active.index, [b"".join(entries)]))
        batch.syncs.append(active.data)

    def _encode(self) -> None:
        self._last_ms = max(self._host.now_ms(), self._last_ms)
        messages, size = self.backing.take(), self.backing.flight_bytes
        chunks = encoded_chunks(messages, size, self.next_offset, self._last_ms)
        self._queue += chunks
        self.next_offset = chunks[-1].end
        if self.is_held:
            for chunk in chunks:
                self.tail.add(chunk)
        if self.watcher is not None:
            self.watcher.encoded(chunks)

    def committed(self) -> None:
        self._failures = 0
        flight, self._flight = self._flight, []
        self.written_end = flight[-1].end
        self._active_size = flight[-1].entry.position + flight[-1].size
        self._unreleased.extend(flight)
        if self.is_deleted:
            self._close_files()
        if self.is_held:
            self.backing.land()
            self._tell_written()
        else:
            self._release(self.written_end)
            self.backing.committed()
        if self.is_deleted:
            return
        if not self.is_held and self.on_committed is not None:
            self.on_committed()
        self._go_on()

    def _tell_written(self) -> None:
        """Not while something that was written is to be cut off again."""
        if self.watcher is not None and self._cut is None and not self.is_deleted:
            self.watcher.written(self.written_end)

    def _go_on(self) -> None:
        if self._cut is not None:
            self._work(self._cut_files())
        elif self._active_size >= self._segment_bytes():
            self._work(self._begin_segment())
        elif self.has_work:
            self._store.mark(self)

    def _segment_bytes(self) -> int:
        """Size at which the next segment begins: not a file per record, whatever was declared."""
        wanted = self.limits.segment_bytes
        return wanted if len(self.segments) < SMALL_SEGMENTS_MAX else max(wanted, SEGMENT_BYTES_MIN)

    def failed(self, error: OSError) -> None:
        flight, self._flight = self._flight, []
        self.is_ready = False
        if self.is_deleted:
            self._close_files()
            if self.is_held:
                self.backing.land()
            else:
                self.backing.committed()
            return
        if self.is_held:
            left = flight if self._cut is None else self._cut.what_is_left(flight)
            self._queue = left + self._queue
        else:
            self.next_offset = self.written_end
            self.backing.put_back()
        self._report(error)
        self._work(self._begin_segment())

    # Showing.

    def hold(self, watcher: LogWatcher | None, end: int) -> None:
        """From now on readers see what is before this offset, and what `release` lets them."""
        self.is_held = True
        self.watcher = watcher
        self.end_offset = end
        self._count()

    def let_go(self) -> None:
        """Nobody else has a copy any more."""
        self.is_held = False
        self.is_settled = True
        self.watcher = None
        self.release(self.written_end)

    def release(self, end: int) -> None:
        """Readers may see what is before this offset."""
        if end > self.end_offset and self._cut is None:
            self._release(end)
            if self.on_committed is not None and not self.is_deleted:
                self.on_committed()

    def _release(self, end: int) -> None:
        self.end_offset = end
        segment = self.segments[-1]
        while self._unreleased and self._unreleased[0].end <= end:
            chunk = self._unreleased.popleft()
            if segment.base != chunk.base:
                segment = next(s for s in self.segments if s.base == chunk.base)
            segment.add(chunk.entry, chunk.size)
            self.backing.ready_bytes += chunk.size
            if self.is_followed:
                self.recent.add(RecentChunk(chunk.first_offset, chunk.messages(), chunk.size))
        self._count_records()

    def unseen(self, offset: int) -> list[PendingChunk]:
        """Chunks from an offset on that readers have not been shown yet, or the disk."""
        chunks = (*self._unreleased, *self._flight, *self._queue)
        return [chunk for chunk in chunks if chunk.first_offset >= offset]

    def follow(self, is_followed: bool) -> None:
        self.is_followed = is_followed
        if not is_followed:
            self.recent.clear()

    def _count(self) -> None:
        self.backing.ready_bytes = sum(segment.size for segment in self.segments)
        self._count_records()

    def _count_records(self) -> None:
        if self.is_deleted:
            self.backing.length = self.backing.ready_bytes = 0
            return
        self.backing.length = max(0, self.end_offset - self.first_offset)
        if self.watcher is not None:
            self.watcher.counted()

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

    def _work(self, work: Coroutine[object, object, None]) -> None:
        """On its files, until which nothing is written to them."""
        self.is_ready = False
        self.at_work = self.workers.spawn(work)

    def _ready(self) -> None:
        if self.is_deleted:
            self._close_files()
            return
        if self._cut is not None:
            self._work(self._cut_files())
            return
        self.is_ready = True
        self.backing.is_refusing = False
        if self.has_work:
            self._store.mark(self)

    async def _begin_segment(self) -> None:
        """Go on in another file, because this one is long enough, or has failed."""
        while not self.is_deleted and not self._store.is_closing:
            base, former = self.written_end, (self.segments[-1].base, self._active_size)
            try:
                await self._host.workers.run_in_thread(partial(self._active.create, base, former))
            except OSError as error:
                self._report(error)
                await self._pause_failing()
                continue
            if self.segments[-1].base != base:
                self.segments.append(Segment(base, base))
            self._active_size = 0
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
        if self.watcher is not None:
            self.watcher.failed()
        _log.error("stream cannot be written", stream=self.name, error=error)
        self._store.note_failure()
        self._host.on_failure(error)
        if self._failures > 1:
            self.backing.refuse()

    def _open_files(self) -> None:
        """The newest segment, or the first one of all. Blocks."""
        if self.segments:
            self._active.open(self.segments[-1].base)
        else:
            self._active.begin()
            self.segments.append(Segment(0, 0))

    def _close_files(self) -> None:
        self.is_ready = False
        self._active.close()

    def close(self) -> None:
        """Nothing is written any more."""
        assert not self._flight, "a store waits for its last commit"
        self._close_files()

    # Letting go.

    def cut(self, end: int, done: Callable[[], None], *, is_anew: bool = False) -> None:
        """Leave what is before this offset; or nothing at all, and begin there (`is_anew`)."""
        cut = Cut(end, is_anew, done)
        self._queue = cut.what_is_left(self._queue)
        self._cut = cut if self._cut is None else self._cut.and_then(cut)
        self.tail.cut(0 if is_anew else end)
        self._floor = min(self._floor, end)
        self.next_offset = end
        self.end_offset = min(self.end_offset, end)
        if self.is_ready and not self._flight:
            self._work(self._cut_files())

    async def _cut_files(self) -> None:
        while self._cut is not None and not self.is_deleted and not self._store.is_closing:
            wanted = self._cut
            if wanted.end < self.written_end or wanted.is_anew:
                make = partial(make_cut, self._host.disk, self.files, self._active, wanted)
                try:
                    segments = await self._host.workers.run_in_thread(make)
                except OSError as error:
                    self._report(error)
                    await self._host.workers.pause(RETRY_S)
                    continue
                self.segments = segments
                self._unreleased.clear()
                self._active_size = segments[-1].size
                self.written_end = segments[-1].end
            if self._cut is wanted:  # and nothing else was asked for meanwhile
                self._cut = None
                self._count()
                wanted.done()
        if self._cut is not None:  # and never will be made
            self._close_files()
            return
        self._tell_written()
        self._ready()

    def forget_below(self, offset: int) -> None:
        """Whoever leads has let go of what is before this offset."""
        self._floor = max(self._floor, offset)
        if self._cut is None and len(self.segments) > 1:
            bases = [segment.base for segment in self.segments[1:]]
            self._remove(sum(base <= offset for base in bases))

    def retain(self) -> None:
        """Remove what is beyond the limits."""
        age_ms = self.limits.age_ms_max
        oldest_ms = None if age_ms is None else self._host.now_ms() - age_ms
        limits = (self.limits.bytes_max, oldest_ms, self.held_from())
        self._remove(removable(self.segments, *limits))

    def _remove(self, count: int) -> None:
        """The first segments, as far as readers have been shown all of them."""
        if self._unreleased:
            bases = [segment.base for segment in self.segments]
            count = min(count, bases.index(self._unreleased[0].base))
        if not count:
            return
        gone, self.segments = self.segments[:count], self.segments[count:]
        self.truncated_bytes += sum(segment.size for segment in gone)
        self._count()
        _log.info("stream truncated", stream=self.name, first_offset=self.first_offset)
        self._host.workers.spawn(self._unlink(gone))

    async def _unlink(self, segments: list[Segment]) -> None:
        for error in await self._host.workers.run_in_thread(
            partial(unlink_segments, self._host.disk, self.files, segments)
        ):
            if not self.is_deleted:
                _log.warning("stream segment cannot be removed", stream=self.name, error=error)

    def delete(self) -> None:
        self.is_deleted = True
        self.watcher = None
        self.backing.length = self.backing.ready_bytes = 0
        self.recent.clear()
        if not self._flight and self.is_ready:
            self._close_files()
        self._store.bury(self)
