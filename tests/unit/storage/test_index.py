"""The index at work: what is confirmed when, what is written and what never is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from index_world import TRANSIENT, IndexWorld
from warren.storage.index.states import DEAD, GATHERED, JOURNALED, SEGMENTED, WRITING
from warren.wire.codec import Message, QueuedMessage


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[IndexWorld]:
    world = IndexWorld(tmp_path / "vhost")
    await world.open()
    yield world
    await world.close()


def files(world: IndexWorld, pattern: str) -> list[Path]:
    return sorted(world.directory.rglob(pattern))


async def in_flight(queued: QueuedMessage) -> None:
    """At the end of this turn of the loop, that is."""
    assert queued.state == GATHERED
    await asyncio.sleep(0)
    assert queued.state == WRITING


async def test_a_publish_is_confirmed_in_order_when_it_is_safe(world: IndexWorld) -> None:
    published = [world.publish() for _ in range(5)]
    assert world.publisher.told == []
    assert all(queued.state == GATHERED for queued in published)
    await world.index.flush()
    assert world.publisher.told == [0, 1, 2, 3, 4]
    assert all(queued.state == JOURNALED for queued in published)
    assert all(queued.publisher is None for queued in published)


async def test_no_confirm_before_the_sync_is_over(tmp_path: Path) -> None:
    """S3."""
    disk = FaultyDisk()
    world = IndexWorld(tmp_path / "vhost", disk)
    await world.open()
    disk.sync_delay_s = 0.3
    started = time.monotonic()
    world.publish()
    world.publish(body=bytes(5_000))
    while time.monotonic() < started + 0.3:  # looked at again after each turn
        assert world.publisher.told == []
        await asyncio.sleep(0.01)
    await world.index.flush()
    assert world.publisher.told == [0, 1]
    assert time.monotonic() - started >= 0.6, "the body's file and the journal are synced"
    disk.sync_delay_s = 0
    await world.close()


async def test_what_comes_while_a_batch_is_written_goes_together_into_the_next(
    world: IndexWorld,
) -> None:
    batches = world.index._batches
    first = world.publish()
    await in_flight(first)
    for name in ("one", "two", "three"):
        for _ in range(10):
            world.publish(name)
    await world.index.flush()
    assert batches.count == 2


async def test_a_segment_is_read_in_pieces_of_any_size(world: IndexWorld) -> None:
    """Wherever a piece ends: in a record, behind it, or in what fills it up."""
    published = [world.publish(body=bytes(number % 51)) for number in range(2_048)]
    await world.shorten_journal()
    for bytes_max in range(65_536, 65_536 + 100):
        start, found = 0, []
        while entries := await world.read(start=start, bytes_max=bytes_max):
            found += [queued.sequence for queued in entries]
            start = found[-1] + 1
        assert found == [queued.sequence for queued in published], bytes_max


async def test_what_is_acked_before_it_is_written_is_never_written(world: IndexWorld) -> None:
    """S5: and its publisher is told at once."""
    journal = files(world, "*.jif")[-1]
    size = world.index.journal_bytes
    published = [world.publish(body=b"secret" * 100) for _ in range(20)]
    world.queue().ack(published)
    assert world.publisher.told == list(range(20))
    await world.index.flush()
    assert b"secret" not in journal.read_bytes()
    assert world.index.journal_bytes - size < 200
    assert all(queued.state == DEAD for queued in published)


async def test_what_is_acked_while_it_is_written_is_confirmed_all_the_same(
    world: IndexWorld,
) -> None:
    queued = world.publish()
    await in_flight(queued)
    world.queue().ack([queued])
    await world.index.flush()
    assert world.publisher.told == [0]
    assert queued.state == DEAD


async def test_a_queue_with_a_length_limit_keeps_the_disk_small(world: IndexWorld) -> None:
    """S31: of twenty thousand publishes to a queue that drops all but ten, few are written."""
    held: list[QueuedMessage] = []
    for number in range(20_000):
        held.append(world.publish(body=bytes(500)))
        if len(held) > 10:
            world.queue().ack([held.pop(0)])
        if number % 500 == 0:
            await asyncio.sleep(0)
    await world.index.flush()
    total = sum(path.stat().st_size for path in files(world, "*.*") if path.is_file())
    assert total < 1_500_000, "of ten million bytes published"
    assert len(world.publisher.told) == 20_000
    assert len(world.queue().gathered) + len(world.queue().journaled) < 2_000


async def test_acks_in_a_row_become_one_record(world: IndexWorld) -> None:
    published = [world.publish() for _ in range(1_000)]
    await world.index.flush()
    size = world.index.journal_bytes
    for queued in published:
        world.queue().ack([queued])
    await world.index.flush()
    assert world.index.journal_bytes - size == 40


async def test_messages_never_given_to_the_index_may_be_acked(world: IndexWorld) -> None:
    world.publish()
    volatile = QueuedMessage(Message(b"\0\0", TRANSIENT, b"x"), 5, 0)
    world.queue().ack([volatile])
    assert volatile.state == 0


async def test_large_bodies_go_to_the_store_and_small_ones_do_not(world: IndexWorld) -> None:
    """S1: 4095 bytes and two of properties are too much together."""
    small = world.publish(body=bytes(4_092))
    large = world.publish(body=bytes(4_093))
    await world.index.flush()
    assert small.store_file == -1
    assert large.store_file >= 0
    assert (await world.bodies.read(large.store_file, large.store_offset, 4_093)).body == bytes(
        4_093
    )


async def test_one_body_serves_all_queues(world: IndexWorld) -> None:
    """S2."""
    message = Message(b"\0\0", world.publish().message.properties, bytes(1_000_000))
    for name in "abcde":
        world.queue(name).publish(QueuedMessage(message, 0, 0))
    await world.index.flush()
    stored = sum(path.stat().st_size for path in files(world, "msg_store_persistent/*"))
    assert 1_000_000 < stored < 1_100_000


async def test_what_stays_is_copied_to_segments_and_leaves_the_journal(world: IndexWorld) -> None:
    published = [world.publish(body=b"%d" % n) for n in range(5_000)]
    world.queue().ack(published[::2])
    told: list[int] = []
    world.queue().on_segmented = lambda: told.append(world.queue().segments[0].live_count)
    await world.shorten_journal()
    assert {queued.state for queued in published[1::2]} == {SEGMENTED}
    assert told
    assert [path.name for path in files(world, "*.idx")] == ["0.idx", "1.idx", "2.idx"]
    assert len(files(world, "*.jif")) == 1
    assert world.index.journal_bytes < 500
    assert world.queue().segmented_below == 5_000
    entries = await world.read()
    assert [queued.sequence for queued in entries] == list(range(1, 5_000, 2))
    assert [queued.message.body for queued in entries] == [b"%d" % n for n in range(1, 5_000, 2)]


async def test_the_journal_is_shortened_by_itself_while_publishing_goes_on(
    tmp_path: Path,
) -> None:
    world = IndexWorld(tmp_path / "vhost")
    world.index.journal_file_bytes = 100_000
    await world.open()
    count = 0
    async with asyncio.timeout(60):
        while count < 5_000 or world.index._chores.scatter.checkpoints < 2:
            for _ in range(50):
                world.publish(body=bytes(200))
            count += 50
            await asyncio.sleep(0.001)
    await world.house_is_kept()
    assert world.index.journal_bytes < 200_000
    entries = await world.read()
    journaled = [queued.sequence for queued in world.queue().journaled]
    assert [queued.sequence for queued in entries] + journaled == list(range(count))
    await world.close()


async def test_a_segment_goes_when_all_in_it_is_acked(world: IndexWorld) -> None:
    published = [world.publish() for _ in range(4_096)]
    await world.shorten_journal()
    assert len(files(world, "*.idx")) == 2
    world.queue().ack(published[:2_048])
    await world.house_is_kept()
    assert [path.name for path in files(world, "*.idx")] == ["1.idx"]
    world.queue().ack(published[2_048:])
    await world.house_is_kept()
    assert files(world, "*.idx") == []


async def test_reading_comes_in_pieces_that_fit(world: IndexWorld) -> None:
    for _ in range(5_000):
        world.publish(body=bytes(100))
    await world.shorten_journal()
    found: list[int] = []
    while True:
        piece = await world.read(start=len(found), bytes_max=50_000)
        if not piece:
            break
        assert sum(queued.size for queued in piece) < 60_000
        found += [queued.sequence for queued in piece]
    assert found == list(range(5_000))


async def test_at_least_one_message_is_read_however_small_the_window(world: IndexWorld) -> None:
    world.publish(body=bytes(4_000))
    await world.shorten_journal()
    assert len(await world.read(bytes_max=1)) == 1


async def test_a_message_that_went_to_the_index_late_has_its_old_place(world: IndexWorld) -> None:
    """One that was only in memory has to make room; newer ones are on disk already."""
    late = QueuedMessage(Message(b"\0\0", TRANSIENT, b"late"), 1, 0)
    for sequence in (0, 2, 3):
        world.queue().publish(QueuedMessage(world.publish("other").message, sequence, 0))
    await world.shorten_journal()
    assert world.queue().segmented_below == 4
    world.queue().publish(late)
    assert world.queue().segmented_below == 1
    await world.shorten_journal()
    assert world.queue().segmented_below == 4
    assert [queued.sequence for queued in await world.read()] == [0, 1, 2, 3]


async def test_purging_is_cheap_whatever_is_there(world: IndexWorld) -> None:
    """And the store is told of bodies that only the segments knew of."""
    for _ in range(10_000):
        world.publish()
    large = [world.publish(body=bytes(100_000)) for _ in range(3)]
    await world.shorten_journal()
    size = world.index.journal_bytes
    world.queue().ack_range(0, 20_000)
    assert await world.read() == []
    await world.house_is_kept()
    assert world.index.journal_bytes - size < 1_000
    await world.house_is_kept()
    assert files(world, "*.idx") == []
    file = world.bodies._table.files.get(large[0].store_file)
    assert file is None or file.is_dead


async def test_a_deleted_queue_leaves_nothing(world: IndexWorld) -> None:
    """S28."""
    for _ in range(3_000):
        world.publish()
    world.publish(body=bytes(10_000))
    await world.shorten_journal()
    for _ in range(3_000):
        world.publish()
    before_s = time.process_time()
    await world.index.delete_queue("q")
    assert time.process_time() - before_s < 2
    assert len(world.publisher.told) == 6_001
    await world.house_is_kept()
    assert list((world.directory / "queues").iterdir()) == []


async def test_a_queue_may_have_the_name_of_one_that_was_deleted(world: IndexWorld) -> None:
    for _ in range(3_000):
        world.publish(body=b"old")
    await world.shorten_journal()
    deletion = asyncio.ensure_future(world.index.delete_queue("q"))
    await asyncio.sleep(0)
    fresh = world.queue()
    for sequence in range(10):
        fresh.publish(QueuedMessage(world.publish("other", b"new").message, sequence, 0))
    await world.shorten_journal()
    await deletion
    await world.shorten_journal()
    assert [queued.message.body for queued in await world.read()] == [b"new"] * 10


async def test_many_queues_share_one_commit(world: IndexWorld) -> None:
    for number in range(1_000):
        world.publish(f"queue {number}")
    await world.index.flush()
    assert world.index._batches.count == 1
    assert len(world.publisher.told) == 1_000


async def test_acknowledgements_wait_for_the_next_message_or_their_time(tmp_path: Path) -> None:
    alarms: list[Callable[[], None]] = []
    world = IndexWorld(tmp_path, call_later=lambda delay_s, do: alarms.append(do))
    await world.open()
    batches = world.index._batches
    published = [world.publish() for _ in range(3)]
    await world.index.flush()
    world.queue().ack(published[:1])
    await asyncio.sleep(0)
    assert (batches.count, batches.is_in_flight, len(alarms)) == (1, False, 1)
    published.append(world.publish())
    await in_flight(published[-1])
    await world.index.flush()
    assert batches.count == 2, "it went with the message"

    world.queue().ack(published[1:2])
    alarms.pop()()
    await asyncio.sleep(0)
    assert batches.is_in_flight, "its time had come"
    await world.index.flush()
    world.queue().ack(published[2:])
    await world.close()
    again = IndexWorld(tmp_path)
    assert (await again.open())["q"].count == 0
    await again.close()
