"""Ranges that are read to their end, whatever becomes of the stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chunk_reader import records_of
from stream_world import StreamWorld
from warren.management.held_range import HeldRange, LetGo
from warren.storage.disk.files import Location, RealDisk
from warren.streams.limits import Limits
from warren.streams.log import StreamLog
from warren.streams.ranges import SEGMENTS_MAX

RECORDS = SEGMENTS_MAX + 8


class CountingDisk(RealDisk):
    """Knows which descriptors are open."""

    def __init__(self) -> None:
        self.opened = set[int]()

    def open(self, path: Location, *, create: bool = False) -> int:
        descriptor = super().open(path, create=create)
        self.opened.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        self.opened.remove(descriptor)
        super().close(descriptor)


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


@pytest.fixture
async def log(tmp_path: Path, disk: CountingDisk) -> AsyncIterator[StreamLog]:
    """Each record in a segment of its own."""
    world = StreamWorld(tmp_path, disk)
    log = await world.log()
    log.apply(Limits(segment_bytes=1))
    for number in range(RECORDS):
        await world.commit(log, b"%d" % number)
    yield log
    await world.workers.settle()
    await world.store.close()


def hold(log: StreamLog, start: int, end: int) -> HeldRange:
    held = HeldRange(log.reader)
    held.open(log.safe_segments(), (start, end), None)
    return held


def offsets_of(held: HeldRange) -> list[int]:
    data = b"".join(held.read(p, p.start, p.end - p.start) for p in held.pieces)
    assert len(data) == held.size
    return [record.offset for record in records_of(data)]


def remove_all_but_the_newest(log: StreamLog) -> None:
    for segment in log.segments[:-1]:
        log.files.data(segment.base).unlink()
        log.files.index(segment.base).unlink()


async def test_what_is_held_can_be_read_when_it_has_been_removed(log: StreamLog) -> None:
    held = hold(log, 3, 9)
    remove_all_but_the_newest(log)
    assert offsets_of(held) == [3, 4, 5, 6, 7, 8]
    held.let_go()


async def test_a_range_of_many_segments_is_cut_short_and_gone_on_with(log: StreamLog) -> None:
    first = hold(log, 0, RECORDS)
    assert offsets_of(first) == list(range(SEGMENTS_MAX))
    rest = hold(log, SEGMENTS_MAX, RECORDS)
    assert offsets_of(rest) == list(range(SEGMENTS_MAX, RECORDS))
    first.let_go()
    rest.let_go()


async def test_a_range_that_is_let_go_has_nothing_open(log: StreamLog, disk: CountingDisk) -> None:
    before = {*disk.opened}
    held = hold(log, 0, 5)
    piece = held.pieces[0]
    assert len(disk.opened - before) == 5
    held.let_go()
    assert disk.opened == before
    with pytest.raises(LetGo):
        held.read(piece, 0, 10)
    with pytest.raises(LetGo):
        held.open(log.safe_segments(), (0, 5), None)
    assert disk.opened == before


async def test_a_range_that_is_partly_gone_has_nothing_open(
    log: StreamLog, disk: CountingDisk
) -> None:
    before = {*disk.opened}
    log.files.data(4).unlink()
    held = HeldRange(log.reader)
    with pytest.raises(FileNotFoundError):
        held.open(log.safe_segments(), (0, 8), None)
    assert held.pieces == []
    assert disk.opened == before
