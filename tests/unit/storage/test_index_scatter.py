"""When the journal is scattered to segments, and what holds while it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

from faulty_disk import FaultyDisk
from index_world import IndexWorld
from warren.storage.index import maintenance as index_chores
from warren.storage.index.states import SCATTERING, SEGMENTED


async def test_when_memory_is_short_messages_get_to_segments_early(tmp_path: Path) -> None:
    world = IndexWorld(tmp_path / "vhost")
    await world.open()
    published = [world.publish(body=bytes(1_000)) for _ in range(2_000)]
    await world.index.flush()
    assert world.index.scatter_soon()
    await world.house_is_kept()
    assert {queued.state for queued in published} == {SEGMENTED}
    await world.close()


async def test_but_not_for_less_than_it_costs(tmp_path: Path) -> None:
    """A checkpoint says something of every queue, so with many of them it is not small."""
    world = IndexWorld(tmp_path / "vhost")
    await world.open()
    world.publish()
    await world.index.flush()
    assert not world.index.scatter_soon(), "there is next to nothing in the journal"
    index_chores.SOON_BYTES_MIN, kept = 0, index_chores.SOON_BYTES_MIN  # type: ignore[misc]
    for number in range(40):
        world.publish(f"a queue with a longer name, number {number}")
    await world.shorten_journal()
    world.publish(body=bytes(3_000))
    await world.index.flush()
    assert not world.index.scatter_soon(), "the checkpoint would be longer than that"
    index_chores.SOON_BYTES_MIN = kept  # type: ignore[misc]
    await world.close()


async def test_acks_that_come_while_a_message_is_copied_get_to_its_segment(tmp_path: Path) -> None:
    """Without a checkpoint there is nothing else that could tell."""
    disk = FaultyDisk()
    world = IndexWorld(tmp_path / "vhost", disk)
    await world.open()
    first, second = world.publish(), world.publish()
    await world.index.flush()
    disk.sync_delay_s = 1.0  # for a machine that lets us look only now and then
    world.index.want_checkpoint()
    async with asyncio.timeout(60):
        while first.state != SCATTERING:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.001)
    disk.sync_delay_s = 0
    world.queue().ack([first])
    await world.house_is_kept()
    assert second.state == SEGMENTED
    world.publish()
    await world.shorten_journal()
    await world.close()
    world.layout.checkpoint_file.unlink()
    again = IndexWorld(tmp_path / "vhost")
    recovered = await again.open()
    assert recovered["q"].count == 2
    await again.close()
