"""All streams of a virtual host: where they are, and one commit at a time for all of them.

    <vhost>/streams/<Q>/.queue_name               Q: a hash of the queue's name
    <vhost>/streams/<Q>/<base>.segment, .index    see segments.py
    <vhost>/streams/<Q>.gone-<n>                  of a queue that was deleted

A deleted stream's directory gets another name at once, on the loop, before anybody can declare a
queue of that name again: else a crash could give the old records to the new queue. Its files are
removed later.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import Final

from warren.model.logs import EventLog
from warren.storage.disk.committer import Batch, Committer
from warren.storage.disk.layout import encode_name, vhost_directory
from warren.streams.host import StreamHost
from warren.streams.log import StreamLog
from warren.streams.segments import GONE, Segment, SegmentFiles, recover_segments
from warren.streams.tail import Tail, read_tail

CLOSE_POLL_S: Final = 0.002
DOUBT_MS: Final = 10_000
"""So long after a write that failed nobody is to begin anything large here."""

_log = EventLog("streams")


class StreamStore:
    def __init__(self, data_directory: Path, vhost: str, host: StreamHost) -> None:
        self.host = host
        self.directory = vhost_directory(data_directory, vhost) / "streams"
        self.logs: dict[str, StreamLog] = {}
        self.is_closing = False
        self.commits = 0
        self._failed_ms: int | None = None
        self._committer: Committer | None = None
        self._recovered: dict[str, tuple[list[Segment], Tail]] = {}
        self._dirty: list[StreamLog] = []
        self._flight: list[StreamLog] = []
        self._is_scheduled = False
        self._burials: dict[Path, Awaitable[None]] = {}
        self._burial_count = 0

    async def open(self) -> None:
        """Find what is there. Raises OSError."""
        self._recovered = await self.host.workers.run_in_thread(self._recover)

    def _recover(self) -> dict[str, tuple[list[Segment], Tail]]:
        disk = self.host.disk
        try:
            names = disk.list(self.directory)
        except FileNotFoundError:
            return {}
        for name in [name for name in names if GONE in name]:
            self._remove_directory(self.directory / name)
        recovered = {}
        for name in [name for name in names if GONE not in name]:
            files = SegmentFiles(self.directory / name)
            segments = recover_segments(disk, files)
            recovered[name] = (segments, Tail(read_tail(disk, files, segments)))
        return recovered

    @property
    def recovered_records(self) -> int:
        """What was found at the start and has not been asked for yet."""
        return sum(s.end - s.base for segments, _ in self._recovered.values() for s in segments)

    def log(self, name: str) -> StreamLog:
        """Of a queue; with what it had before the start, if it had."""
        hashed = md5(encode_name(name), usedforsecurity=False).hexdigest()
        files = SegmentFiles(self.directory / hashed)
        segments, tail = self._recovered.pop(hashed, ([], Tail()))
        log = StreamLog(self, name, files, segments, tail)
        self.logs[name] = log
        log.at_work = self.host.workers.spawn(self._open_log(log))
        return log

    async def _open_log(self, log: StreamLog) -> None:
        burial = self._burials.get(log.files.directory)
        if burial is not None:
            await burial
        await log.open()

    async def forget_unclaimed(self) -> int:
        """After all queues were made: delete what belongs to none of them; says how many."""
        unclaimed, self._recovered = list(self._recovered), {}
        for name in unclaimed:
            path = self.directory / name
            await self.host.workers.run_in_thread(partial(self._remove_directory, path))
        return len(unclaimed)

    # Committing.

    def mark(self, log: StreamLog) -> None:
        """It has something to write."""
        self._dirty.append(log)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._flight:
            self._is_scheduled = True
            self.host.call_soon(self._start)

    def _start(self) -> None:
        self._is_scheduled = False
        if self._flight or self.is_closing:
            return
        dirty, self._dirty = self._dirty, []
        batch = Batch()
        for log in dirty:
            # One that is not ready comes again when it is.
            if log.is_ready and log.has_work and log not in self._flight:
                log.fill(batch)
                self._flight.append(log)
        if not self._flight:
            return
        if self._committer is None:
            self._committer = self.host.make_committer()
        self._committer.submit(batch, self._done)

    def _done(self, error: OSError | None) -> None:
        flight, self._flight = self._flight, []
        self.commits += 1
        for log in flight:
            if error is None:
                log.committed()
            else:
                log.failed(error)
        if self._dirty:
            self._schedule()

    @property
    def is_failing(self) -> bool:
        return any(log.backing.is_refusing for log in self.logs.values())

    @property
    def is_doubtful(self) -> bool:
        """Whether the disk has refused something lately."""
        failed_ms = self._failed_ms
        return failed_ms is not None and 0 <= self.host.now_ms() - failed_ms < DOUBT_MS

    def note_failure(self) -> None:
        self._failed_ms = self.host.now_ms()

    # Ending.

    def bury(self, log: StreamLog) -> None:
        if self.logs.get(log.name) is log:
            del self.logs[log.name]
        path = log.files.directory
        self._burial_count += 1
        gone = path.with_name(f"{path.name}{GONE}{self._burial_count}")
        try:
            self.host.disk.rename(path, gone)
        except OSError:  # not made yet
            gone = path
        self._burials[path] = self.host.workers.spawn(self._bury(log, gone))

    async def _bury(self, log: StreamLog, gone: Path) -> None:
        """Whoever wants a stream of the same name waits for this."""
        path = log.files.directory
        try:
            if log.at_work is not None:
                await log.at_work
        except Exception as error:  # noqa: BLE001 - it does not concern the next stream of this name
            _log.exception("work on a deleted stream failed", error, stream=log.name)
        for directory in dict.fromkeys((path, gone)):
            await self.host.workers.run_in_thread(partial(self._remove_directory, directory))
        self._burials.pop(path, None)

    def _remove_directory(self, path: Path) -> None:
        """With the files in it. Blocks."""
        disk = self.host.disk
        try:
            for name in disk.list(path):
                disk.unlink(path / name)
            disk.remove_directory(path)
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning("files of a deleted stream cannot be removed", path=path, error=error)

    async def close(self) -> None:
        """Have everything written, if the disk lets us."""
        while not self.is_failing and (
            self._flight or any(log.has_work for log in self.logs.values())
        ):
            await self.host.workers.pause(CLOSE_POLL_S)
        self.is_closing = True
        if self._committer is not None:
            await self._committer.close()
        for log in self.logs.values():
            log.close()
