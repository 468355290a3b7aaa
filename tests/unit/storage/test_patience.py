"""A disk that will not read has not lost anything: it is asked again, and nothing is given up."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from index_world import IndexWorld
from log_lines import log_lines
from warren.storage.bodies.record_format import CorruptRecord
from warren.wire.codec import QueuedMessage


async def filled(directory: Path, size: int) -> tuple[IndexWorld, FaultyDisk, list[QueuedMessage]]:
    disk = FaultyDisk()
    world = IndexWorld(directory, disk)
    await world.open()
    published = [world.publish(body=bytes(size)) for _ in range(10)]
    await world.shorten_journal()
    return world, disk, published


@pytest.mark.parametrize(
    ("operation", "code"), [("read", errno.EIO), ("open", errno.EMFILE), ("open", errno.EACCES)]
)
async def test_segments_are_read_again_until_they_can_be(
    tmp_path: Path, operation: str, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    world, disk, _ = await filled(tmp_path / "vhost", 10)
    disk.fail(operation, code, times=25, on=".idx")
    assert len(await world.read()) == 10
    assert "0.idx" in log_lines(caplog)
    assert "cannot be read" in log_lines(caplog)
    await world.close()


@pytest.mark.parametrize("operation", ["read", "open"])
async def test_bodies_are_read_again_until_they_can_be(tmp_path: Path, operation: str) -> None:
    world, disk, published = await filled(tmp_path / "vhost", 5_000)
    disk.fail(operation, errno.EIO, times=25, on=".rdq")
    locations = [(q.store_file, q.store_offset, q.size) for q in published]
    found = await world.bodies.read_many(locations)
    assert not [one for one in found if isinstance(one, CorruptRecord)]
    assert world.bodies.counters.records_corrupt == 0
    await world.close()


async def test_a_stop_does_not_wait_and_loses_nothing(tmp_path: Path) -> None:
    world, disk, published = await filled(tmp_path / "vhost", 5_000)
    disk.fail("read", errno.EIO, times=1 << 40, on=".idx")
    disk.fail("read", errno.EIO, times=1 << 40, on=".rdq")
    came: list[list[QueuedMessage]] = []
    world.queue().read(0, 1 << 40, 1 << 20, came.append)
    one = published[0]
    body = asyncio.ensure_future(world.bodies.read(one.store_file, one.store_offset, one.size))
    await asyncio.sleep(0.05)
    async with asyncio.timeout(60):
        await world.close()
        with pytest.raises(OSError, match="closed"):
            await body
    assert came == []
    again = IndexWorld(world.directory)
    assert (await again.open())["q"].count == 10
    await again.close()


async def test_nobody_asks_for_what_was_deleted(tmp_path: Path) -> None:
    world, disk, _ = await filled(tmp_path / "vhost", 10)
    disk.fail("read", errno.EIO, times=1 << 40, on=".idx")
    came: list[list[QueuedMessage]] = []
    world.queue().read(0, 1 << 40, 1 << 20, came.append)
    await world.index.delete_queue("q")
    async with asyncio.timeout(60):
        await world.house_is_kept()
    assert came == []
    await world.close()


async def test_what_came_before_the_trouble_is_not_held_back(tmp_path: Path) -> None:
    """The second segment cannot be read; the messages of the first one can be delivered."""
    disk = FaultyDisk()
    world = IndexWorld(tmp_path / "vhost", disk)
    await world.open()
    for _ in range(2_100):
        world.publish()
    await world.shorten_journal()
    disk.fail("read", errno.EIO, times=1 << 40, on="1.idx")
    async with asyncio.timeout(60):
        assert len(await world.read()) == 2_048
    await world.close()
