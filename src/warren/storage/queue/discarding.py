"""Discarding what a queue has let go of, by a purge or its deletion, a slice in each turn.

For the queue the messages are gone at once: its counts are right, and new ones are numbered on. But
telling the index that nobody needs 400 000 messages, and freeing what they take, keeps everybody
else waiting for a tenth of a second. So the containers that held them are moved here whole. What is
few is discarded before the purge returns.

Order matters in one place: the index is told of a range on disk (`ack_range`) after it has been
told of every message in memory that the purge removed.

A clean stop finishes first, or the next start would find what was purged. A queue that is deleted
needs its index to be told nothing: all that is left is to free memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from warren.storage.queue.paging_host import QueueIndexClient
from warren.wire.codec import QueuedMessage

DISCARDED_AT_ONCE_MAX: Final = 256
"""About 0.1 ms of the event loop."""

Container: TypeAlias = deque[Any] | list[Any]
"""Messages, or entries of the heap of those that came back."""


class Discarding:
    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._index: QueueIndexClient | None = None
        self._parts: deque[Container | tuple[int, int]] = deque()
        self._is_scheduled = False

    @property
    def is_under_way(self) -> bool:
        """True while the index is to be told of messages that were purged."""
        return self._index is not None and bool(self._parts)

    def purged(
        self,
        index: QueueIndexClient | None,
        containers: list[Container],
        span: tuple[int, int] | None,
    ) -> None:
        """Discard the messages in these, and then those on disk with numbers of the span."""
        self._index = index
        self._parts.extend(container for container in containers if container)
        if span is not None:
            self._parts.append(span)
        self._go_on()

    def deleted(self, containers: list[Container]) -> None:
        """Free these, and whatever is left; the index of the queue is gone."""
        self._index = None
        self._parts.extend(container for container in containers if container)
        self._go_on()

    def finish(self) -> None:
        """Tell the index of all that is left."""
        while self.is_under_way:
            self._discard()

    def _go_on(self) -> None:
        if self._is_scheduled or not self._parts:
            return
        self._discard()
        if self._parts:
            self._is_scheduled = True
            self._call_soon(self._scheduled)

    def _scheduled(self) -> None:
        self._is_scheduled = False
        self._go_on()

    def _discard(self) -> None:
        room = DISCARDED_AT_ONCE_MAX
        while room > 0 and self._parts:
            part = self._parts[0]
            if isinstance(part, tuple):
                self._parts.popleft()
                if self._index is not None:
                    self._index.ack_range(*part)
                continue
            taken = _take(part, room)
            room -= len(taken)
            if not part:
                self._parts.popleft()
            if self._index is not None:
                self._index.ack(taken)


def _take(container: Container, count: int) -> list[QueuedMessage]:
    """Remove so many from it, or all: the oldest of a deque, the last of a list."""
    if isinstance(container, deque):
        return [container.popleft() for _ in range(min(count, len(container)))]
    taken = container[-count:]
    del container[-count:]
    return [entry[1] if isinstance(entry, tuple) else entry for entry in taken]
