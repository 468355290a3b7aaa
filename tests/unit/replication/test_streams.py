"""Mirrored streams: copies are the same to the byte, and nobody sees what not all of them have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from log_lines import log_lines
from stream_copies_world import Copy, StreamCopies
from stream_world import a_message, until
from warren.replication.classic.synchroniser import SyncEvent
from warren.streams.limits import Limits


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[StreamCopies]:
    world = StreamCopies(tmp_path)
    await world.begin()
    yield world
    await world.close()


def numbered(first: int, end: int) -> list[bytes]:
    return [b"record %d" % number for number in range(first, end)]


async def test_a_mirror_has_the_same_bytes(world: StreamCopies) -> None:
    copy = await world.join_in_sync("a")
    await world.commit(*numbered(0, 5))
    assert copy.files() == world.here.files()
    assert world.here.records() == [*enumerate(numbered(0, 5))]


async def test_a_record_is_confirmed_and_seen_when_all_in_sync_hold_it(world: StreamCopies) -> None:
    await world.join_in_sync("a")
    await world.join_in_sync("b")
    await world.commit(b"first")
    world.is_held_back = True
    number = world.publish(b"second")
    log, copies = world.here.log, world.copies
    await world.until(lambda: log.written_end == 2)
    await world.until(lambda: all(c.mirror.held == world.master.number for c in copies.values()))
    assert number not in world.confirmed
    assert (log.end_offset, log.backing.length, world.master.length) == (1, 1, 1)
    world.master.held("a", world.master.number)
    assert log.end_offset == 1
    world.master.held("b", world.master.number)
    assert world.confirmed == [1, 2]
    assert (log.end_offset, world.master.length) == (2, 2)


async def test_a_new_mirror_is_sent_everything_while_the_stream_goes_on(
    world: StreamCopies,
) -> None:
    await world.commit(*numbered(0, 50))
    copy = await world.join("a")
    for number in range(50, 100):
        world.publish(*numbered(number, number + 1))
        world.deliver()
    await world.until(lambda: "a" in world.complete)
    await world.commit(b"last")
    await world.until(lambda: copy.log.written_end == 101)
    assert copy.files() == world.here.files()


async def test_a_mirror_that_comes_back_is_sent_what_it_missed(world: StreamCopies) -> None:
    copy = await world.join_in_sync("a")
    await world.commit(*numbered(0, 10))
    del world.copies["a"]
    world.master.set_in_sync(())
    await world.commit(*numbered(10, 15))
    await copy.world.store.close()
    world.complete.clear()
    again = await world.join_in_sync("a", await Copy(world.directory / "a").open())
    assert world.copier.sent_count == 5
    await until(lambda: again.log.written_end == 15)
    assert again.files() == world.here.files()


async def test_what_a_copy_has_and_the_master_has_not_is_cut_off(world: StreamCopies) -> None:
    copy = await world.join_in_sync("a")
    await world.commit(*numbered(0, 10))
    # It hears more of this master than anybody else, and another one leads.
    former = world.here
    world.publish(b"unheard")
    await until(lambda: world.here.log.written_end == 11)
    world.sent.clear()
    world.steps.clear()
    assert world.master.depose()
    del world.copies["a"]
    promoted = copy.mirror
    world.lead(copy)
    world.master.inherit(promoted, 0)
    await world.until(lambda: world.here.log.end_offset == 10)
    await world.commit(b"instead")
    world.complete.clear()
    await world.join_in_sync("b", former)
    await until(lambda: former.log.written_end == 11)
    await world.commit(b"more")
    assert former.files() == copy.files()
    assert copy.records()[10:] == [(10, b"instead"), (11, b"more")]


async def test_who_is_promoted_shows_what_all_in_sync_have(world: StreamCopies) -> None:
    a, b = await world.join_in_sync("a"), await world.join_in_sync("b")
    await world.commit(*numbered(0, 3))
    world.is_held_back = True
    world.publish(b"not confirmed")
    await world.until(lambda: a.log.written_end == b.log.written_end == 4)
    await world.until(lambda: a.mirror.held == b.mirror.held == world.master.number)
    assert a.log.end_offset <= 3
    del world.copies["a"]
    mirror = a.mirror
    world.lead(a)
    world.master.inherit(mirror, 0)
    world.master.set_in_sync({"b"})
    world.deliver()
    assert a.log.end_offset <= 3
    world.is_held_back = False
    b.mirror.tell_held()
    assert a.log.end_offset == 4
    await world.commit(b"next")
    assert a.records() == [*enumerate([*numbered(0, 3), b"not confirmed", b"next"])]
    assert b.files() == a.files()


async def test_mirrors_let_go_of_what_their_master_does(world: StreamCopies) -> None:
    world.here.log.apply(Limits(segment_bytes=300, bytes_max=600))
    copy = await world.join_in_sync("a")
    copy.log.limits = Limits(segment_bytes=200)
    await world.commit(*numbered(0, 20))
    first = world.here.log.first_offset
    assert first > 0
    await world.commit(b"told with this one")
    assert copy.log.first_offset <= world.here.log.first_offset
    await world.until(lambda: copy.log.first_offset >= first)
    assert len(copy.log.segments) < 8
    # And who comes now begins there.
    late = await world.join_in_sync("b")
    await until(lambda: late.log.written_end == 21)
    assert late.log.first_offset == world.here.log.first_offset
    offsets = [offset for offset, _ in world.here.records()]
    await world.commit(b"end")
    await world.until(lambda: late.log.end_offset >= 21)
    assert [offset for offset, _ in late.records()][: len(offsets)] == offsets


async def test_a_copy_whose_disk_fails_says_so(world: StreamCopies) -> None:
    disk = FaultyDisk()
    await world.join_in_sync("a", await Copy(world.directory / "a", disk).open())
    disk.fail("sync", on=".segment")
    number = world.publish(b"record")
    await world.until(lambda: world.failed == ["a"])
    await world.until(lambda: number in world.confirmed)  # the second time it is written


async def test_a_master_whose_write_fails_writes_what_it_has_told(tmp_path: Path) -> None:
    world = StreamCopies(tmp_path)
    disk = FaultyDisk()
    world.lead(await Copy(tmp_path / "here", disk).open())
    world.master.begin()
    copy = await world.join_in_sync("a")
    disk.fail("append", on=".segment")
    await world.commit(b"first", b"second")
    assert world.here.records() == [(0, b"first"), (1, b"second")]
    assert copy.files() == world.here.files()
    await world.close()


async def test_publishes_of_other_nodes_are_known_by_number_to_all_copies(
    world: StreamCopies,
) -> None:
    copy = await world.join_in_sync("a")

    class Inbox:
        origin = "elsewhere"

        def __init__(self) -> None:
            self.confirmations: list[int] = []

        def confirmed(self, sequence: int) -> None:
            self.confirmations.append(sequence)

        def rejected(self, sequence: int) -> None:
            raise AssertionError("nothing is wrong")

    inbox = Inbox()
    for number in (7, 8, 9):
        world.master.publish(a_message(b"x"), 0, inbox, number)
    await world.until(lambda: inbox.confirmations == [7, 8, 9])
    assert copy.mirror.numbers["elsewhere"] == 9


async def test_a_stream_that_is_mirrored_no_more_goes_on_by_itself(world: StreamCopies) -> None:
    await world.join_in_sync("a")
    await world.commit(*numbered(0, 3))
    world.publish(b"under way")
    world.master.dissolve()
    await until(lambda: world.here.log.end_offset == 4)
    assert not world.here.log.is_held
    log = world.here.log
    await world.here.world.commit(log, b"alone")
    assert log.end_offset == 5
    assert world.confirmed == [1, 2, 3, 4]


async def test_a_new_mirror_is_not_told_of_publishes_that_nobody_was_told(
    world: StreamCopies,
) -> None:
    """Whoever leads next would take them for repeats, and they would be nowhere."""
    await world.commit(*numbered(0, 2))
    copy = await world.join("a")
    world.publish(b"on its way", b"behind it")  # neither has an offset before the disk is asked
    world.master.begin_anew("a")
    world.deliver()
    assert copy.mirror.numbers == {"here": 2}
    await world.until(lambda: "a" in world.complete and world.published in world.confirmed)
    await world.until(lambda: copy.mirror.numbers == {"here": 4})


async def test_what_is_stored_and_not_shown_yet_is_copied_too(world: StreamCopies) -> None:
    a = await world.join_in_sync("a")
    b = await world.join_in_sync("b")
    await world.commit(*numbered(0, 3))
    # It comes back with all of it on disk, leads, and may show less than that as yet.
    await a.world.store.close()
    world.is_held_back = True
    again = await world.join("a", await Copy(world.directory / "a").open())
    await world.until(lambda: again.mirror.boundary is not None)
    mirror = again.mirror
    del world.copies["a"]
    world.lead(again)
    mirror.committed = 1
    world.master.inherit(mirror, 0)
    world.master.set_in_sync({"b"})
    assert (again.log.end_offset, again.log.stored_end) == (1, 3)
    late = await world.join("c")
    world.publish(b"more")
    await world.until(lambda: "c" in world.complete)
    await until(lambda: late.log.written_end == again.log.written_end == b.log.written_end == 4)
    assert again.log.end_offset == 1
    assert late.files() == again.files()


async def test_a_copy_that_cannot_be_read_ends_and_is_told_of(
    world: StreamCopies, caplog: pytest.LogCaptureFixture
) -> None:
    await world.commit(*numbered(0, 3))
    (path,) = world.here.log.files.directory.glob("*.segment")
    data = path.read_bytes()
    path.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    await world.join("a")
    await world.until(lambda: SyncEvent.COMPLETE in world.told)
    assert "stream cannot be copied to mirror stream=" in log_lines(caplog)
    assert "mirror=a" in log_lines(caplog)
    assert world.complete == []
    await world.commit(b"the stream goes on")
