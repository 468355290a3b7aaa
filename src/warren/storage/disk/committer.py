"""Group commit: one batch at a time goes to the disk while the loop gathers the next.

**What it gives.** `submit(batch, done)` returns at once; some time later, on the event loop, `done`
is told either None, and then every byte of the batch survives a power cut, or why not. There is
one batch in flight. Whoever has more collects it meanwhile and submits it from `done`, so the batch
grows with the load and the disk never waits:

    loop      encode 1, submit --+   gather 2 ...    +-- done(1), encode 2, submit --+
    thread                       +-- write, sync ----+                               +-- ...

**The naive way** is `run_in_executor`. While the loop runs Python, a Python thread that comes out
of `fdatasync` must wait for the interpreter lock, and waits up to the switch interval (5 ms) before
the loop is even asked to let go; it needs the lock again for each step, and each hand-over costs
both sides. A disk that syncs in 0.1 ms then commits 200 times a second, exactly under load.

**What is done.** `NativeCommitter` has a thread that is no Python thread: it sleeps on an eventfd,
does the system calls from an array of addresses, and signals a second eventfd that the loop watches
(`_native_committer.pyx`). It never takes the lock. `ThreadCommitter` is the same in Python, for
machines without a compiler and for disks that are Python objects, as those of tests are.

**Order, and what failure means.** Writes are done in the order given, those that append before
those that have a place, then the syncs. The first failure ends the batch: nothing after it is
attempted, and nothing of the batch may be taken for safe, though all of it may be there. A file
whose write failed may end in a part of a record, and one whose sync failed is lost for good (see
`disk.py`): the answer names it, the caller leaves it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from warren._pure import PURE
from warren.storage.disk.files import Buffer, Disk, RealDisk, append_all, place_all

if TYPE_CHECKING:
    from warren.storage.disk._native_committer import CommitThread

Done: TypeAlias = Callable[[OSError | None], None]
Step: TypeAlias = Literal["write", "sync"]


class Batch:
    """What must become durable together. The buffers must not change until it is done."""

    def __init__(
        self,
        writes: list[tuple[int, Sequence[Buffer]]] | None = None,
        syncs: list[int] | None = None,
        placed: list[tuple[int, int, Sequence[Buffer]]] | None = None,
    ) -> None:
        self.writes = [] if writes is None else writes
        self.syncs = [] if syncs is None else syncs
        # Descriptor, offset, pieces: written after `writes`, into files that are written ahead.
        self.placed = [] if placed is None else placed


class CommitFailed(OSError):
    """Why a batch is not safe, and which file to leave."""

    def __init__(self, code: int, step: Step, descriptor: int) -> None:
        super().__init__(code, f"{step}: {os.strerror(code)}")
        self.step: Final = step
        self.descriptor: Final = descriptor


class Committer(Protocol):
    """Belongs to one event loop; all methods are called on it."""

    @property
    def is_idle(self) -> bool:
        """Whether `submit` may be called; true again when `done` is."""

    def submit(self, batch: Batch, done: Done) -> None:
        """Write and sync the batch, then tell `done`, never from within this call."""

    async def close(self) -> None:
        """Wait for the batch in flight, and for those its `done` submits; then end the thread."""


class LoopSide:
    """The half of a committer that lives on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._done: Done | None = None
        self._drained: asyncio.Future[None] | None = None
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        return self._done is None

    def submit(self, batch: Batch, done: Done) -> None:
        assert self._done is None, "one batch at a time"
        assert not self._is_closed
        self._start(batch)
        self._done = done

    async def close(self) -> None:
        if self._is_closed:
            return
        while self._done is not None:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)
        if not self._is_closed:  # two may have waited
            self._is_closed = True
            self._stop()

    def _finish(self, error: OSError | None) -> None:
        done = self._done
        assert done is not None
        self._done = None
        try:
            done(error)
        finally:
            if self.is_idle and self._drained is not None:
                self._drained.set_result(None)
                self._drained = None

    def _start(self, batch: Batch) -> None:
        raise NotImplementedError

    def _stop(self) -> None:
        raise NotImplementedError


class ThreadCommitter(LoopSide):
    """For any disk, by a Python thread."""

    def __init__(self, disk: Disk, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._disk = disk
        self._batches: SimpleQueue[Batch | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="warren-commit", daemon=True)
        self._thread.start()

    def _start(self, batch: Batch) -> None:
        # Pinned as the native one pins them: what is no buffer is found out here, by the culprit.
        pinned = [(descriptor, [memoryview(p) for p in ps]) for descriptor, ps in batch.writes]
        placed = [(fd, at, [memoryview(piece) for piece in ps]) for fd, at, ps in batch.placed]
        self._batches.put(Batch([*pinned], batch.syncs[:], [*placed]))

    def _stop(self) -> None:
        self._batches.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            error = self._commit(batch)
            del batch  # or its buffers would live until the next one comes
            try:
                self._loop.call_soon_threadsafe(self._finish, error)
            except RuntimeError:  # the loop was closed without closing us: nobody to tell
                return

    def _commit(self, batch: Batch) -> OSError | None:
        step: Step = "write"
        descriptor = -1
        try:
            for descriptor, pieces in batch.writes:
                append_all(self._disk, descriptor, pieces)
            for descriptor, offset, pieces in batch.placed:
                place_all(self._disk, descriptor, offset, pieces)
            step = "sync"
            for descriptor in batch.syncs:
                self._disk.sync(descriptor)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller must not wait for ever
            code = error.errno if isinstance(error, OSError) else None
            failed = CommitFailed(code or errno.EIO, step, descriptor)
            failed.__cause__ = error.with_traceback(None)
            return failed
        return None


class NativeCommitter(LoopSide):
    """For the real disk, by a thread that never takes the interpreter lock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        from warren.storage.disk._native_committer import CommitThread

        super().__init__(loop)
        self._thread: CommitThread = CommitThread()
        loop.add_reader(self._thread.descriptor, self._collect)

    def _start(self, batch: Batch) -> None:
        self._thread.start(batch.writes, batch.syncs, batch.placed)

    def _stop(self) -> None:
        self._loop.remove_reader(self._thread.descriptor)
        self._thread.stop()

    def _collect(self) -> None:
        failure = self._thread.collect()
        if failure is None:  # woken for nothing
            return
        code, is_sync, descriptor = failure
        step: Step = "sync" if is_sync else "write"
        self._finish(CommitFailed(code, step, descriptor) if code else None)


def has_native_committer() -> bool:
    if PURE:
        return False
    try:
        from warren.storage.disk._native_committer import CommitThread  # noqa: F401
    except ImportError:
        return False
    return True


def make_committer(disk: Disk, loop: asyncio.AbstractEventLoop) -> Committer:
    """The fastest that serves this disk on this machine."""
    if type(disk) is RealDisk and has_native_committer():
        return NativeCommitter(loop)
    return ThreadCommitter(disk, loop)
