"""On a disk that fails nothing is confirmed that is not safe, and nothing is lost silently."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from index_world import IndexWorld
from warren.queues.boundary import RetryingPublisher
from warren.storage.index.states import JOURNALED, SEGMENTED

BEYOND_THE_ZEROS = bytes(4_000)
"""Five bodies like this do not fit into what is written ahead of the first batch."""


@pytest.fixture
async def world(tmp_path: Path) -> IndexWorld:
    world = IndexWorld(tmp_path / "vhost", FaultyDisk())
    await world.open()
    return world


def disk_of(world: IndexWorld) -> FaultyDisk:
    assert isinstance(world.disk, FaultyDisk)
    return world.disk


async def sequences_after_power_cut(world: IndexWorld) -> list[int]:
    disk_of(world).crash()
    await world.abandon()
    again = IndexWorld(world.directory)
    recovered = await again.open()
    await again.house_is_kept()
    await again.index.flush()
    entries = await again.read()
    await again.close()
    assert "q" in recovered
    return [queued.sequence for queued in entries]


@pytest.mark.parametrize("operation", ["sync", "place"])
async def test_after_a_failure_everything_is_written_to_another_file(
    world: IndexWorld, operation: str
) -> None:
    """A failed sync is never tried again: what it should have written may be gone."""
    failures: list[OSError] = []
    world.index.on_failure = failures.append
    disk_of(world).fail(operation, errno.EIO, on="0.jif")
    published = [world.publish() for _ in range(10)]
    await world.index.flush()
    assert world.publisher.told == list(range(10))
    assert world.publisher.refused == []
    assert [failure.errno for failure in failures] == [errno.EIO]
    assert all(queued.state == JOURNALED for queued in published)
    synced = [change for change in disk_of(world).changes if change == "sync 0.jif"]
    assert len(synced) == (2 if operation == "sync" else 1), "the header, and the one that failed"
    assert await sequences_after_power_cut(world) == list(range(10))


@pytest.mark.parametrize("size", [100, 5_000])
async def test_what_is_acked_while_its_batch_fails_is_answered(
    world: IndexWorld, size: int
) -> None:
    """S5: it is not written again, so nobody else would tell its publisher."""
    disk_of(world).fail("sync", errno.EIO, on="0.jif")
    published = [world.publish(body=bytes(size)) for _ in range(10)]
    await asyncio.sleep(0)
    world.queue().ack(published[:5])
    await world.index.flush()
    assert sorted(world.publisher.told) == list(range(10))
    assert await sequences_after_power_cut(world) == [5, 6, 7, 8, 9]


async def test_what_a_failed_batch_left_behind_is_void(world: IndexWorld) -> None:
    """An ack of a message whose first writing failed: it does not come back from there."""
    disk_of(world).fail("sync", errno.EIO, on="0.jif")
    published = [world.publish() for _ in range(10)]
    await asyncio.sleep(0)
    world.queue().ack(published[:5])
    await world.index.flush()
    journal = world.directory / "journal"
    assert (journal / "0.jif").stat().st_size > 400
    await world.abandon()
    again = IndexWorld(world.directory)
    recovered = await again.open()
    assert [queued.sequence for queued in recovered["q"].journaled] == [5, 6, 7, 8, 9]
    await again.close()


async def test_a_full_disk_refuses_publishers_and_goes_on_when_there_is_room(
    world: IndexWorld,
) -> None:
    before = world.publish()
    await world.index.flush()
    disk_of(world).room_bytes = 100
    held = [world.publish(body=BEYOND_THE_ZEROS) for _ in range(5)]
    await asyncio.wait_for(world.publisher.was_refused.wait(), 60)
    assert world.index.is_failing
    assert world.publisher.refused == [1, 2, 3, 4, 5]
    assert world.publisher.told == [0]
    world.queue().ack([before])
    world.queue().ack(held[:1])
    disk_of(world).room_bytes = None
    await world.index.flush()
    assert not world.index.is_failing
    late = world.publish()
    await world.index.flush()
    assert world.publisher.told == [0, late.sequence], "nobody is told yes after no"
    assert await sequences_after_power_cut(world) == [2, 3, 4, 5, 6]


class Patient(RetryingPublisher):
    def __init__(self) -> None:
        self.told: list[int] = []
        self.refusals: list[int] = []
        self.was_refused_again = asyncio.Event()

    def confirmed(self, sequence: int) -> None:
        self.told.append(sequence)

    def rejected(self, sequence: int) -> None:
        if sequence in self.refusals:
            self.was_refused_again.set()
        self.refusals.append(sequence)


async def test_a_patient_publisher_is_refused_each_time_and_told_when_there_is_room(
    world: IndexWorld,
) -> None:
    patient = Patient()
    disk_of(world).room_bytes = 100
    held = [world.publish(body=bytes(500)) for _ in range(3)]
    for queued in held:
        queued.publisher = patient
    await asyncio.wait_for(patient.was_refused_again.wait(), 60)
    world.queue().ack(held[:1])
    assert patient.told == [0], "what is gone needs no disk"
    disk_of(world).room_bytes = None
    await world.index.flush()
    assert patient.told == [0, 1, 2]
    assert await sequences_after_power_cut(world) == [1, 2]


async def test_what_fits_into_the_zeros_needs_no_room(world: IndexWorld) -> None:
    """A full disk refuses nothing that it has a place for."""
    world.publish()
    await world.index.flush()
    disk_of(world).room_bytes = 0
    for _ in range(20):
        world.publish(body=bytes(200))
        await world.index.flush()
    assert not world.index.is_doubtful
    assert world.publisher.refused == []
    assert await sequences_after_power_cut(world) == list(range(21))


async def test_a_disk_without_room_for_the_zeros_takes_what_it_has_room_for(
    world: IndexWorld,
) -> None:
    failures: list[OSError] = []
    world.index.on_failure = failures.append
    disk_of(world).room_bytes = 10_000
    for _ in range(20):
        world.publish(body=bytes(200))
        await world.index.flush()
    assert [failure.errno for failure in failures] == [errno.ENOSPC], "zeros are tried once"
    assert world.publisher.told == list(range(20))
    assert await sequences_after_power_cut(world) == list(range(20))


async def test_bodies_in_a_store_that_fails_are_written_again(world: IndexWorld) -> None:
    disk_of(world).fail("sync", errno.EIO, on=".rdq")
    large = world.publish(body=b"x" * 10_000)
    small = world.publish()
    await world.index.flush()
    assert world.publisher.told == [0, 1]
    message = await world.bodies.read(large.store_file, large.store_offset, 10_000)
    assert message.body == b"x" * 10_000
    assert small.state == large.state == JOURNALED
    assert await sequences_after_power_cut(world) == [0, 1]


async def test_copying_to_segments_is_tried_again(world: IndexWorld) -> None:
    failures: list[OSError] = []
    world.index.on_failure = failures.append
    published = [world.publish() for _ in range(3_000)]
    await world.index.flush()
    disk_of(world).fail("sync", errno.ENOSPC, on="1.idx")
    await world.shorten_journal()
    assert [failure.errno for failure in failures] == [errno.ENOSPC]
    assert all(queued.state == SEGMENTED for queued in published)
    assert world.index.journal_bytes < 500
    assert await sequences_after_power_cut(world) == list(range(3_000))


async def test_a_checkpoint_that_cannot_be_written_is_tried_again(world: IndexWorld) -> None:
    for operation in ("append", "sync", "rename", "sync_directory"):
        on = "vhost" if operation == "sync_directory" else "checkpoint.draft"
        disk_of(world).fail(operation, errno.EIO, on=on)
    for _ in range(100):
        world.publish()
    await world.shorten_journal()
    assert world.index._chores.scatter.checkpoints == 1
    assert await sequences_after_power_cut(world) == list(range(100))


async def test_a_stop_ends_although_the_disk_does_not_write(world: IndexWorld) -> None:
    world.publish()
    await world.index.flush()
    for operation in ("append", "place"):
        disk_of(world).fail(operation, errno.ENOSPC, times=1_000_000)
    world.publish()
    async with asyncio.timeout(60):
        while not world.index.is_failing:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.001)
    await asyncio.wait_for(world.index.close(), 60)
    assert world.publisher.refused == [1]
    await world.abandon()
    again = IndexWorld(world.directory)
    recovered = await again.open()
    assert [queued.sequence for queued in recovered["q"].journaled] == [0]
    await again.close()


async def test_what_comes_after_the_end_does_not_void_what_was_before(world: IndexWorld) -> None:
    """A message expires while the node stops, and dies into a queue whose journal is closed."""
    for _ in range(3):
        world.publish()
    await world.index.close()
    world.publish()
    await asyncio.sleep(0.05)
    await world.workers.settle()
    await world.committer.close()
    assert not world.index.is_failing
    again = IndexWorld(world.directory)
    recovered = await again.open()
    assert again.index.findings.is_clean
    assert [queued.sequence for queued in recovered["q"].journaled] == [0, 1, 2]
    await again.close()


async def test_the_journal_is_not_closed_under_a_batch(world: IndexWorld) -> None:
    """What is published after the last flush of a stop either is safe or is not written at all."""
    world.publish()
    closing = asyncio.ensure_future(world.index.close())
    while not closing.done():
        world.publish()
        await asyncio.sleep(0)
    failures = [change for change in disk_of(world).changes if "1.jif" in change]
    assert not failures, "a batch failed, and was tried again in another file"
    told = world.publisher.told
    await world.abandon()
    again = IndexWorld(world.directory)
    recovered = await again.open()
    found = [queued.sequence for queued in recovered["q"].journaled]
    assert found == list(range(len(found)))
    assert len(found) >= len(told)
    await again.close()


async def test_a_deletion_waits_for_the_disk_but_not_for_one_that_is_full(
    world: IndexWorld,
) -> None:
    world.index._batches.journal.may_fill = False
    world.publish()
    await world.index.delete_queue("q")
    disk_of(world).room_bytes = 0
    world.publish()
    world.index.drop_queue("q")
    await asyncio.wait_for(world.index.deletions_safe(), 10)
    assert world.index.is_failing
    disk_of(world).room_bytes = None
    await world.index.flush()
    disk_of(world).crash()
    await world.abandon()
    again = IndexWorld(world.directory)
    assert not await again.open(), "neither came back"
    await again.close()


async def test_whoever_waits_for_the_disk_after_the_end_is_told(world: IndexWorld) -> None:
    await world.index.close()
    with pytest.raises(OSError, match="the journal is closed"):
        await world.index.flush()
    await world.abandon()
