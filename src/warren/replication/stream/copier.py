"""Sends the mirrors of a stream what they lack, oldest first, while the stream goes on.

A stream keeps everything, so a mirror that lacks something lacks it until it is sent; nobody has to
ask for that, whatever `ha-sync-mode` says. A step is some chunks as they are on the disk, or, for
the last ones, in memory. No more is under way than the mirror has shown to be able to take; memory
that is short, or a ring that is full, stops it.

A mirror that cannot be sent what it lacks, since it is damaged here, is given up: it stays behind
until it comes anew. The others are not kept waiting for it.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Final

from warren.model.logs import EventLog
from warren.replication.classic.sync_pace import Throttle
from warren.replication.classic.synchroniser import SyncEvent, SyncHost
from warren.replication.classic.under_way import NOTHING_HELD
from warren.replication.stream.stream_master import StreamCoverage, StreamMaster
from warren.streams.chunk_format import MalformedChunk, is_sound, read_header
from warren.streams.ranges import Span, pieces_of
from warren.streams.segments import Segment

STEP_BYTES_MAX: Final = 262_144
"""A step is no larger, unless one chunk is."""
UNDER_WAY_MAX: Final = 4
"""Steps that the mirror does not hold yet."""
RETRY_S: Final = 1.0
"""The disk would not give what it has: it is asked again."""

_log = EventLog("streams")


class StreamCopier:
    """As a `Synchroniser` to whoever looks after mirrors."""

    def __init__(self, master: StreamMaster, host: SyncHost) -> None:
        self.is_syncing = False
        self.sent_count = 0
        """Records, since it began."""
        self._master = master
        self._host = host
        self._is_due = False
        self._is_reading = False
        self._under_way: deque[int] = deque()
        self._member = ""
        self._throttle = Throttle(0)
        master.on_lacking = self.wake

    @property
    def lacking_mirrors(self) -> list[str]:
        return [member for member, count in self.lacking_counts.items() if count]

    @property
    def lacking_counts(self) -> dict[str, int]:
        end = self._master.log.next_offset
        lagging = self._master.lagging.items()
        return {member: end - (coverage.upto or 0) for member, coverage in lagging}

    @property
    def is_wanting(self) -> bool:
        """Always False: a stream's mirrors are brought up to date without being asked for."""
        return False

    def start(self) -> bool:
        """It goes by itself; False if there is nothing to do."""
        self.wake()
        return bool(self.lacking_mirrors)

    def cancel(self) -> bool:
        """A stream's mirrors are always brought up to date."""
        return False

    def consider(self, is_automatic: bool) -> None:
        self.wake()

    def wake(self) -> None:
        if not self._is_reading and self._next() is not None:
            self._go_on_in(0)

    def _go_on_in(self, pause_ms: int) -> None:
        if not self._is_due:
            self._is_due = True
            self._host.call_later(pause_ms, self._step)

    def _next(self) -> str | None:
        """The mirror whose turn it is: one after another."""
        lagging = self._master.lagging.items()
        return next((member for member, each in lagging if each.upto is not None), None)

    def _step(self) -> None:
        self._is_due = False
        master, member = self._master, self._next()
        if member is None or self._is_reading or master.is_deposed:
            self._note_end()
            return
        if member != self._member or not self.is_syncing:
            self._begin(member)
        if self._may_send(member):
            self._send(member, master.lagging[member])

    def _begin(self, member: str) -> None:
        self._member = member
        self._under_way.clear()
        self._throttle = Throttle(self._host.now_ms())
        if not self.is_syncing:
            self.is_syncing = True
            self.sent_count = 0
            self._host.sync_told(SyncEvent.STARTED)

    def _note_end(self) -> None:
        if self.is_syncing:
            self.is_syncing = False
            self._host.sync_told(SyncEvent.COMPLETE)

    def _may_send(self, member: str) -> bool:
        held = self._master.held_by.get(member, NOTHING_HELD)
        while self._under_way and self._under_way[0] <= held:
            self._under_way.popleft()
        is_frozen = self._master.is_frozen and not self._host.is_sync_blocking
        has_room = len(self._under_way) < UNDER_WAY_MAX and not self._host.is_sync_paused
        return has_room and not is_frozen

    def _send(self, member: str, coverage: StreamCoverage) -> None:
        log, upto = self._master.log, coverage.upto
        assert upto is not None, "asked by who calls"
        if upto < log.first_offset:  # retention was quicker: what it has is of no use
            self._master.begin_anew(member)
        elif upto < log.stored_end:
            self._is_reading = True
            log.workers.spawn(self._read(member, coverage, upto))
        else:
            chunks = log.unseen(upto)
            assert chunks, "who has everything is not sent more"
            assert chunks[0].first_offset == upto, "nothing is left out"
            pieces = [piece for chunk in chunks for piece in chunk.pieces]
            self._sent(member, pieces, chunks[-1].end)

    async def _read(self, member: str, coverage: StreamCoverage, start: int) -> None:
        log = self._master.log
        read = partial(self._chunks_from, log.safe_segments(), (start, log.stored_end))
        data: list[bytes] = []
        end = start
        try:
            data, end = await log.workers.run_in_thread(read)
        except Exception as error:  # noqa: BLE001 - nobody is to be kept waiting for it
            if start >= log.first_offset:  # else retention was quicker
                await self._could_not_read(member, coverage, error)
        self._is_reading = False
        is_current = self._master.lagging.get(member) is coverage
        is_current = is_current and coverage.upto == start and not self._master.is_deposed
        if is_current and data:
            self._sent(member, data, end)
        else:
            self._go_on_in(0)

    async def _could_not_read(
        self, member: str, coverage: StreamCoverage, error: Exception
    ) -> None:
        log = self._master.log
        if isinstance(error, OSError):
            _log.error("stream cannot be read for copying", stream=log.name, error=error)
            await log.workers.pause(RETRY_S)
        else:
            _log.exception(
                "stream cannot be copied to mirror", error, stream=log.name, mirror=member
            )
            coverage.upto = None

    def _chunks_from(self, segments: list[Segment], span: Span) -> tuple[list[bytes], int]:
        """As they are in files, and the offset behind their last record. Blocks."""
        reader = self._master.log.reader
        pieces = pieces_of(reader, segments, span, STEP_BYTES_MAX)
        data = [reader.read_once(p.base, p.start, p.end - p.start) for p in pieces]
        end = span[0]
        for part in data:
            end = _end_of_chunks(part, end)
        return data, end

    def _sent(self, member: str, data: list[bytes], end: int) -> None:
        coverage = self._master.lagging[member]
        assert coverage.upto is not None, "it is on its way"
        self.sent_count += end - coverage.upto
        self._under_way.append(self._master.number + 1)
        self._master.copy_to(member, data, end)
        if member not in self._master.lagging:
            self._host.caught_up(member, coverage.kept, self.sent_count)
        settings = self._host.sync_settings()
        size = sum(map(len, data))
        self._go_on_in(self._throttle.sent(size, settings.bytes_per_s, self._host.now_ms()))


def _end_of_chunks(data: bytes, start: int) -> int:
    """The offset behind the last record. Raises MalformedChunk unless all are sound, and follow."""
    position, end = 0, start
    while position < len(data):
        header = read_header(data, position)
        if header.first_offset != end or not is_sound(data, position, header):
            raise MalformedChunk(f"at offset {end}")
        position += header.size
        end = header.end_offset
    if end == start:
        raise MalformedChunk(f"nothing at offset {start}")
    return end
