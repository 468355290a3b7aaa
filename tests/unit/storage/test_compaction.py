"""Garbage collection: what is chosen, what is moved, and what may happen meanwhile."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from log_lines import log_lines
from store_world import FILE_BYTES, StepWorkers, StoreWorld, run
from warren.storage.bodies.compaction import SOURCES_MAX, choose
from warren.storage.bodies.compactor import BYTES_PER_SECOND
from warren.storage.bodies.message_store import MessageStore
from warren.storage.bodies.record_format import CorruptRecord
from warren.storage.bodies.store_files import StoreFile

PER_FILE = 8
BODY_BYTES = 600


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def workers() -> Iterator[StepWorkers]:
    workers = StepWorkers()
    yield workers
    workers.abandon()


@pytest.fixture
def world(tmp_path: Path, disk: FaultyDisk, workers: StepWorkers) -> StoreWorld:
    file_bytes = PER_FILE * BODY_BYTES
    return StoreWorld(tmp_path / "store", disk, workers=workers, file_bytes=file_bytes).open()


def fill(world: StoreWorld, files: int, queues: int = 1) -> list[list[list[int]]]:
    """By file and message, the names that queues have for it."""
    names = []
    for _ in range(files):
        names.append(
            [world.publish(random.Random(0).randbytes(BODY_BYTES), queues) for _ in range(PER_FILE)]
        )
        world.commit()
        world.settle()
    return names


def ack_all_but(world: StoreWorld, names: list[list[int]], kept: int) -> None:
    for group in names[kept:]:
        for name in group:
            world.ack(name)


def shrink(world: StoreWorld, files: list[list[list[int]]], kept: int = 2) -> None:
    for names in files:
        ack_all_but(world, names, kept)
    world.commit()
    world.settle()


def test_more_than_half_garbage_in_three_files_shrinks_the_disk(world: StoreWorld) -> None:
    """S26"""
    files = fill(world, 4)
    before = sum(world.files().values())
    shrink(world, files)
    assert sum(world.files().values()) < before * 0.6
    assert len(world.entries) == 8
    world.check()
    assert world.store.counters.compactions


def test_two_files_are_left_alone(world: StoreWorld) -> None:
    shrink(world, fill(world, 2))
    assert world.store.counters.compactions == 0


def test_files_that_are_half_alive_are_left_alone(world: StoreWorld) -> None:
    shrink(world, fill(world, 4), kept=5)
    assert world.store.counters.compactions == 0


def test_moved_messages_are_acknowledged_under_the_location_queues_know(world: StoreWorld) -> None:
    shrink(world, fill(world, 4))
    assert len(world.store._table.forwarding) == 6
    world.check_that_nothing_stays()


def test_a_message_may_be_moved_more_than_once(world: StoreWorld) -> None:
    first = fill(world, 4)
    shrink(world, first)
    second = fill(world, 4)
    kept = [group[0] for names in first for group in names[:2]]
    for name in kept[1:]:
        world.ack(name)
    shrink(world, second)
    assert world.store.counters.compactions >= 2
    assert len({entry.file for entry in world.entries.values()} - set(world.files())) > 1
    world.check()
    after = world.reopened()
    after.check_that_nothing_stays()


def test_shared_messages_are_weighed_by_looking(world: StoreWorld) -> None:
    """Three of four queues are done with everything: much died, and no byte is garbage."""
    files = fill(world, 4, queues=4)
    for names in files:
        for group in names:
            for name in group[:3]:
                world.ack(name)
    world.commit()
    world.settle()
    assert world.store.counters.compactions == 0
    world.check()
    for names in files:
        for group in names[2:]:
            world.ack(group[3])
    world.commit()
    world.settle()
    assert world.store.counters.compactions == 1
    world.check()
    world.check_that_nothing_stays()


def test_files_closed_early_are_joined(tmp_path: Path, workers: StepWorkers) -> None:
    """Each crash leaves a file that is not full."""
    world = StoreWorld(tmp_path / "store", workers=workers).open()
    for _ in range(6):
        world.publish(bytes(300))
        world.commit()
        world = world.reopened()
        world.settle()
    assert len(world.files()) <= 3
    world.check()


def test_deaths_during_a_compaction_are_counted(world: StoreWorld) -> None:
    for steps in range(1, 40):
        files = fill(world, 4, queues=2)
        for names in files:
            ack_all_but(world, names, 3)
        world.commit()
        for _ in range(steps):
            world.workers.step(random.Random(steps))
        for names in files:
            for name in names[0] + names[1][:1]:
                world.ack(name)
        world.settle()
        world.check()
        world.check_that_nothing_stays()


def test_a_source_that_dies_during_a_compaction_is_no_trouble(world: StoreWorld) -> None:
    for steps in range(1, 30):
        files = fill(world, 4)
        for names in files:
            ack_all_but(world, names, 2)
        world.commit()
        for _ in range(steps):
            world.workers.step(random.Random(steps))
        for group in files[0][:2]:
            world.ack(group[0])
        world.commit()
        world.settle()
        world.check()
        world.check_that_nothing_stays()


def test_a_source_stays_until_the_acknowledgements_are_safe(
    world: StoreWorld, disk: FaultyDisk
) -> None:
    """What was garbage for the compaction may come back if the power goes before its batch."""
    files = fill(world, 4)
    world.commit(checkpoint=True)
    for names in files:
        ack_all_but(world, names, 2)
    world.settle()
    assert world.store.counters.compactions
    world.crash(random.Random(0))
    after = world.reopened()
    assert len(after.entries) == 4 * PER_FILE
    after.check_that_nothing_stays()


def test_a_checkpoint_in_the_middle_of_a_compaction(world: StoreWorld) -> None:
    for steps in range(0, 60, 2):
        files = fill(world, 4)
        for names in files:
            ack_all_but(world, names, 2)
        world.commit()
        dice = random.Random(steps)
        for _ in range(steps):
            world.workers.step(dice)
        world.commit(checkpoint=True)
        world.settle()
        world.crash(dice)
        world = world.reopened(FaultyDisk(steps))
        assert len(world.entries) == 8
        world.check_that_nothing_stays()


def test_a_full_file_is_not_touched_while_its_last_batch_is_being_written(
    world: StoreWorld,
) -> None:
    """It is sealed when its last bodies are given their places."""
    shrink(world, fill(world, 3), kept=5)
    names = [world.publish(random.Random(0).randbytes(BODY_BYTES))[0] for _ in range(PER_FILE)]
    world.take()
    for name in names[2:]:
        world.ack(name)
    world.settle()
    world.finish()
    world.check()
    world.commit()
    world.settle()
    world.check()
    assert world.store.counters.compactions == 1
    assert world.store.counters.records_corrupt == 0


def test_reading_goes_on_during_a_compaction(world: StoreWorld) -> None:
    files = fill(world, 4)
    name = files[0][0][0]
    reading = world.store.read(*world.entries[name].location)
    reading.send(None)
    shrink(world, files)
    assert 0 in world.files(), "somebody reads it"
    assert len(run(reading).body) == BODY_BYTES
    world.settle()
    assert 0 not in world.files()
    assert len(world.read(name).body) == BODY_BYTES


def test_a_damaged_record_is_left_out_and_reported(
    world: StoreWorld, disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    files = fill(world, 4)
    broken = world.entries[files[1][0][0]]
    disk.flip_bit(world.directory / f"{broken.file}.rdq", broken.offset + 100)
    shrink(world, files)
    assert world.store.counters.records_corrupt == 1
    assert f"{broken.file}.rdq, offset {broken.offset}: wrong checksum" in log_lines(caplog)
    del world.entries[broken.name]
    world.check()
    world.store.died(*broken.location)
    world.acks.append(broken)
    world.check_that_nothing_stays()


def test_moved_messages_may_be_lost_like_others(
    world: StoreWorld, caplog: pytest.LogCaptureFixture
) -> None:
    shrink(world, fill(world, 4))
    world.close()
    place = world.store._table.resolve(0, 20)
    assert place is not None
    moved = place[0]
    (world.directory / f"{moved}.rdq").unlink()
    store = MessageStore(world.directory, world.disk, world.workers)
    run(store.open(world.journal.state))
    run(store.recovered())
    store.begin_chores()
    assert f"{moved}.rdq is gone, with 6 messages" in log_lines(caplog)
    lost = [entry for entry in world.entries.values() if entry.file < 3]
    found = run(store.read_many([entry.location for entry in lost]))
    assert all(isinstance(one, CorruptRecord) for one in found)
    for entry in lost:
        store.died(*entry.location)


def test_without_room_it_waits_until_there_is_some(world: StoreWorld, disk: FaultyDisk) -> None:
    files = fill(world, 4)
    disk.room_bytes = 1_000
    shrink(world, files)
    assert world.store.counters.compactions == 0
    world.check()
    disk.room_bytes = None
    world.publish(bytes(10))
    world.commit()
    world.settle()
    assert world.store.counters.compactions
    world.check()
    assert len(world.files()) <= 3


def test_files_that_cannot_be_read_are_left_alone(
    world: StoreWorld, disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    files = fill(world, 4)
    disk.fail("read", errno.EIO)
    shrink(world, files)
    assert "compaction failed" in log_lines(caplog)
    assert {0, 1, 2} < set(world.files())
    world.check()
    world.check_that_nothing_stays()


def test_closing_does_not_wait_for_a_compaction(world: StoreWorld) -> None:
    files = fill(world, 4)
    for names in files:
        ack_all_but(world, names, 2)
    world.commit()
    for _ in range(6):
        world.workers.step(random.Random(1))
    world.close()
    after = world.reopened()
    after.settle()
    assert len(after.entries) == 8
    after.check_that_nothing_stays()


def test_the_rate_of_copying_is_limited(world: StoreWorld) -> None:
    shrink(world, fill(world, 4))
    copied = world.store.counters.bytes_compacted
    assert copied > 6 * BODY_BYTES
    assert world.workers.paused_s == pytest.approx(copied / BYTES_PER_SECOND)


def file_with(number: int, live: int, size: int = FILE_BYTES) -> StoreFile:
    file = StoreFile(number)
    file.is_sealed = True
    file.size, file.references = size, 100
    file.weight, file.dead_weight = size, size - live
    return file


def test_the_emptiest_files_are_chosen_as_far_as_they_fit_into_one() -> None:
    files = [file_with(n, live=n * 500) for n in range(1, 8)]
    assert [file.number for file in choose(files, FILE_BYTES)] == [1, 2, 3]


def test_no_more_are_chosen_than_can_be_done_at_a_time() -> None:
    files = [file_with(n, live=1) for n in range(100)]
    assert len(choose(files, FILE_BYTES)) == SOURCES_MAX


def test_a_single_small_file_is_not_copied_for_nothing() -> None:
    others = [file_with(n, live=FILE_BYTES) for n in range(5)]
    assert choose([*others, file_with(9, live=500, size=500)], FILE_BYTES) == []
    assert choose([*others, file_with(9, live=500, size=2_000)], FILE_BYTES) != []
