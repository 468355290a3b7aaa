"""Pool of threads for backends, which wait for other servers where the event loop must not.

Everything is bounded: the threads, the requests that wait for one, and the time of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from warren.auth.backends import BackendError

T = TypeVar("T")

WAITING_MAX: Final = 1_000
"""Requests of one backend that may wait for a thread; more are refused at once."""
HTTP_THREADS: Final = 16
KEY_THREADS: Final = 2


class BackendPool:
    """Threads of one backend, started as they are needed."""

    def __init__(self, name: str, threads: int, timeout_s: float) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"warren-{name}")
        self._timeout_s = timeout_s
        self._waiting = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns in a thread. Raises BackendError, also after the timeout."""
        if self._waiting >= WAITING_MAX:
            raise BackendError(f"more than {WAITING_MAX} requests wait for this backend")
        self._waiting += 1
        try:
            future = asyncio.get_running_loop().run_in_executor(self._threads, work)
            async with asyncio.timeout(self._timeout_s):
                return await future
        except TimeoutError:
            raise BackendError(f"no answer within {self._timeout_s:g} s") from None
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Begin no more work; what runs ends by its own timeouts."""
        self._threads.shutdown(wait=False, cancel_futures=True)
