"""What a store finds again: after stops, after crashes, and when files are damaged."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from log_lines import log_lines
from store_world import FILE_BYTES, Journal, StepWorkers, StoreWorld, make_message, run
from warren.storage.bodies.message_store import MessageStore
from warren.storage.bodies.record_format import CorruptRecord, NewerStoreFormat
from warren.storage.disk.checksum import crc32c
from warren.storage.disk.files import RealDisk


@pytest.fixture
def workers() -> Iterator[StepWorkers]:
    workers = StepWorkers()
    yield workers
    workers.abandon()


@pytest.fixture
def world(tmp_path: Path, workers: StepWorkers) -> StoreWorld:
    return StoreWorld(tmp_path / "store", workers=workers).open()


def killed(world: StoreWorld) -> StoreWorld:
    """The process is gone, the machine is not."""
    world.store._buffer.land()
    world.waiting.clear()
    return world.reopened()


def three_messages(world: StoreWorld) -> list[int]:
    names = [world.publish(bytes([65 + number]) * 1_000)[0] for number in range(3)]
    world.commit()
    return names


def path_of(world: StoreWorld, name: int) -> Path:
    return world.directory / f"{world.entries[name].file}.rdq"


def test_after_a_clean_stop_everything_is_there_and_nothing_is_walked(world: StoreWorld) -> None:
    three_messages(world)
    world.close()
    disk = FaultyDisk()
    disk.fail("sync", times=100)  # what was walked is synced
    store = MessageStore(world.directory, disk, world.workers)
    run(store.open(world.journal.state))
    assert run(store.missing_files()) == []
    after = world.reopened()
    assert len(after.entries) == 3


def test_after_a_clean_stop_the_last_file_is_continued(world: StoreWorld) -> None:
    three_messages(world)
    for _ in range(5):
        world.close()
        world = world.reopened()
        world.publish(b"more")
        world.commit()
    assert list(world.files()) == [0]
    world.check()


def test_a_file_that_a_batch_failed_on_is_not_continued(
    tmp_path: Path, workers: StepWorkers
) -> None:
    """A place that was given in vain must not be given again."""
    disk = FaultyDisk()
    world = StoreWorld(tmp_path / "store", disk, workers=workers).open()
    world.publish(bytes(500))
    world.commit()
    world.publish(bytes(500), queues=2)
    disk.fail("sync")
    with pytest.raises(OSError, match="Errno"):
        world.commit()
    world.settle()
    world.close()
    after = world.reopened()
    names = after.publish(bytes(500), queues=3)
    after.commit()
    assert after.entries[names[0]].file != 0
    for name in names[:2]:
        after.ack(name)
    after.close()
    again = after.reopened()
    again.settle()
    again.check_that_nothing_stays()


def test_a_killed_store_finds_what_came_after_the_checkpoint(world: StoreWorld) -> None:
    world.publish(bytes(1_000))
    world.commit(checkpoint=True)
    for _ in range(8):
        world.publish(bytes(1_000))
        world.commit()
    after = killed(world)
    assert len(after.entries) == 9


def test_a_killed_store_that_never_had_a_checkpoint_finds_everything(world: StoreWorld) -> None:
    names = [world.publish(bytes(1_000))[0] for _ in range(9)]
    world.commit()
    world.ack(names[4])
    world.commit()
    after = killed(world)
    assert set(after.entries) == set(names) - {names[4]}


def test_a_damaged_state_only_means_more_to_read(
    world: StoreWorld, caplog: pytest.LogCaptureFixture
) -> None:
    names = three_messages(world)
    world.commit(checkpoint=True)
    state = bytearray(world.journal.state or b"")
    state[9] ^= 1
    world.journal.state = bytes(state)
    run(world.store.close())
    store = MessageStore(world.directory, RealDisk(), world.workers)
    run(store.open(bytes(state)))
    assert all(store.seen(world.entries[n].file, world.entries[n].offset) for n in names)
    run(store.recovered())
    store.begin_chores()
    assert run(store.read(*world.entries[names[1]].location)).body == b"B" * 1_000
    assert "checkpoint is damaged" in log_lines(caplog)


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_an_ack_in_one_of_two_queues_keeps_the_body_for_the_other(
    world: StoreWorld, has_checkpoint: bool
) -> None:
    """S27: and when the other acknowledges it too, after the restart, the file goes."""
    pairs = [world.publish(bytes([number]) * 2_000, queues=2) for number in range(3)]
    world.commit(checkpoint=has_checkpoint)
    world.publish(bytes(FILE_BYTES))
    world.commit()
    for first, _ in pairs:
        world.ack(first)
    world.commit()
    after = killed(world)
    after.settle()
    assert 0 in after.files()
    after.check()
    for _, second in pairs:
        after.ack(second)
    after.commit()
    after.settle()
    assert 0 not in after.files()


def test_a_body_whose_entries_never_became_safe_is_garbage(world: StoreWorld) -> None:
    """The power went between writing the body and writing the entry."""
    world.publish(bytes(1_000))
    world.commit()
    world.publish(bytes(FILE_BYTES))
    world.commit()
    world.journal.records.pop()
    world.entries.clear()
    after = killed(world)
    for name in list(after.entries):
        after.ack(name)
    after.commit()
    after.settle()
    assert after.files() == {}


def test_a_body_of_which_some_entries_became_safe_loses_the_others(world: StoreWorld) -> None:
    world.publish(bytes(FILE_BYTES), queues=3)
    world.commit()
    world.journal.records.pop()
    after = killed(world)
    assert len(after.entries) == 2
    for name in list(after.entries):
        after.ack(name)
    after.commit()
    after.settle()
    assert after.files() == {}


@pytest.mark.parametrize("cut", [1, 500, 1_000, 1_030])
def test_a_torn_last_record_leaves_those_before_it(world: StoreWorld, cut: int) -> None:
    """S10"""
    names = three_messages(world)
    path = path_of(world, names[0])
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - cut)
    world.journal.doubtful = {names[2]}
    after = killed(world)
    assert set(after.entries) == set(names[:2])
    assert path.stat().st_size == after.store._table.files[0].size, "the tear is cut off"
    assert after.store.counters.records_corrupt == 0, "a torn tail is nothing unusual"


def test_a_last_record_whose_body_did_not_arrive_is_torn_too(world: StoreWorld) -> None:
    names = three_messages(world)
    path = path_of(world, names[0])
    content = path.read_bytes()
    path.write_bytes(content[:-600] + bytes(600))
    world.journal.doubtful = {names[2]}
    after = killed(world)
    assert set(after.entries) == set(names[:2])


def test_after_a_tear_nothing_is_appended_to_that_file(world: StoreWorld) -> None:
    """The journal may still name what was torn off; it must never be something else."""
    names = three_messages(world)
    path = path_of(world, names[0])
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 10)
    world.journal.doubtful = {names[2]}
    after = killed(world)
    after.publish(b"D" * 1_000)
    after.commit()
    torn = world.entries[names[2]]
    assert all(entry.location != torn.location for entry in after.entries.values())
    killed(after)


def test_a_number_is_not_used_again_though_its_file_vanished(world: StoreWorld) -> None:
    names = three_messages(world)
    path_of(world, names[0]).unlink()
    world.journal.doubtful = set(names)
    after = killed(world)
    assert not after.entries
    (name,) = after.publish(bytes(10))
    after.commit()
    assert after.entries[name].file > world.entries[names[0]].file


@pytest.mark.parametrize("offset_in_record", [0, 4, 8, 12, 20, 28, 31, 200, 1_030])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_flipped_bit_costs_the_record_it_hit(
    world: StoreWorld, offset_in_record: int, victim: int
) -> None:
    """Found when walking or when reading; reported with file and offset; the rest is there."""
    names = three_messages(world)
    entry = world.entries[names[victim]]
    FaultyDisk().flip_bit(path_of(world, names[victim]), entry.offset + offset_in_record, 3)
    world.journal.doubtful = {names[victim]}
    after = killed(world)
    assert set(after.entries) == set(names) - {names[victim]}


def test_a_flipped_bit_is_found_when_the_message_is_read(
    world: StoreWorld, caplog: pytest.LogCaptureFixture
) -> None:
    names = three_messages(world)
    entry = world.entries[names[1]]
    FaultyDisk().flip_bit(path_of(world, names[1]), entry.offset + 300)
    with pytest.raises(CorruptRecord, match=f"0.rdq, offset {entry.offset}: wrong checksum"):
        world.read(names[1])
    assert world.store.counters.records_corrupt == 1
    assert f"0.rdq, offset {entry.offset}" in log_lines(caplog)
    assert world.read(names[0]).body == b"A" * 1_000
    assert world.read(names[2]).body == b"C" * 1_000


def test_damage_in_the_middle_is_counted_and_reported(
    world: StoreWorld, caplog: pytest.LogCaptureFixture
) -> None:
    names = three_messages(world)
    entry = world.entries[names[1]]
    FaultyDisk().flip_bit(path_of(world, names[1]), entry.offset + 2)
    world.journal.doubtful = {names[1]}
    after = killed(world)
    assert after.store.counters.records_corrupt == 1
    assert f"0.rdq, offset {entry.offset}: 1038 damaged bytes" in log_lines(caplog)


def test_a_client_cannot_forge_a_record_for_the_search_behind_damage(world: StoreWorld) -> None:
    """Its body holds what looks like a record that swallows the next message."""
    entry_offset = 20
    header = bytearray(32)
    header[0:4] = (3_000).to_bytes(4, "little")
    header[8:12] = (1).to_bytes(4, "little")
    header[28:32] = crc32c(bytes(header[:28])).to_bytes(4, "little")
    first = world.publish_to_queue(make_message(b"\xff" + bytes(header) + bytes(500)))
    others = [world.publish(bytes(3_000))[0] for _ in range(2)]
    world.commit()
    assert world.entries[first].offset == entry_offset
    FaultyDisk().flip_bit(path_of(world, first), entry_offset)
    world.journal.doubtful = {first}
    after = killed(world)
    assert set(after.entries) == set(others)


def test_a_truncated_file_is_reported(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    names = three_messages(world)
    world.close()
    path = path_of(world, names[0])
    with path.open("r+b") as file:
        file.truncate(1_500)
    store = MessageStore(world.directory, RealDisk(), world.workers)
    run(store.open(world.journal.state))
    run(store.recovered())
    store.begin_chores()
    assert "0.rdq has 1500 bytes, of 3134 written" in log_lines(caplog)
    assert run(store.read(*world.entries[names[0]].location)).body == b"A" * 1_000
    with pytest.raises(CorruptRecord):
        run(store.read(*world.entries[names[2]].location))


def test_a_file_that_is_gone_is_reported(
    world: StoreWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """A backup that was copied in part."""
    names = three_messages(world)
    world.close()
    path_of(world, names[0]).unlink()
    store = MessageStore(world.directory, RealDisk(), world.workers)
    run(store.open(world.journal.state))
    run(store.recovered())
    store.begin_chores()
    assert "0.rdq is gone, with 3 messages" in log_lines(caplog)
    with pytest.raises(CorruptRecord):
        run(store.read(*world.entries[names[2]].location))


def test_a_file_of_a_later_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    header = b"WRDQ" + (2).to_bytes(4, "little") + bytes(8)
    (tmp_path / "5.rdq").write_bytes(header + crc32c(header).to_bytes(4, "little") + b"future")
    (tmp_path / "3.rdq").write_bytes(b"anything")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    store = MessageStore(tmp_path, RealDisk(), StepWorkers())
    with pytest.raises(NewerStoreFormat, match=r"5\.rdq is written in format 2"):
        run(store.open(None))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_that_is_no_store_file_is_reported(
    tmp_path: Path, workers: StepWorkers, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "0.rdq").write_bytes(b"\0" * 5_000)
    world = StoreWorld(tmp_path, workers=workers).open()
    assert "0.rdq does not begin as a file of a message store" in log_lines(caplog)
    world.publish(bytes(10))
    world.commit()


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "x.rdq").write_text("mine too")
    world = StoreWorld(tmp_path).open()
    world.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "x.rdq"]


def test_a_deleted_file_that_comes_back_is_deleted_again(world: StoreWorld) -> None:
    """Deletions are not synced: a power cut may undo them."""
    names = [world.publish(bytes(FILE_BYTES))[0] for _ in range(2)]
    world.commit()
    copy = path_of(world, names[0]).read_bytes()
    world.ack(names[0])
    world.commit()
    world.settle()
    world.commit(checkpoint=True)
    path = world.directory / "0.rdq"
    assert not path.exists()
    path.write_bytes(copy)
    killed(world)
    assert not path.exists()


def test_what_is_lost_with_the_page_cache_was_not_promised(
    tmp_path: Path, workers: StepWorkers
) -> None:
    for seed in range(30):
        disk = FaultyDisk(seed)
        world = StoreWorld(tmp_path / str(seed), disk, workers=workers).open()
        for number in range(6):
            world.publish(random.Random(number).randbytes(900))
            if number % 2:
                world.commit(checkpoint=number == 3)
        world.publish(bytes(700))
        world.take()
        for descriptor, pieces in world.writes:
            disk.append(descriptor, pieces)
        world.crash(random.Random(seed))
        after = world.reopened()
        assert len(after.entries) >= 6


def test_a_new_store_has_no_state_and_no_files(tmp_path: Path) -> None:
    world = StoreWorld(tmp_path / "a" / "b", journal=Journal()).open()
    assert world.files() == {}
    assert world.store.counters.records_corrupt == 0
