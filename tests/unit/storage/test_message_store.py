"""Writing, sharing, cancelling, reading and deleting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store_world import FILE_BYTES, StepWorkers, StoreWorld, make_message, make_queued, run
from warren.storage.bodies.message_store import MessageStore
from warren.storage.bodies.record_format import CorruptRecord
from warren.storage.disk.files import RealDisk
from warren.storage.index.states import TRANSIENT_FILE_MIN


@pytest.fixture
def workers() -> Iterator[StepWorkers]:
    workers = StepWorkers()
    yield workers
    workers.abandon()


@pytest.fixture
def world(tmp_path: Path, workers: StepWorkers) -> StoreWorld:
    return StoreWorld(tmp_path / "store", workers=workers).open()


def fill_files(world: StoreWorld, count: int) -> list[list[int]]:
    """Names of the messages in each of `count` full files."""
    files = []
    for number in range(count):
        files.append([world.publish(bytes([number]) * 1_000)[0] for _ in range(4)])
        world.commit()
        world.settle()
    return files


def test_a_message_comes_back_as_it_was(world: StoreWorld) -> None:
    message = make_message(b"body" * 300, b"\x02ex\x03key", b"\x10\x00\x02")
    name = world.publish_to_queue(message)
    world.commit()
    found = world.read(name)
    assert (found.route_key, found.body) == (message.route_key, message.body)
    assert found.properties.raw == message.properties.raw
    assert found.properties.persistent


@pytest.mark.parametrize("size", [0, 1, 4_095, 16_383, 16_384, 1_048_576])
def test_bodies_of_all_sizes_come_back(world: StoreWorld, size: int) -> None:
    (name,) = world.publish(b"\xff" * size)
    world.commit()
    assert world.read(name).body == b"\xff" * size


def test_a_property_block_may_be_longer_than_the_body(world: StoreWorld) -> None:
    properties = b"\x20\x00" + (20_000).to_bytes(4, "big") + bytes(20_000)
    name = world.publish_to_queue(make_message(b"", b"\x00\x01k", properties))
    world.commit()
    assert world.read(name).properties.raw == properties


def test_the_hint_of_the_size_may_be_wrong(world: StoreWorld) -> None:
    (name,) = world.publish(b"x" * 30_000)
    world.commit()
    entry = world.entries[name]
    for hint in (0, 10, 29_999, 100_000):
        assert run(world.store.read(entry.file, entry.offset, hint)).body == b"x" * 30_000


def test_a_location_is_known_when_the_batch_is_taken(world: StoreWorld) -> None:
    queued = make_queued(make_message(b"x" * 500))
    world.store.write(queued)
    assert queued.store_file == -1
    world.store.take_writes()
    assert queued.store_file >= 0
    assert queued.store_offset > 0


def test_queues_that_have_the_same_message_share_its_body(world: StoreWorld) -> None:
    """S2: a megabyte for five queues takes a megabyte on disk."""
    names = world.publish(bytes(1_048_576), queues=5)
    world.commit()
    assert sum(world.files().values()) < 1_048_576 * 1.01
    assert len({world.entries[name].location for name in names}) == 1


def test_queues_that_get_it_in_another_order_share_it_too(world: StoreWorld) -> None:
    first, second = make_message(bytes(1_000)), make_message(bytes(1_000))
    for message in (first, second, first, second):
        world.publish_to_queue(message)
    world.commit()
    assert sum(world.files().values()) < 2_200


def test_equal_messages_are_two_messages(world: StoreWorld) -> None:
    world.publish(bytes(1_000))
    world.publish(bytes(1_000))
    world.commit()
    assert sum(world.files().values()) > 2_000


def test_a_body_is_handed_over_and_not_copied(world: StoreWorld) -> None:
    message = make_message(bytes(16_384))
    world.store.write(make_queued(message))
    ((_, pieces),), _ = world.store.take_writes()
    assert any(piece is message.body for piece in pieces)


def test_what_dies_before_its_batch_is_taken_is_not_written(world: StoreWorld) -> None:
    names = [world.publish(bytes([number]) * 900)[0] for number in range(3)]
    world.ack(names[1])
    world.commit()
    assert sum(world.files().values()) < 2_000
    assert world.read(names[0]).body[:1] == b"\x00"
    assert world.read(names[2]).body[:1] == b"\x02"


def test_it_is_written_if_one_of_several_queues_wants_it(world: StoreWorld) -> None:
    names = world.publish(bytes(900), queues=3)
    world.ack(names[0])
    world.ack(names[2])
    world.commit()
    assert world.read(names[1]).body == bytes(900)
    world.ack(names[1])
    assert world.store._table.current is not None
    assert world.store._table.current.is_dead, "the other two are not counted"


def test_what_was_never_written_cannot_be_cancelled(world: StoreWorld) -> None:
    waiting, stranger = (make_queued(make_message(b"x")) for _ in range(2))
    world.store.write(waiting)
    assert not world.store.cancel(stranger)
    assert not world.store.cancel(make_queued(waiting.message))
    assert world.store.cancel(waiting)
    assert not world.store.cancel(waiting)


def test_bytes_that_wait_are_counted_once_per_body(world: StoreWorld) -> None:
    names = world.publish(bytes(1_000), queues=2) + world.publish(bytes(500))
    assert world.store.waiting_bytes == 1_500
    world.ack(names[0])
    assert world.store.waiting_bytes == 1_500
    world.ack(names[1])
    assert world.store.waiting_bytes == 500
    world.commit()
    assert world.store.waiting_bytes == 0


def test_a_message_can_be_read_while_it_is_being_written(world: StoreWorld) -> None:
    names = world.publish(b"early" * 100, queues=2) + world.publish(b"other" * 100)
    world.take()
    assert [world.read(name).body[:5] for name in names] == [b"early", b"early", b"other"]
    world.finish()
    assert world.read(names[0]).body[:5] == b"early"


def test_a_window_of_reads_keeps_its_order(world: StoreWorld) -> None:
    files = fill_files(world, 3)
    names = [files[2][1], files[0][3], files[1][0], files[0][0]]
    found = run(world.store.read_many([world.entries[name].location for name in names]))
    assert [m.body[0] for m in found if not isinstance(m, CorruptRecord)] == [2, 0, 1, 0]


def test_a_place_where_nothing_is_is_reported(world: StoreWorld) -> None:
    (name,) = world.publish(bytes(1_000))
    world.commit()
    file, offset, size = world.entries[name].location
    for place in ((file, offset + 1, size), (file, 100_000, size), (file + 50, offset, size)):
        with pytest.raises(CorruptRecord, match=rf"{place[0]}.rdq, offset {place[1]}: "):
            run(world.store.read(*place))
    assert world.store.counters.records_corrupt == 3


def test_a_file_is_followed_by_the_next_after_the_write_that_fills_it(world: StoreWorld) -> None:
    """S25: so a file may be longer than the limit by one message."""
    names = world.publish(bytes(1_500))
    world.commit()
    world.settle()
    names += [world.publish(bytes(1_500))[0] for _ in range(6)]
    world.commit()
    assert [world.entries[name].file for name in names] == [0, 0, 0, 1, 1, 1, 2]
    assert FILE_BYTES <= world.files()[0] < FILE_BYTES + 1_600
    world.check()


def test_files_are_16_mib_unless_something_else_is_asked_for(tmp_path: Path) -> None:
    assert MessageStore(tmp_path, RealDisk(), StepWorkers()).file_bytes == 16_777_216


def test_a_batch_may_take_more_files_than_are_ready(world: StoreWorld) -> None:
    """Making one takes a sync, which the event loop must not wait for."""
    for _ in range(6):
        world.publish(bytes(FILE_BYTES))
    world.commit()
    world.check()
    assert len(world.files()) == 2
    world.settle()
    world.publish(bytes(100))
    world.commit()
    assert len(world.files()) == 3


def test_even_a_file_that_waits_for_its_successor_has_an_end(world: StoreWorld) -> None:
    for _ in range(60):
        world.publish(bytes(FILE_BYTES))
    world.commit()
    assert max(world.files().values()) < 10 * FILE_BYTES
    world.check()


def test_a_file_is_deleted_when_all_in_it_is_dead(world: StoreWorld) -> None:
    """S25"""
    files = fill_files(world, 3)
    for name in files[1]:
        world.ack(name)
    world.commit()
    world.settle()
    assert list(world.files()) == [0, 2]
    world.check()


def test_all_references_must_be_gone_first(world: StoreWorld) -> None:
    """S27, without the restart."""
    names = [world.publish(bytes([number]) * 2_000, queues=2) for number in range(3)]
    world.commit()
    world.publish(bytes(FILE_BYTES))
    world.commit()
    for pair in names:
        world.ack(pair[0])
    world.commit()
    world.settle()
    world.check()
    assert 0 in world.files()
    for pair in names:
        world.ack(pair[1])
    world.commit()
    world.settle()
    assert 0 not in world.files()


def test_the_current_file_stays_though_all_in_it_is_dead(world: StoreWorld) -> None:
    (name,) = world.publish(bytes(1_000))
    world.commit()
    world.ack(name)
    world.commit()
    world.settle()
    assert list(world.files()) == [0]
    (name,) = world.publish(bytes(1_000))
    world.commit()
    assert world.entries[name].file == 0
    world.check()


def test_a_file_goes_when_it_is_full_and_already_dead(world: StoreWorld) -> None:
    (name,) = world.publish(bytes(1_000))
    world.commit()
    world.ack(name)
    world.publish(bytes(FILE_BYTES))
    world.commit()
    last = world.publish(bytes(1_000))[0]
    assert [*world.entries] != []
    for name in list(world.entries):
        world.ack(name)
    for _ in range(2):
        world.commit()
        world.settle()
    assert list(world.files()) == [world.entries[last].file]


def test_a_dead_file_stays_until_the_acknowledgements_are_safe(world: StoreWorld) -> None:
    files = fill_files(world, 2)
    for name in files[0]:
        world.ack(name)
    world.settle()
    assert 0 in world.files()
    world.take()
    world.settle()
    assert 0 in world.files()
    world.finish()
    world.settle()
    assert 0 not in world.files()


def test_a_file_that_is_being_read_is_deleted_afterwards(world: StoreWorld) -> None:
    files = fill_files(world, 2)
    reading = world.store.read(*world.entries[files[0][0]].location)
    reading.send(None)
    for name in files[0]:
        world.ack(name)
    world.commit()
    world.settle()
    assert 0 in world.files()
    assert run(reading).body == bytes(1_000)
    world.settle()
    assert 0 not in world.files()


def test_a_transient_store_begins_with_nothing(tmp_path: Path, workers: StepWorkers) -> None:
    for _ in range(2):
        store = MessageStore(tmp_path / "t", RealDisk(), workers, is_transient=True)
        run(store.open())
        run(store.recovered())
        store.begin_chores()
        queued = make_queued(make_message(bytes(5_000)))
        store.write(queued)
        writes, syncs = store.take_writes()
        assert syncs == [], "nobody waits for a transient message to be safe"
        assert queued.store_file == TRANSIENT_FILE_MIN
        for descriptor, pieces in writes:
            RealDisk().append(descriptor, pieces)
        store.batch_done(None)
        location = (queued.store_file, queued.store_offset, queued.size)
        assert run(store.read(*location)).body == bytes(5_000)
        assert (tmp_path / "t" / "0.rdq").stat().st_size > 5_000


def test_a_transient_file_does_not_wait_for_a_batch_to_go(
    tmp_path: Path, workers: StepWorkers
) -> None:
    store = MessageStore(tmp_path / "t", RealDisk(), workers, is_transient=True)
    store.file_bytes = FILE_BYTES
    run(store.open())
    run(store.recovered())
    store.begin_chores()
    queued = make_queued(make_message(bytes(FILE_BYTES)))
    store.write(queued)
    store.take_writes()
    store.batch_done(None)
    workers.settle()
    assert (tmp_path / "t" / "0.rdq").exists()
    store.died(queued.store_file, queued.store_offset, queued.size)
    workers.settle()
    assert not (tmp_path / "t" / "0.rdq").exists()


def test_closing_leaves_no_spare_files(world: StoreWorld) -> None:
    world.publish(bytes(100))
    world.close()
    assert [path.name for path in world.directory.iterdir()] == ["0.rdq"]
