"""A stream's log: what is confirmed is there, in order and without gaps, whatever happens."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from stream_world import StreamWorld, a_message, all_bodies, all_records, until
from warren.streams import log as log_module
from warren.streams.chunk_format import CHUNK_BYTES, CHUNK_RECORDS_MAX
from warren.streams.limits import Limits
from warren.streams.log import StreamLog
from warren.streams.pending_chunks import encoded_chunks
from warren.streams.retention import removable
from warren.streams.segments import ENTRY_BYTES, Segment


def bodies(count: int, first: int = 0) -> list[bytes]:
    return [b"record %d" % number for number in range(first, first + count)]


async def reopened(directory: Path) -> tuple[StreamWorld, StreamLog]:
    """As after a crash: nobody closed anything."""
    world = StreamWorld(directory)
    return world, await world.log()


async def test_records_are_confirmed_when_they_can_be_read(tmp_path: Path) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    numbers = world.publish(log, *bodies(3))
    assert log.end_offset == 0
    await until(lambda: world.publisher.told == numbers)
    assert log.end_offset == 3
    assert log.backing.length == 3
    assert all_bodies(log) == bodies(3)
    assert world.credit.bytes_used == 0
    await world.store.close()


async def test_a_stream_goes_on_after_a_crash(tmp_path: Path) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    await world.commit(log, *bodies(5))
    world, log = await reopened(tmp_path)
    assert (log.first_offset, log.end_offset) == (0, 5)
    await world.commit(log, *bodies(5, first=5))
    assert [offset for offset, _ in all_records(log)] == list(range(10))
    assert all_bodies(log) == bodies(10)
    await world.store.close()


async def test_a_torn_tail_is_cut_off(tmp_path: Path) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    await world.commit(log, *bodies(2))
    whole = log.files.data(0).read_bytes()
    await world.commit(log, b"torn")
    torn = log.files.data(0).read_bytes()
    for size in (len(whole) + 1, len(torn) - 1, len(torn) - 20):
        log.files.data(0).write_bytes(torn[:size])
        world, log = await reopened(tmp_path)
        assert all_bodies(log) == bodies(2)
        assert log.files.data(0).read_bytes() == whole
        assert log.files.index(0).stat().st_size == ENTRY_BYTES
        await world.store.close()


@pytest.mark.parametrize("damage", ["missing", "short", "long", "wrong"])
async def test_an_index_is_made_again_from_the_chunks(tmp_path: Path, damage: str) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    log.apply(Limits(segment_bytes=1))
    for body in bodies(3):
        await world.commit(log, body)
    before = [path.read_bytes() for path in sorted(log.files.directory.glob("*.index"))]
    for path in log.files.directory.glob("*.index"):
        if damage == "missing":
            path.unlink()
        elif damage == "short":
            path.write_bytes(path.read_bytes()[:-5])
        elif damage == "long":
            path.write_bytes(path.read_bytes() + b"x" * 50)
        else:
            path.write_bytes(b"\xff" * ENTRY_BYTES)
    world, log = await reopened(tmp_path)
    assert all_bodies(log) == bodies(3)
    after = [path.read_bytes() for path in sorted(log.files.directory.glob("*.index"))]
    assert after == before
    await world.store.close()


async def test_a_long_enough_segment_is_followed_by_another(tmp_path: Path) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    log.apply(Limits(segment_bytes=200))
    for body in bodies(6):
        await world.commit(log, body)
    assert len(log.segments) > 2
    assert all_bodies(log) == bodies(6)
    world, log = await reopened(tmp_path)
    assert all_bodies(log) == bodies(6)
    await world.store.close()


async def test_a_stream_of_tiny_segments_does_not_use_up_the_files_of_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "SMALL_SEGMENTS_MAX", 3)
    world = StreamWorld(tmp_path)
    log = await world.log()
    log.apply(Limits(segment_bytes=1))
    for body in bodies(10):
        await world.commit(log, body)
    assert len(log.segments) == 3
    assert all_bodies(log) == bodies(10)
    await world.store.close()


async def test_chunks_have_bounds(tmp_path: Path) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    await world.commit(log, *[b"x"] * (CHUNK_RECORDS_MAX + 1), bytes(CHUNK_BYTES), b"y")
    headers = [header for _, header in log.reader.read(log.segments[0], 0, 1 << 30).chunks]
    assert [header.records for header in headers] == [CHUNK_RECORDS_MAX, 2, 1]
    await world.store.close()


@pytest.mark.parametrize("operation", ["append", "sync"])
async def test_after_a_failed_write_a_new_segment_has_what_was_to_be_written(
    tmp_path: Path, operation: str
) -> None:
    disk = FaultyDisk()
    world = StreamWorld(tmp_path, disk)
    log = await world.log()
    await world.commit(log, *bodies(2))
    disk.fail(operation, on=".segment")
    await world.commit(log, *bodies(2, first=2))
    assert [segment.base for segment in log.segments] == [0, 2]
    assert all_bodies(log) == bodies(4)
    assert world.publisher.refused == []
    assert len(world.failures) == 1
    disk.crash()
    world, log = await reopened(tmp_path)
    assert all_bodies(log) == bodies(4)
    await world.store.close()


async def test_a_failed_first_write_leaves_an_empty_segment_to_be_made_anew(tmp_path: Path) -> None:
    disk = FaultyDisk()
    world = StreamWorld(tmp_path, disk)
    log = await world.log()
    disk.fail("sync", on=".segment")
    await world.commit(log, *bodies(2))
    assert [segment.base for segment in log.segments] == [0]
    disk.crash()
    world, log = await reopened(tmp_path)
    assert all_bodies(log) == bodies(2)
    await world.store.close()


async def test_publishers_are_refused_while_the_disk_takes_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    world = StreamWorld(tmp_path, disk)
    log = await world.log()
    await world.commit(log, *bodies(2))
    disk.fail("append", errno.ENOSPC, times=1, on=".segment")
    disk.fail("open", errno.ENOSPC, times=5, on=".segment")
    numbers = world.publish(log, b"refused", b"too")
    await until(lambda: world.publisher.refused == numbers)
    assert world.store.is_failing
    assert world.credit.bytes_used == 0
    await until(lambda: log.is_ready)
    assert not world.store.is_failing
    await world.commit(log, *bodies(2, first=2))
    assert all_bodies(log) == bodies(4)
    await world.store.close()


@pytest.mark.parametrize("seed", range(25))
async def test_nothing_confirmed_is_lost_when_the_power_goes(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    disk = FaultyDisk(seed)
    world = StreamWorld(tmp_path, disk)
    log = await world.log()
    log.apply(Limits(segment_bytes=dice.choice([1, 300, 5_000, 1 << 30])))
    sent: list[bytes] = []
    for number in range(dice.randint(1, 12)):
        sent += [b"%d " % number * dice.randint(0, 300) for _ in range(dice.randint(1, 4))]
        world.publish(log, *sent[len(world.publisher.told) :][-4:])
        sent = sent[: world.published]
        if dice.random() < 0.7:
            await until(lambda: len(world.publisher.told) == world.published)
    confirmed = len(world.publisher.told)
    disk.crash()
    world.store.is_closing = True
    await world.workers.settle()
    after, log = await reopened(tmp_path)
    records = all_records(log)
    assert [offset for offset, _ in records] == list(range(len(records)))
    assert len(records) >= confirmed
    await after.commit(log, b"one more")
    assert all_bodies(log)[-1] == b"one more"
    await after.store.close()


def test_retention_takes_whole_segments_from_the_front() -> None:
    segments = [Segment(n * 10, n * 10 + 10, size=100, last_ms=n * 1000) for n in range(5)]
    assert removable(segments, None, None) == 0
    assert removable(segments, 500, None) == 0
    assert removable(segments, 499, None) == 1
    assert removable(segments, 250, None) == 3
    assert removable(segments, 0, None) == 4
    assert removable(segments, None, 1_000) == 1
    assert removable(segments, None, 10**9) == 4
    assert removable(segments, 0, None, held_from=25) == 2
    assert removable(segments, 0, None, held_from=30) == 3


async def test_what_is_beyond_the_limits_goes_when_a_segment_is_full(tmp_path: Path) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    log.apply(Limits(segment_bytes=1, bytes_max=500))
    for body in bodies(10):
        await world.commit(log, body)
    await world.workers.settle()
    assert 0 < log.first_offset < 10
    assert log.backing.length == 10 - log.first_offset
    assert all_bodies(log) == bodies(10)[log.first_offset :]
    files = [*log.files.directory.glob("*.segment")]
    assert len(files) == len(log.segments)
    first = log.first_offset
    world, log = await reopened(tmp_path)
    assert log.first_offset == first
    await world.store.close()


async def test_old_segments_go_and_the_newest_stays(tmp_path: Path) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    log.apply(Limits(segment_bytes=1, age_ms_max=1_000))
    await world.commit(log, b"old")
    world.now_ms += 2_000
    await world.commit(log, b"new")
    assert all_bodies(log) == [b"new"]
    world.now_ms += 2_000
    log.retain()
    assert log.first_offset == log.end_offset == 2
    await world.store.close()


async def test_a_deleted_stream_is_gone_and_its_namesake_begins_anew(tmp_path: Path) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    await world.commit(log, *bodies(3))
    log.backing.delete()
    again = world.store.log("stream")
    assert again.end_offset == 0
    await until(lambda: again.is_ready)
    await world.commit(again, b"other")
    await world.workers.settle()
    assert all_bodies(again) == [b"other"]
    assert len([*world.store.directory.iterdir()]) == 1
    await world.store.close()


async def test_deleting_while_something_is_under_way_confirms_it(tmp_path: Path) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    first = world.publish(log, *bodies(3))
    await until(lambda: not log.backing.messages)
    second = world.publish(log, *bodies(3))
    log.backing.delete()
    await until(lambda: {*world.publisher.told} == {*first, *second})
    await world.workers.settle()
    assert [*world.store.directory.iterdir()] == []
    assert world.credit.bytes_used == 0
    await world.store.close()


async def test_streams_that_no_queue_claims_are_removed(tmp_path: Path) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    await world.commit(log, b"x")
    await world.store.close()
    world = StreamWorld(tmp_path)
    await world.store.open()
    assert world.store.recovered_records == 1
    assert await world.store.forget_unclaimed() == 1
    assert [*world.store.directory.iterdir()] == []


async def test_places_are_found_by_offset_and_by_time(tmp_path: Path) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    log.apply(Limits(segment_bytes=400))
    for body in bodies(9):
        world.now_ms += 1_000
        await world.commit(log, body)
    segments = log.safe_segments()
    assert len(segments) > 1
    for offset in range(9):
        stretch = log.reader.find_stretch(segments, offset)
        assert stretch is not None
        assert stretch.chunks[0][1].first_offset == offset
        moment_ms = 1_001_000 + offset * 1_000
        assert log.reader.find_time(segments, moment_ms) == offset
        assert log.reader.find_time(segments, moment_ms - 999) == offset
    assert log.reader.find_offset(segments, 9) is None
    assert log.reader.find_time(segments, 1_009_001) is None
    await world.store.close()


async def test_two_cuts_before_either_is_made_come_to_both(tmp_path: Path) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    for body in bodies(6):
        await world.commit(log, body)
    log.hold(None, 0)
    instead = encoded_chunks([a_message(b"instead")], 7, 2, 0)
    instead += encoded_chunks([a_message(b"never")], 5, 3, 0)
    done: list[str] = []
    log.is_ready = False  # as while a segment is begun
    log.cut(2, lambda: done.append("first"))
    for chunk in instead:
        log.append(chunk)
    log.cut(3, lambda: done.append("second"))
    log._ready()
    await until(lambda: log.written_end == 3 and log.is_ready)
    assert done == ["second"]
    await world.store.close()
    again = StreamWorld(tmp_path)
    assert all_bodies(await again.log()) == [*bodies(2), b"instead"]
    await again.store.close()
