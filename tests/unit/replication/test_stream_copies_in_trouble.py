"""Copies of a stream that are interrupted: nothing is shown, kept or waited for wrongly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from faulty_disk import FaultyDisk
from stream_copies_world import Copy, StreamCopies
from stream_world import StreamWorld, a_message, until
from warren.replication.gm.events import Action, Deliver, Event
from warren.replication.group_record import Member, add_right_of, create, promote
from warren.replication.replica import Replica
from warren.replication.stream.stream_instructions import Chunk, encode
from warren.replication.stream.stream_mirror import StreamMirror
from warren.streams.limits import Limits
from warren.streams.pending_chunks import encoded_chunks
from warren.streams.store import DOUBT_MS

FORMER = Member("n1/life/1", "n1", "life")
PROMOTED = Member("n2/life/1", "n2", "life")
BEHIND = Member("n3/life/1", "n3", "life")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[StreamCopies]:
    world = StreamCopies(tmp_path)
    await world.begin()
    yield world
    await world.close()


async def test_what_is_copied_of_a_stream_at_rest_does_not_stay_in_memory(
    world: StreamCopies,
) -> None:
    """There may be far more of it than there is memory, and nobody may publish for days."""
    await world.commit(*[b"%d" % number for number in range(30)])
    copy = await world.join_in_sync("a")
    await until(lambda: copy.log.written_end == 30)
    assert copy.log.unseen(0) == []
    assert copy.log.end_offset == copy.mirror.committed == 30


async def test_who_is_promoted_in_the_middle_of_it_shows_only_what_its_disk_has(
    world: StreamCopies,
) -> None:
    await world.commit(*[b"%d" % number for number in range(3)])
    copy = await world.join("a")
    await world.until(lambda: copy.log.next_offset == 3)
    mirror = copy.mirror
    del world.copies["a"]
    world.here, former = copy, world.here
    world.lead(copy)
    world.master.inherit(mirror, 0)
    assert copy.log.end_offset <= copy.log.written_end
    await world.until(lambda: copy.log.end_offset == 3)
    world.copies["former"] = former


async def test_a_copy_that_begins_anew_begins_where_its_master_does(tmp_path: Path) -> None:
    """Though a master before had let go of more, and did not come back."""
    copy = await Copy(tmp_path / "a").open()
    await copy.world.commit(copy.log, *[b"%d" % number for number in range(9)])
    copy.log.forget_below(7)
    assert copy.log.first_offset == 7
    done: list[bool] = []
    copy.log.cut(2, lambda: done.append(True), is_anew=True)
    await until(lambda: done == [True])
    assert (copy.log.first_offset, copy.log.next_offset) == (2, 2)
    await copy.world.store.close()


async def test_a_master_that_could_not_write_and_leads_again_goes_on(tmp_path: Path) -> None:
    world, disk = StreamCopies(tmp_path), FaultyDisk()
    world.lead(await Copy(tmp_path / "here", disk).open())
    world.master.begin()
    a = await world.join_in_sync("a")
    await world.commit(b"first")
    disk.fail("append", times=1_000)
    world.publish(b"only told here")
    await until(lambda: world.here.log.backing.is_refusing)
    world.sent.clear()
    world.steps.clear()
    world.master.depose()
    former, mirror = world.here, world.copies.pop("a").mirror
    world.lead(a)
    world.master.inherit(mirror, 0)
    disk.mend()
    world.complete.clear()
    await world.join_in_sync("b", former)
    # Nothing was written to it in between.
    world.sent.clear()
    world.steps.clear()
    world.master.depose()
    mirror = world.copies.pop("b").mirror
    world.lead(former)
    world.master.inherit(mirror, 0)
    await until(lambda: not former.log.backing.is_refusing)
    await world.commit(b"second")
    assert former.records() == [(0, b"first"), (1, b"second")]
    world.copies["a"] = a
    await world.close()


async def test_a_mirror_that_is_overtaken_by_retention_begins_anew(world: StreamCopies) -> None:
    """Also between the look at what it lacks and the look into the files."""
    log = world.here.log
    log.apply(Limits(segment_bytes=300))
    await world.commit(*[b"%d" % number for number in range(20)])
    spawn = log.workers.spawn
    overtaken: list[int] = []

    def spawn_late(work: Coroutine[object, object, None]) -> Awaitable[None]:
        if work.__qualname__ == "StreamCopier._read" and not overtaken:
            log.apply(Limits(segment_bytes=300, bytes_max=600))
            overtaken.append(log.first_offset)
        return spawn(work)

    log.workers.spawn = spawn_late  # type: ignore[method-assign]
    copy = await world.join_in_sync("a")
    assert overtaken[0] > 0
    await until(lambda: copy.log.written_end == 20)
    assert copy.log.first_offset == log.first_offset


async def test_who_published_before_a_stream_was_mirrored_is_told_when_it_is_deleted(
    tmp_path: Path,
) -> None:
    """As everybody is: that it took the message is all that is left to say."""
    copy = await Copy(tmp_path / "here").open()
    (number,) = copy.world.publish(copy.log, b"on its way to the disk")
    await asyncio.sleep(0)
    assert copy.log.backing.flight_publishers
    world = StreamCopies(tmp_path)
    world.lead(copy)
    world.master.begin()
    world.master.delete()
    assert copy.world.publisher.told == [number]
    await copy.world.store.close()


async def test_a_disk_that_has_refused_something_is_in_doubt_for_a_while(tmp_path: Path) -> None:
    """Else a mirror that was put out for it would be sent everything again, and again."""
    disk = FaultyDisk()
    world = StreamWorld(tmp_path, disk)
    log = await world.log()
    assert not world.store.is_doubtful
    disk.fail("append", on=".segment")
    await world.commit(log, b"the second time")
    log.delete()
    assert world.store.is_doubtful
    world.now_ms += DOUBT_MS
    assert not world.store.is_doubtful
    await world.store.close()


async def test_a_stream_of_the_same_name_is_begun_when_nobody_works_on_the_old_files(
    tmp_path: Path,
) -> None:
    world = StreamWorld(tmp_path)
    log = await world.log()
    await world.commit(log, b"old")
    goes_on = asyncio.Event()
    cut_files = log._cut_files

    async def cut_late() -> None:
        await goes_on.wait()
        await cut_files()

    log._cut_files = cut_late  # type: ignore[method-assign]
    log.cut(0, lambda: None, is_anew=True)
    log.delete()
    again = world.store.log("stream")
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert not again.is_ready
    goes_on.set()
    await until(lambda: again.is_ready)
    await world.commit(again, b"new")
    assert again.end_offset == 1
    await world.store.close()


class Host:
    """Of a replica that is never asked for anything here."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


