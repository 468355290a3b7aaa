"""Reading again what a disk would not read.

A read that fails says nothing about what is there: a cable, a network file system, a want of
descriptors. So no message is given up for it. It is read again, from time to time, for as long as
somebody wants it; the queue waits at that message, and the log says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from warren.model.logs import EventLog
from warren.storage.disk.workers import Workers

RETRY_S_MIN: Final = 1.0
RETRY_S_MAX: Final = 30.0

T = TypeVar("T")

_log = EventLog("storage")


class ReadRetry:
    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._is_over = False
        self.failures = 0

    async def read(self, read: Callable[[], T], is_wanted: Callable[[], bool]) -> T | None:
        """What `read` returns, which is called in a thread until it does not raise OSError.

        None if nobody wants it any more.
        """
        pause_s = RETRY_S_MIN
        while is_wanted() and not self._is_over:
            found = await self.read_once(read)
            if found is not None:
                return found
            await self._workers.pause(pause_s)
            pause_s = min(pause_s * 2, RETRY_S_MAX)
        return None

    async def read_once(self, read: Callable[[], T]) -> T | None:
        """The same, for one who can do without it at first."""
        try:
            return await self._workers.run_in_thread(read)
        except OSError as error:
            self.failures += 1
            _log.error("messages cannot be read, will be retried", error=error)
            return None

    def end(self) -> None:
        """Nobody waits any longer: the node stops."""
        self._is_over = True
