"""Committers on a disk that fails: slow, full, short, dead."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from warren.storage.disk.committer import Batch, CommitFailed, ThreadCommitter


class Bench:
    """A committer, its disk and two files."""

    def __init__(self, directory: Path) -> None:
        self.disk = FaultyDisk()
        self.committer = ThreadCommitter(self.disk, asyncio.get_running_loop())
        self.journal_path = directory / "0.jif"
        self.journal = self.disk.open(self.journal_path, create=True)
        self.store = self.disk.open(directory / "0.rdq", create=True)
        self.disk.sync_directory(directory)

    async def commit(self, *pieces: bytes) -> OSError | None:
        done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        batch = Batch([(self.store, [b"body"]), (self.journal, pieces)], [self.store, self.journal])
        self.committer.submit(batch, done.set_result)
        return await done


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.committer.close()
    bench.disk.close(bench.journal)
    bench.disk.close(bench.store)


async def test_a_slow_disk_delays_the_answer_and_not_the_loop(bench: Bench) -> None:
    bench.disk.sync_delay_s = 0.1
    start = time.monotonic()
    commit = asyncio.create_task(bench.commit(b"x"))
    turns = 0
    while not commit.done():
        await asyncio.sleep(0.005)
        turns += 1
    assert await commit is None
    assert time.monotonic() - start >= 0.2  # two files
    assert turns >= 3


async def test_nothing_is_synced_before_everything_is_written(bench: Bench) -> None:
    begun = len(bench.disk.changes)
    assert await bench.commit(b"x") is None
    assert bench.disk.changes[begun:] == [
        "append 0.rdq",
        "append 0.jif",
        "sync 0.rdq",
        "sync 0.jif",
    ]


async def test_a_full_disk_is_told_and_served_again_when_there_is_room(bench: Bench) -> None:
    bench.disk.room_bytes = 6
    error = await bench.commit(b"abc", b"def")
    assert isinstance(error, CommitFailed)
    assert (error.errno, error.step) == (errno.ENOSPC, "write")
    assert error.descriptor == bench.journal
    assert bench.journal_path.read_bytes() == b"ab"  # a part of a batch is left, for its owner
    bench.disk.room_bytes = None
    assert await bench.commit(b"ghi") is None


async def test_a_failed_sync_is_told_and_not_tried_again(bench: Bench) -> None:
    bench.disk.fail("sync", on=".rdq")
    begun = len(bench.disk.changes)
    error = await bench.commit(b"x")
    assert isinstance(error, CommitFailed)
    assert (error.errno, error.step, error.descriptor) == (errno.EIO, "sync", bench.store)
    assert [c for c in bench.disk.changes[begun:] if c.startswith("sync")] == ["sync 0.rdq"]


async def test_short_writes_are_finished(bench: Bench) -> None:
    bench.disk.append_bytes_max = 2
    assert await bench.commit(b"abc", b"defgh") is None
    assert bench.journal_path.read_bytes() == b"abcdefgh"


async def test_what_was_answered_survives_a_crash_and_later_batches_fail(bench: Bench) -> None:
    for number in range(20):
        assert await bench.commit(b"%d," % number) is None
    bench.disk.crash()
    assert bench.journal_path.read_bytes() == b"".join(b"%d," % number for number in range(20))
    error = await bench.commit(b"late")
    assert isinstance(error, CommitFailed)
    assert error.errno == errno.EIO


async def test_a_bug_in_the_disk_is_a_failure_and_not_a_silence(bench: Bench) -> None:
    class Buggy(FaultyDisk):
        def sync(self, descriptor: int) -> None:
            raise KeyError(descriptor)

    committer = ThreadCommitter(Buggy(), asyncio.get_running_loop())
    done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    committer.submit(Batch([], [bench.journal]), done.set_result)
    error = await done
    assert isinstance(error, CommitFailed)
    assert isinstance(error.__cause__, KeyError)
    await committer.close()
