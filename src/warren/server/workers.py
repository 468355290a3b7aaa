"""Threads and tasks for the storage, which decides what to do and never how time passes.

A task handles what a disk may do to it. Whatever else ends one is a fault of ours: a queue whose
messages were being read would stand still from then on, and look healthy. So it is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

# Readers of paged-out messages and the work of checkpoints; commits have a thread of their own.
STORAGE_THREADS: Final = 4


class LoopWorkers:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(STORAGE_THREADS, thread_name_prefix="warren-storage")
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.on_fault: Callable[[BaseException], None] | None = None

    def run_in_thread(self, function: Callable[[], T]) -> Awaitable[T]:
        return self._loop.run_in_executor(self._threads, function)

    def spawn(self, work: Coroutine[object, object, None]) -> Awaitable[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self.on_fault is None or self._is_closed or task.cancelled():
            return
        fault = task.exception()
        if fault is not None:
            self.on_fault(fault)

    def pause(self, seconds: float) -> Awaitable[None]:
        return asyncio.sleep(seconds)

    def close(self) -> None:
        self._is_closed = True
        self._threads.shutdown(wait=True)
