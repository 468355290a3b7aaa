"""What every committer promises, on a real disk, on both event loops."""

from __future__ import annotations

import asyncio
import errno
import gc
import mmap
import os
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from warren.storage.disk.committer import (
    Batch,
    CommitFailed,
    Committer,
    NativeCommitter,
    ThreadCommitter,
    has_native_committer,
    make_committer,
)
from warren.storage.disk.files import PIECES_MAX, Buffer, RealDisk

KINDS: dict[str, Callable[[asyncio.AbstractEventLoop], Committer]] = {
    "thread": lambda loop: ThreadCommitter(RealDisk(), loop),
}
if has_native_committer():
    KINDS["native"] = NativeCommitter


@pytest.fixture(params=sorted(KINDS))
async def committer(request: pytest.FixtureRequest) -> AsyncIterator[Committer]:
    committer = KINDS[request.param](asyncio.get_running_loop())
    yield committer
    await committer.close()


class Log:
    """A file to commit to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = RealDisk().open(path, create=True)

    def content(self) -> bytes:
        return self.path.read_bytes()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "log")
    yield log
    os.close(log.descriptor)


async def commit(committer: Committer, batch: Batch) -> OSError | None:
    done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    committer.submit(batch, done.set_result)
    return await done


async def test_pieces_are_written_in_order(committer: Committer, log: Log) -> None:
    pieces: list[Buffer] = [b"one ", memoryview(b"xtwo x")[1:5], b"", bytearray(b"three")]
    assert await commit(committer, Batch([(log.descriptor, pieces)], [log.descriptor])) is None
    assert log.content() == b"one two three"


async def test_batches_follow_each_other(committer: Committer, log: Log) -> None:
    for number in range(300):
        batch = Batch([(log.descriptor, [b"%d," % number])], [])
        assert await commit(committer, batch) is None
    assert log.content() == b"".join(b"%d," % number for number in range(300))


async def test_several_files_are_written_in_one_batch(
    committer: Committer, log: Log, tmp_path: Path
) -> None:
    other = Log(tmp_path / "other")
    writes = [(log.descriptor, [b"a"]), (other.descriptor, [b"b"]), (log.descriptor, (b"c",))]
    batch = Batch(list(writes), [log.descriptor, other.descriptor])
    assert await commit(committer, batch) is None
    assert (log.content(), other.content()) == (b"ac", b"b")
    os.close(other.descriptor)


async def test_what_has_a_place_is_written_there(
    committer: Committer, log: Log, tmp_path: Path
) -> None:
    """After what is appended in the same batch, piece by piece, and synced with it."""
    ahead = RealDisk().create_ahead(tmp_path / "ahead")
    os.pwrite(ahead, bytes(20), 0)
    pieces: list[Buffer] = [b"at ", memoryview(b"xfivex")[1:5], b"", bytearray(b"!")]
    batch = Batch([(log.descriptor, [b"end"])], [log.descriptor, ahead], [(ahead, 5, pieces)])
    assert await commit(committer, batch) is None
    many = [b"%d;" % number for number in range(2 * PIECES_MAX + 1)]
    assert await commit(committer, Batch(placed=[(ahead, 13, many)])) is None
    assert (tmp_path / "ahead").read_bytes() == bytes(5) + b"at five!" + b"".join(many)
    assert log.content() == b"end"
    error = await commit(committer, Batch(placed=[(-1, 0, [b"lost"])]))
    assert isinstance(error, CommitFailed)
    assert (error.errno, error.step, error.descriptor) == (errno.EBADF, "write", -1)
    os.close(ahead)


async def test_more_pieces_than_the_kernel_takes_at_once(committer: Committer, log: Log) -> None:
    pieces = [b"%d;" % number for number in range(3 * PIECES_MAX + 1)]
    assert await commit(committer, Batch([(log.descriptor, pieces)], [log.descriptor])) is None
    assert log.content() == b"".join(pieces)


async def test_an_empty_batch_is_done_at_once(committer: Committer, log: Log) -> None:
    assert await commit(committer, Batch()) is None
    assert await commit(committer, Batch([(log.descriptor, [])], [])) is None
    assert log.content() == b""


async def test_done_comes_on_the_loop_and_never_from_within_submit(committer: Committer) -> None:
    threads: list[int] = []
    committer.submit(Batch(), lambda _: threads.append(threading.get_ident()))
    assert threads == []
    assert not committer.is_idle
    await committer.close()
    assert threads == [threading.get_ident()]


async def test_done_may_submit_the_next_batch(committer: Committer, log: Log) -> None:
    finished = asyncio.Event()
    left = 50

    def submit(error: OSError | None) -> None:
        nonlocal left
        assert error is None
        assert committer.is_idle
        left -= 1
        if left == 0:
            finished.set()
        else:
            committer.submit(Batch([(log.descriptor, [b"x"])], [log.descriptor]), submit)

    submit(None)
    await finished.wait()
    assert log.content() == b"x" * 49


async def test_a_second_batch_is_refused_while_one_is_in_flight(committer: Committer) -> None:
    committer.submit(Batch(), lambda _: None)
    with pytest.raises(AssertionError):
        committer.submit(Batch(), lambda _: None)


async def test_a_failed_write_names_the_file_and_ends_the_batch(
    committer: Committer, log: Log, tmp_path: Path
) -> None:
    (tmp_path / "read-only").touch()
    refusing = os.open(tmp_path / "read-only", os.O_RDONLY)
    writes = [(log.descriptor, [b"a"]), (refusing, [b"b"]), (log.descriptor, [b"c"])]
    error = await commit(committer, Batch(list(writes), [log.descriptor]))
    assert isinstance(error, CommitFailed)
    assert (error.errno, error.step, error.descriptor) == (errno.EBADF, "write", refusing)
    assert log.content() == b"a"
    os.close(refusing)


async def test_a_failed_sync_names_the_file(committer: Committer, log: Log) -> None:
    reading, writing = os.pipe()
    error = await commit(
        committer, Batch([(log.descriptor, [b"a"])], [log.descriptor, writing, log.descriptor])
    )
    assert isinstance(error, CommitFailed)
    assert (error.errno, error.step, error.descriptor) == (errno.EINVAL, "sync", writing)
    os.close(reading)
    os.close(writing)


async def test_it_goes_on_after_a_failure(committer: Committer, log: Log) -> None:
    assert await commit(committer, Batch([(-1, [b"lost"])], [])) is not None
    assert await commit(committer, Batch([(log.descriptor, [b"kept"])], [log.descriptor])) is None
    assert log.content() == b"kept"


async def test_a_short_write_goes_on_where_it_stopped(committer: Committer) -> None:
    """A pipe takes 64 KiB at a time and the rest as it is read: every write to it is short."""
    reading, writing = os.pipe()
    pieces = [bytes([number]) * 1_000 for number in range(250)]
    received = bytearray()

    def read_all() -> None:
        while data := os.read(reading, 777):
            received.extend(data)

    reader = asyncio.get_running_loop().run_in_executor(None, read_all)
    assert await commit(committer, Batch([(writing, pieces)], [])) is None
    os.close(writing)
    await reader
    assert received == b"".join(pieces)
    os.close(reading)


async def test_buffers_live_until_the_batch_is_done_and_no_longer(committer: Committer) -> None:
    class Piece(bytearray):
        pass

    reading, writing = os.pipe()
    filling = bytes(65_536)
    piece = Piece(b"x" * 65_536)
    gone = weakref.ref(piece)
    done = asyncio.Event()
    # The pipe is full after the first piece, so the thread waits within the batch.
    committer.submit(Batch([(writing, [filling, piece])], []), lambda _: done.set())
    del piece
    gc.collect()
    assert gone() is not None
    assert await asyncio.to_thread(os.read, reading, 65_536) == filling
    assert await asyncio.to_thread(os.read, reading, 65_536) == b"x" * 65_536
    await done.wait()
    gc.collect()
    assert gone() is None
    os.close(reading)
    os.close(writing)


async def test_a_piece_that_is_no_buffer_fails_and_harms_nothing(
    committer: Committer, log: Log
) -> None:
    pinned = bytearray(b"free again")
    with pytest.raises(TypeError):
        committer.submit(Batch([(log.descriptor, [pinned, "text"])]), lambda _: None)  # type: ignore[list-item]
    pinned.extend(b", and may grow")
    assert committer.is_idle
    assert await commit(committer, Batch([(log.descriptor, [b"a"])], [])) is None
    assert log.content() == b"a"


async def test_close_waits_for_what_is_in_flight_and_what_follows_it(
    committer: Committer, log: Log
) -> None:
    results: list[OSError | None] = []

    def first_done(error: OSError | None) -> None:
        results.append(error)
        committer.submit(Batch([(log.descriptor, [b"b"])], [log.descriptor]), results.append)

    committer.submit(Batch([(log.descriptor, [b"a"])], [log.descriptor]), first_done)
    await asyncio.gather(committer.close(), committer.close())
    assert results == [None, None]
    assert log.content() == b"ab"
    with pytest.raises(AssertionError):
        committer.submit(Batch(), lambda _: None)


def threads() -> set[str]:
    """All of the process, also those that Python does not know."""
    return set(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="cannot look")
async def test_close_leaves_no_thread_and_no_descriptor() -> None:
    loop = asyncio.get_running_loop()
    for kind in KINDS.values():
        before, open_before = threads(), len(os.listdir("/proc/self/fd"))
        committer = kind(loop)
        assert threads() - before
        await commit(committer, Batch())
        await committer.close()
        await committer.close()
        del committer
        gc.collect()
        while threads() - before:  # a joined thread is listed a moment longer
            time.sleep(0.001)  # noqa: ASYNC251
        assert len(os.listdir("/proc/self/fd")) == open_before


@pytest.mark.skipif("native" not in KINDS, reason="nothing compiled")
async def test_the_native_thread_commits_while_python_holds_the_lock(log: Log) -> None:
    """The bytes arrive in memory mapped from the file though the interpreter is never let go."""
    os.truncate(log.path, mmap.PAGESIZE)
    overwriting = os.open(log.path, os.O_RDWR)
    page = mmap.mmap(overwriting, mmap.PAGESIZE)
    committer = NativeCommitter(asyncio.get_running_loop())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1_000)
    try:
        committer.submit(Batch([(overwriting, [b"written"])], [overwriting]), lambda _: None)
        deadline = time.monotonic() + 10
        while page[:7] != b"written" and time.monotonic() < deadline:
            pass
        assert page[:7] == b"written"
    finally:
        sys.setswitchinterval(interval)
    await committer.close()
    page.close()
    os.close(overwriting)


@pytest.mark.skipif("native" not in KINDS, reason="nothing compiled")
def test_a_native_thread_dropped_in_the_middle_finishes_its_batch(log: Log) -> None:
    from warren.storage.disk._native_committer import CommitThread

    for number in range(50):
        thread = CommitThread()
        thread.start([(log.descriptor, [b"%d," % number])], [])
        del thread
    assert log.content() == b"".join(b"%d," % number for number in range(50))


@pytest.mark.skipif("native" not in KINDS, reason="nothing compiled")
def test_the_native_thread_takes_one_batch_at_a_time() -> None:
    from warren.storage.disk._native_committer import CommitThread

    thread = CommitThread()
    thread.start([], [])
    with pytest.raises(RuntimeError):
        thread.start([], [])
    while thread.collect() is None:
        pass
    assert thread.collect() is None
    thread.stop()
    with pytest.raises(RuntimeError):
        thread.start([], [])


async def test_the_fastest_committer_that_serves_the_disk_is_chosen() -> None:
    class OtherDisk(RealDisk):
        pass

    loop = asyncio.get_running_loop()
    plain, other = make_committer(RealDisk(), loop), make_committer(OtherDisk(), loop)
    assert isinstance(plain, NativeCommitter) is has_native_committer()
    assert isinstance(other, ThreadCommitter)
    await plain.close()
    await other.close()


async def test_without_a_compiled_thread_a_python_thread_serves(
    monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    monkeypatch.setitem(sys.modules, "warren.storage.disk._native_committer", None)
    committer = make_committer(RealDisk(), asyncio.get_running_loop())
    assert isinstance(committer, ThreadCommitter)
    assert await commit(committer, Batch([(log.descriptor, [b"a"])], [log.descriptor])) is None
    assert log.content() == b"a"
    await committer.close()
