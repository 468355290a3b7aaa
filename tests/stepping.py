"""Threads, tasks and commits that go on one small step at a time, when a test says so."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from typing import Generic, TypeVar

from faulty_disk import FaultyDisk
from warren.storage.disk.committer import Batch, CommitFailed, Done
from warren.storage.disk.files import append_all, place_all

T = TypeVar("T")


class PowerCut(Exception):
    """What happens after it does not happen."""


class Turn:
    """Where something else may happen before a coroutine goes on."""

    def __await__(self) -> Iterator[None]:
        yield


class Job:
    def __init__(self, work: Coroutine[object, object, None]) -> None:
        self.work = work
        self.is_done = False

    def step(self) -> None:
        """Go on to the next turn."""
        try:
            self.work.send(None)
        except BaseException as end:
            self.is_done = True
            if not isinstance(end, StopIteration):
                raise

    def __await__(self) -> Iterator[None]:
        while not self.is_done:
            yield


class ThreadCall(Generic[T]):
    """A function that a thread calls, sooner or later, and then somebody goes on with."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._results: list[T] = []
        self._error: BaseException | None = None

    async def run(self) -> None:
        await Turn()
        try:
            self._results.append(self._function())
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            self._error = error

    def __await__(self) -> Generator[None, None, T]:
        while not self._results and self._error is None:
            yield
        yield
        if self._error is not None:
            raise self._error
        return self._results[0]


class StepWorkers:
    """Threads and tasks that go on when the dice says so."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def run_in_thread(self, function: Callable[[], T]) -> Awaitable[T]:
        """Begun at once: what is asked for before the first is done goes on beside it."""
        call = ThreadCall(function)
        self.jobs.append(Job(call.run()))
        return call

    def spawn(self, work: Coroutine[object, object, None]) -> Awaitable[None]:
        self.jobs.append(Job(work))
        return self.jobs[-1]

    async def pause(self, seconds: float) -> None:
        assert seconds >= 0
        await Turn()

    def step(self, dice: random.Random) -> None:
        if self.jobs:
            job = dice.choice(self.jobs)
            try:
                job.step()
            finally:
                if job.is_done:
                    self.jobs.remove(job)

    def abandon(self) -> None:
        for job in self.jobs:
            job.work.close()
        self.jobs.clear()


class StepPromise:
    def __init__(self) -> None:
        self.is_done = False
        self.error: BaseException | None = None

    def set_result(self, result: None, /) -> None:
        assert result is None
        self.is_done = True

    def set_exception(self, error: BaseException, /) -> None:
        self.error = error
        self.is_done = True

    def done(self) -> bool:
        return self.is_done

    def __await__(self) -> Iterator[None]:
        while not self.is_done:
            yield
        if self.error is not None:
            raise self.error


class StepCommitter:
    def __init__(self, disk: FaultyDisk) -> None:
        self._disk = disk
        self._batch: Batch | None = None
        self._done: Done | None = None
        self._is_written = False
        self.on_submit: Callable[[], None] = lambda: None
        self.on_safe: Callable[[], None] = lambda: None

    @property
    def is_idle(self) -> bool:
        return self._batch is None

    def submit(self, batch: Batch, done: Done) -> None:
        assert self._batch is None, "one batch at a time"
        self._batch, self._done = batch, done
        self.on_submit()

    async def close(self) -> None:
        assert self.is_idle

    def step(self) -> None:
        """Write a batch; the next time, sync it."""
        batch, done = self._batch, self._done
        if batch is None or done is None:
            return
        error: OSError | None = None
        try:
            if not self._is_written:
                for descriptor, pieces in batch.writes:
                    append_all(self._disk, descriptor, pieces)
                for descriptor, offset, pieces in batch.placed:
                    place_all(self._disk, descriptor, offset, pieces)
                self._is_written = True
                return
            for descriptor in batch.syncs:
                self._disk.sync(descriptor)
        except OSError as failure:
            if self._disk.is_crashed:
                raise
            error = CommitFailed(failure.errno or 0, "sync", -1)
        self._batch = self._done = None
        self._is_written = False
        if error is None:
            self.on_safe()
        done(error)
