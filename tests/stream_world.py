"""Streams on some disk, with the loop of the test around them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from index_world import LoopWorkers, Publisher
from warren.flow.credit import Credit
from warren.storage.disk.committer import ThreadCommitter
from warren.storage.disk.files import Disk, RealDisk
from warren.storage.disk.layout import vhost_directory
from warren.streams.chunks import decode_chunk
from warren.streams.host import StreamHost
from warren.streams.log import StreamLog
from warren.streams.store import StreamStore
from warren.wire.codec import Message, PropertyBlock

WAIT_S = 30.0
ROUTE = b"\x04from\x02to"
PERSISTENT = PropertyBlock(b"\x10\x00\x02")


def a_message(body: bytes, route: bytes = ROUTE, raw: bytes = PERSISTENT.raw) -> Message:
    return Message(route, PropertyBlock(raw), body)


class StreamWorld:
    """A store of one virtual host; time stands still unless `now_ms` is changed."""

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        self.disk = disk if disk is not None else RealDisk()
        self.workers = LoopWorkers()
        self.now_ms = 1_000_000
        self.failures: list[OSError] = []
        self.credit = Credit(64 * 1_048_576)
        self.publisher = Publisher()
        self.published = 0
        loop = asyncio.get_running_loop()
        host = StreamHost(
            disk=self.disk,
            workers=self.workers,
            call_soon=loop.call_soon,
            now_ms=lambda: self.now_ms,
            credit=self.credit,
            make_committer=lambda: ThreadCommitter(self.disk, loop),
            on_failure=self.failures.append,
        )
        vhost_directory(directory, "/").mkdir(parents=True, exist_ok=True)
        self.store = StreamStore(directory, "/", host)

    async def log(self, name: str = "stream") -> StreamLog:
        await self.store.open()
        log = self.store.log(name)
        await until(lambda: log.is_ready)
        return log

    def publish(self, log: StreamLog, *bodies: bytes) -> list[int]:
        """Returns the numbers that confirms will come under."""
        numbers = []
        for body in bodies:
            self.published += 1
            numbers.append(self.published)
            log.backing.publish(a_message(body), 0, self.publisher, self.published)
        return numbers

    async def commit(self, log: StreamLog, *bodies: bytes) -> None:
        """Publish and wait until all of that is safe."""
        numbers = self.publish(log, *bodies)
        await until(lambda: {*numbers} <= {*self.publisher.told})
        await until(lambda: log.is_ready)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110 - there is no such event
            await asyncio.sleep(0.001)


def all_bodies(log: StreamLog) -> list[bytes]:
    """Every record that is safe, in order, read from the files."""
    return [message.body for _, message in all_records(log)]


def all_records(log: StreamLog) -> list[tuple[int, Message]]:
    records = []
    segments = log.safe_segments()
    for segment in segments:
        position = 0
        while position < segment.size:
            stretch = log.reader.read(segment, position)
            assert stretch.damaged_end is None
            for at, header in stretch.chunks:
                messages = decode_chunk(stretch.data, at)
                records += [*enumerate(messages, header.first_offset)]
            position = stretch.after.position
    return records
