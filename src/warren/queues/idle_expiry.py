"""x-expires: a queue nobody uses goes away.

Use is a consumer, a declare of any form, or a get. Touching must be cheap, so it only notes the
time; the one timer looks at the note when it fires, and sleeps on if the queue was used meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.model.clock import TimerHandle

if TYPE_CHECKING:
    from warren.queues.queue import Queue


class IdleExpiry:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._timer: TimerHandle | None = None
        self._used_at_ms = 0
        self.touch()

    def touch(self) -> None:
        self._used_at_ms = self._queue.host.clock.now_ms()
        if self._timer is None:
            self._sleep(self._queue.settings.expires_ms or 0)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sleep(self, wait_ms: int) -> None:
        self._timer = self._queue.host.clock.call_later(wait_ms, self._look)

    def _look(self) -> None:
        self._timer = None
        queue = self._queue
        if queue.consumers or queue.is_deleted:
            return
        idle_ms = queue.host.clock.now_ms() - self._used_at_ms
        expires_ms = queue.settings.expires_ms or 0
        if idle_ms >= expires_ms:
            queue.host.expired(queue)
        else:
            self._sleep(expires_ms - idle_ms)
