"""What an index finds after a stop, clean or not, and after harm to its files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from index_world import TRANSIENT, IndexWorld
from log_lines import log_lines
from warren.storage.index.adoption import RecoveredQueue
from warren.storage.index.index_format import NewerFormat
from warren.storage.index.states import JOURNALED


async def opened(directory: Path) -> tuple[IndexWorld, dict[str, RecoveredQueue]]:
    world = IndexWorld(directory)
    return world, await world.open()


async def contents(world: IndexWorld, queue: RecoveredQueue) -> dict[int, bytes]:
    """All messages of a queue, those of segments first; in order."""
    entries = await world.read(queue.name, end=queue.next_sequence)
    in_segments = {queued.sequence for queued in entries}
    entries += [queued for queued in queue.journaled if queued.sequence not in in_segments]
    sequences = [queued.sequence for queued in entries]
    assert sequences == sorted(sequences)
    return {
        queued.sequence: b"" if queued.message is None else queued.message.body
        for queued in entries
    }


@pytest.fixture
async def world(tmp_path: Path) -> IndexWorld:
    world = IndexWorld(tmp_path / "vhost")
    await world.open()
    return world


async def test_a_new_vhost_has_nothing_and_says_so(world: IndexWorld) -> None:
    assert world.index.queues == {}
    assert not world.index.findings.problems
    assert (world.directory / ".vhost").read_text() == "/"
    await world.close()


async def test_after_a_clean_stop_all_is_there_and_new(world: IndexWorld) -> None:
    """S7."""
    for number in range(3_000):
        world.publish(body=b"%d" % number)
    await world.shorten_journal()
    for number in range(3_000, 3_100):
        world.publish(body=b"%d" % number)
    await world.close()
    again, recovered = await opened(world.directory)
    assert again.index.findings.is_clean
    queue = recovered["q"]
    assert [segment.count for segment in queue.segments] == [2_048, 952]
    assert await contents(again, queue) == {n: b"%d" % n for n in range(3_100)}
    assert not any(queued.redelivered for queued in queue.journaled)
    assert not any(queued.redelivered for queued in await again.read())
    assert all(queued.state == JOURNALED for queued in queue.journaled)
    await again.close()


async def test_after_a_crash_anybody_may_have_had_anything(world: IndexWorld) -> None:
    """S6: and nothing that was confirmed is missing."""
    for number in range(2_500):
        world.publish(body=b"%d" % number)
    await world.shorten_journal()
    for number in range(2_500, 2_600):
        world.publish(body=b"%d" % number)
    await world.index.flush()
    await world.abandon()
    again, recovered = await opened(world.directory)
    assert not again.index.findings.is_clean
    assert await contents(again, recovered["q"]) == {n: b"%d" % n for n in range(2_600)}
    assert all(queued.redelivered for queued in recovered["q"].journaled)
    assert all(queued.redelivered for queued in await again.read())
    await again.close()


async def test_who_had_what_before_a_clean_stop_is_known_after_it(world: IndexWorld) -> None:
    for _ in range(10):
        world.publish()
    await world.shorten_journal()
    for _ in range(10):
        world.publish()
    await world.index.close({"q": [(2, 3), (12, 1)]})
    await world.abandon()
    again, recovered = await opened(world.directory)
    entries = await again.read(end=10) + recovered["q"].journaled
    assert [queued.sequence for queued in entries if queued.redelivered] == [2, 3, 4, 12]
    await again.close()
    once_more, recovered = await opened(world.directory)
    entries = await once_more.read(end=10) + recovered["q"].journaled
    assert [queued.sequence for queued in entries if queued.redelivered] == [2, 3, 4, 12]
    await once_more.close()


async def test_a_crash_after_a_clean_start_counts_as_a_crash(world: IndexWorld) -> None:
    world.publish()
    await world.close()
    again, _ = await opened(world.directory)
    assert again.index.findings.is_clean
    await again.abandon()
    once_more, recovered = await opened(world.directory)
    assert not once_more.index.findings.is_clean
    assert recovered["q"].journaled[0].redelivered
    await once_more.close()


@pytest.mark.parametrize("is_clean", [True, False])
async def test_transient_messages_are_gone_after_any_stop(
    world: IndexWorld, is_clean: bool
) -> None:
    """S8."""
    for number in range(20):
        world.publish(body=b"%d" % number, properties=TRANSIENT if number % 2 else None)
    world.publish(body=bytes(5_000), properties=TRANSIENT)
    await world.shorten_journal()
    for number in range(21, 30):
        world.publish(body=b"%d" % number, properties=TRANSIENT if number % 2 else None)
    await world.index.flush()
    await (world.close() if is_clean else world.abandon())
    again, recovered = await opened(world.directory)
    expected = [n for n in range(30) if n % 2 == 0 and n != 20]
    assert list(await contents(again, recovered["q"])) == expected
    assert recovered["q"].count == len(expected)
    await again.close()


async def test_numbers_go_on_at_the_next_segment(world: IndexWorld) -> None:
    """S29."""
    for _ in range(2_049):
        world.publish()
    await world.close()
    again, recovered = await opened(world.directory)
    assert recovered["q"].next_sequence == 4_096
    await again.close()


@pytest.mark.parametrize("is_segmented", [False, True])
async def test_where_the_numbers_of_a_mirror_begin_is_known_until_one_may_have_been_forgotten(
    world: IndexWorld, is_segmented: bool
) -> None:
    """What is lower can be sent to it: nothing on the disk is about it. Doubt counts as that."""
    world.begin_at(200)
    for _ in range(30):
        world.publish()
    if is_segmented:
        await world.shorten_journal()
    await world.close()
    again, recovered = await opened(world.directory)
    assert (recovered["q"].used_from, recovered["q"].used_below) == (200, 230)
    first = (recovered["q"].journaled or await again.read())[0]
    again.queue().ack([first])
    await again.shorten_journal()
    await again.close()
    last, recovered = await opened(world.directory)
    # A segment may have an acknowledgement of what it had; it never had what went before.
    assert recovered["q"].used_from == (0 if is_segmented else 201)
    await last.close()


async def test_acks_of_any_time_hold(world: IndexWorld) -> None:
    published = [world.publish(body=b"%d" % n) for n in range(100)]
    await world.index.flush()
    world.queue().ack(published[:10])
    await world.shorten_journal()
    world.queue().ack(published[10:20])
    world.queue().ack(published[50:51])
    await world.index.flush()
    await world.abandon()
    again, recovered = await opened(world.directory)
    assert list(await contents(again, recovered["q"])) == [*range(20, 50), *range(51, 100)]
    assert recovered["q"].count == 79
    await again.close()


async def test_a_purge_and_a_deletion_hold(world: IndexWorld) -> None:
    for name in ("purged", "deleted", "kept"):
        for _ in range(10):
            world.publish(name)
        world.publish(name, body=bytes(10_000))
    await world.shorten_journal()
    world.queue("purged").ack_range(0, 11)
    await world.index.delete_queue("deleted")
    await world.index.flush()
    await world.abandon()
    again, recovered = await opened(world.directory)
    assert {name: queue.count for name, queue in recovered.items()} == {"purged": 0, "kept": 11}
    await again.house_is_kept()
    assert len(list(again.directory.rglob("*.idx"))) == 1
    await again.close()


@pytest.mark.parametrize("harm", ["missing", "damaged", "empty", "cut"])
async def test_without_a_checkpoint_the_segments_tell(world: IndexWorld, harm: str) -> None:
    published = [world.publish(body=b"%d" % n) for n in range(3_000)]
    large = world.publish(body=b"x" * 5_000)
    await world.shorten_journal()
    world.queue().ack(published[:100])
    await world.shorten_journal()
    world.queue().ack(published[100:200])
    for number in range(3_001, 3_050):
        world.publish(body=b"%d" % number)
    await world.index.flush()
    await world.abandon()
    path = world.directory / "checkpoint"
    match harm:
        case "missing":
            path.unlink()
        case "damaged":
            FaultyDisk().flip_bit(path, 40)
        case "empty":
            path.write_bytes(b"")
        case _:
            path.write_bytes(path.read_bytes()[:-1])
    again, recovered = await opened(world.directory)
    assert again.index.findings.checkpoint_problem
    assert again.index.findings.segments_read == 2
    found = await contents(again, recovered["q"])
    assert list(found) == list(range(200, 3_050))
    assert recovered["q"].count == len(found)
    message = await again.bodies.read(large.store_file, large.store_offset, 5_000)
    assert message.body == b"x" * 5_000
    await again.close()
    once_more, recovered = await opened(world.directory)
    assert recovered["q"].count == len(found)
    assert once_more.index.findings.is_clean
    await once_more.close()


@pytest.mark.parametrize("zeros_behind", [0, 3, 10_000])
async def test_a_torn_end_of_the_journal_costs_what_is_torn(
    world: IndexWorld, zeros_behind: int
) -> None:
    """S10: with what was written ahead behind it, or without."""
    for number in range(10):
        world.publish(body=b"%d" % number)
    await world.index.flush()
    await world.abandon()
    path = max((world.directory / "journal").iterdir(), key=lambda p: int(p.stem))
    records = path.read_bytes().rstrip(b"\0")
    assert path.stat().st_size > len(records) + 10_000, "zeros were written ahead"
    path.write_bytes(records[:-20] + bytes(zeros_behind))
    again, recovered = await opened(world.directory)
    assert list(await contents(again, recovered["q"])) == list(range(9))
    assert 0 < again.index.findings.torn_bytes < 60, "zeros are no part of it"
    assert again.index.findings.problems == []
    await again.close()


@pytest.mark.parametrize("zeros", [None, 0, 5, 100_000])
async def test_zeros_at_the_end_of_a_journal_file_are_no_damage(
    world: IndexWorld, zeros: int | None
) -> None:
    """As many as there are, others, or none, as in a file of the version before."""
    for number in range(10):
        world.publish(body=b"%d" % number)
    await world.index.flush()
    await world.abandon()
    path = max((world.directory / "journal").iterdir(), key=lambda p: int(p.stem))
    if zeros is not None:
        path.write_bytes(path.read_bytes().rstrip(b"\0") + bytes(zeros))
    for _ in range(2):  # the second time another file comes after it
        again, recovered = await opened(world.directory)
        assert list(await contents(again, recovered["q"])) == list(range(10))
        assert again.index.findings.torn_bytes == 0
        assert again.index.findings.problems == []
        await again.abandon()


async def test_a_clean_stop_leaves_no_zeros(world: IndexWorld) -> None:
    world.publish(body=b"last")
    await world.index.flush()
    await world.close()
    path = max((world.directory / "journal").iterdir(), key=lambda p: int(p.stem))
    assert path.stat().st_size < 300


async def test_a_flipped_bit_in_the_journal_costs_one_message(world: IndexWorld) -> None:
    for number in range(10):
        world.publish(body=b"<%d>" % number * 10)
    await world.index.flush()
    await world.abandon()
    path = max((world.directory / "journal").iterdir(), key=lambda p: int(p.stem))
    FaultyDisk().flip_bit(path, path.read_bytes().index(b"<4><4>"))
    again, recovered = await opened(world.directory)
    assert list(await contents(again, recovered["q"])) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert again.index.findings.damaged_stretches == 1
    assert "damaged" in again.index.findings.problems[0]
    await again.close()


async def test_a_flipped_bit_in_a_segment_costs_one_message(
    world: IndexWorld, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(100):
        world.publish(body=b"<%d>" % number * 10)
    await world.shorten_journal()
    await world.close()
    (path,) = world.directory.rglob("*.idx")
    FaultyDisk().flip_bit(path, path.read_bytes().index(b"<50><50>"))
    again, recovered = await opened(world.directory)
    assert recovered["q"].count == 100
    assert list(await contents(again, recovered["q"])) == [*range(50), *range(51, 100)]
    assert " messages=1 " in log_lines(caplog)
    await again.close()
    once_more, recovered = await opened(world.directory)
    assert recovered["q"].count == 99, "a loss is counted once"
    await once_more.close()


async def test_a_missing_segment_costs_its_messages(
    world: IndexWorld, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5_000):
        world.publish()
    await world.shorten_journal()
    await world.close()
    again, recovered = await opened(world.directory)
    next(world.directory.rglob("1.idx")).unlink()  # after it was seen to be there
    found = await contents(again, recovered["q"])
    assert list(found) == [*range(2_048), *range(4_096, 5_000)]
    assert "messages=2048" in log_lines(caplog)
    await again.close()


async def test_a_missing_body_costs_its_message(world: IndexWorld) -> None:
    world.publish(body=bytes(5_000))
    world.publish(body=b"small")
    await world.index.flush()
    await world.abandon()
    for path in (world.directory / "msg_store_persistent").iterdir():
        path.unlink()
    again, recovered = await opened(world.directory)
    assert list(await contents(again, recovered["q"])) == [1]
    assert again.index.findings.lost_bodies == 1
    await again.close()


@pytest.mark.parametrize("file", ["checkpoint", "journal", "segment"])
async def test_a_newer_format_is_refused_and_nothing_is_touched(
    world: IndexWorld, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.close()
    with monkeypatch.context() as later:
        later.setattr("warren.storage.index.index_format.VERSION", 2)
        if file == "checkpoint":
            later.setattr("warren.storage.index.checkpoint.VERSION", 2)
        newer, _ = await opened(world.directory)
        newer.publish()
        await newer.shorten_journal()
        await newer.close()
    if file != "checkpoint":
        (world.directory / "checkpoint").unlink()
    if file == "segment":
        shutil.rmtree(world.directory / "journal")
    before = {path: path.read_bytes() for path in world.directory.rglob("*") if path.is_file()}
    refused = IndexWorld(world.directory)
    with pytest.raises(NewerFormat, match="format 2"):
        await refused.open()
    assert before == {
        path: path.read_bytes() for path in world.directory.rglob("*") if path.is_file()
    }
    await refused.abandon()


async def test_files_that_nobody_knows_are_swept_after_a_crash(world: IndexWorld) -> None:
    world.publish()
    await world.shorten_journal()
    await world.abandon()
    (path,) = world.directory.rglob("*.idx")
    (path.parent / "77.idx").write_bytes(b"left over")
    stranger = world.directory / "queues" / "STRANGER"
    stranger.mkdir()
    (stranger / "0.idx").write_bytes(b"left over")
    again, recovered = await opened(world.directory)
    assert sorted(world.directory.rglob("*.idx")) == [path]
    assert not stranger.exists()
    assert recovered["q"].count == 1
    await again.close()


async def test_expiry_survives(world: IndexWorld) -> None:
    world.publish(expires_at_ms=123_456_789)
    await world.close()
    again, recovered = await opened(world.directory)
    assert recovered["q"].journaled[0].expires_at_ms == 123_456_789
    await again.close()
