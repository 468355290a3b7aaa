"""A batch that fails: nothing of it counts, and nothing half-valid is ever read back."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from log_lines import log_lines
from store_world import FILE_BYTES, StepWorkers, StoreWorld, make_message, make_queued

FAULTS = {
    "no space": lambda disk: setattr(disk, "room_bytes", 1_500),
    "failed write": lambda disk: disk.fail("append"),
    "failed sync": lambda disk: disk.fail("sync"),
}


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
    world = StoreWorld(tmp_path / "store", disk, workers=workers).open()
    world.publish(b"before" * 100)
    world.commit()
    world.settle()
    return world


def fail_a_batch(world: StoreWorld, disk: FaultyDisk, fault: str) -> None:
    world.publish(b"refused" * 200, queues=2)
    world.publish(b"refused" * 200)
    FAULTS[fault](disk)
    with pytest.raises(OSError, match="Errno"):
        world.commit()
    disk.room_bytes = None


@pytest.mark.parametrize("fault", FAULTS)
def test_what_was_there_before_stays(world: StoreWorld, disk: FaultyDisk, fault: str) -> None:
    fail_a_batch(world, disk, fault)
    world.settle()
    assert len(world.entries) == 1
    world.check()
    assert world.files() == {0: world.store._table.files[0].size}, "the rest is cut off"
    assert world.store.counters.batches_failed == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_the_next_batch_goes_to_another_file(
    world: StoreWorld, disk: FaultyDisk, fault: str
) -> None:
    """After a failed sync the kernel may call clean what it dropped."""
    fail_a_batch(world, disk, fault)
    (name,) = world.publish(b"after" * 100)
    world.commit()
    assert world.entries[name].file == 1
    world.check()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_crash_after_it_loses_nothing_else(
    world: StoreWorld, disk: FaultyDisk, fault: str
) -> None:
    fail_a_batch(world, disk, fault)
    world.publish(b"after" * 100)
    world.commit()
    world.crash(random.Random(3))
    assert len(world.reopened().entries) == 2


@pytest.mark.parametrize("fault", FAULTS)
def test_what_it_left_is_garbage(world: StoreWorld, disk: FaultyDisk, fault: str) -> None:
    disk.fail("truncate", times=5)
    fail_a_batch(world, disk, fault)
    world.settle()
    after = world.reopened()
    after.check_that_nothing_stays()


def test_the_messages_of_a_failed_batch_can_be_written_again(
    world: StoreWorld, disk: FaultyDisk
) -> None:
    message = make_message(b"twice" * 100)
    owners = [make_queued(message) for _ in range(2)]
    for queued in owners:
        world.store.write(queued)
    world.store.take_writes()
    owners[0].message = None  # type: ignore[assignment]
    world.store.batch_done(OSError(errno.EIO, "no"))
    assert [queued.store_file for queued in owners] == [-1, -1]
    assert owners[0].message is message, "it was paged out to a place that does not exist"
    for queued in owners:
        world.store.write(queued)
    (_, pieces), *_ = world.store.take_writes()[0]
    assert sum(map(len, pieces)) < 600, "they still share one body"


def test_what_died_while_a_batch_failed_is_counted_once(
    world: StoreWorld, disk: FaultyDisk
) -> None:
    names = world.publish(b"x" * 900, queues=3)
    world.take()
    world.ack(names[0])
    disk.fail("sync")
    with pytest.raises(OSError, match="Errno"):
        world.finish()
    assert [name in world.entries for name in names] == [False] * 3
    world.settle()
    world.check()
    world.check_that_nothing_stays()


def test_a_batch_over_several_files_fails_as_one(world: StoreWorld, disk: FaultyDisk) -> None:
    for _ in range(4):
        world.publish(bytes(FILE_BYTES // 2))
    world.take()
    assert len(world.writes) == 2
    world.batch = [("publish", entry) for _, entry in world.batch]
    disk.fail("sync", on="1.rdq")
    with pytest.raises(OSError, match="Errno"):
        world.finish()
    world.settle()
    assert list(world.files()) == [0], "the second has nothing left in it"
    world.check()


def test_dead_files_stay_when_their_acknowledgements_were_not_written(
    world: StoreWorld, disk: FaultyDisk
) -> None:
    names = [world.publish(bytes(FILE_BYTES))[0] for _ in range(2)]
    world.commit()
    for name in [0, names[0]]:
        world.ack(name)
    world.publish(bytes(100))
    disk.fail("sync")
    with pytest.raises(OSError, match="Errno"):
        world.commit()
    world.settle()
    assert 0 in world.files()
    world.commit()
    world.settle()
    assert 0 not in world.files()


def test_without_any_file_to_write_to_nothing_is_taken(world: StoreWorld, disk: FaultyDisk) -> None:
    fail_a_batch(world, disk, "failed sync")
    world.settle()
    world.store._table.spares.clear()
    (name,) = world.publish(b"patient" * 100)
    disk.fail("open", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        world.commit()
    assert name in world.waiting
    world.commit()
    assert world.read(name).body == b"patient" * 100


def test_spare_files_are_made_when_that_is_possible_again(
    world: StoreWorld, disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.fail("open", errno.ENOSPC, times=4)
    world.publish(bytes(FILE_BYTES))
    world.commit()
    for _ in range(4):
        world.settle()
        world.commit()
        world.store._wake()
    world.settle()
    assert len(world.store._table.spares) == 2
    assert log_lines(caplog).count("message store cannot create a file") == 1, "said once"


def test_short_writes_are_completed(world: StoreWorld, disk: FaultyDisk) -> None:
    disk.append_bytes_max = 100
    world.publish(b"in pieces" * 500)
    world.commit()
    world.check()


def test_a_file_that_cannot_be_deleted_is_no_misfortune(
    world: StoreWorld, disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    world.publish(bytes(FILE_BYTES))
    world.commit()
    for name in list(world.entries):
        world.ack(name)
    disk.fail("unlink", errno.EACCES)
    world.commit()
    world.settle()
    assert "message store file operation failed operation=delete path=" in log_lines(caplog)
    assert "0.rdq" in log_lines(caplog)
    world.close()
    after = world.reopened()
    after.settle()
    assert after.files() == {}