class HastyRing:
    """Has heard the new leader already, and says so as soon as it is known who leads."""

    def has_room(self) -> bool:
        return True

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def handle(self, event: Event) -> list[Action]:
        return [Deliver(PROMOTED.id, 1, self._payload)]


async def test_a_copy_that_nobody_counts_on_heeds_a_new_master_once_it_has_been_compared(
    tmp_path: Path,
) -> None:
    """It may have more than who leads now: what seems to continue it would be another stream."""
    copy = await Copy(tmp_path / "a").open()
    await copy.world.commit(copy.log, b"0", b"1", b"2")
    replica = Replica(BEHIND, "uid", Host())
    record = add_right_of(create("uid", FORMER), FORMER.id, PROMOTED)
    record = add_right_of(record, PROMOTED.id, BEHIND)
    replica.record_changed(record, 2)
    mirror = StreamMirror(BEHIND.id, copy.log, lambda *_: None, lambda: None)
    replica.mirror = mirror
    mirror.boundary = {}
    (chunk,) = encoded_chunks([a_message(b"of another stream")], 100, 3, 0)
    ring: Any = HastyRing(encode(1, Chunk((), 0, 0), chunk.pieces))
    replica._gm = ring
    gone = replace(record, members=record.members[1:], leader=FORMER.id)
    replica.record_changed(promote(gone, PROMOTED.id, is_sync_needed=False), 3)
    assert copy.log.next_offset == 3
    await copy.world.store.close()
