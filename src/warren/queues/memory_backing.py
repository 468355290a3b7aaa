"""Messages in memory.

Two places hold what is ready: `_fresh`, a plain FIFO of messages nobody has had yet, and
`_returned`, a heap of those that were delivered and came back. Messages leave `_fresh` from its
head only, so whatever comes back is older than all that is left in there; the two never have to be
merged, and putting a message back into its old place costs the logarithm of how many came back.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush, nsmallest
from itertools import chain, islice

from warren.queues.backing import Level
from warren.queues.boundary import TAKEN, Publisher
from warren.wire.codec import Message, QueuedMessage


class MemoryBacking(Level):
    def __init__(self) -> None:
        self.length = 0
        self.ready_bytes = 0
        self.unacked_count = 0
        self.next_sequence = 0
        self._fresh: deque[QueuedMessage] = deque()
        self._returned: list[tuple[int, QueuedMessage]] = []

    def publish(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> int:
        self._fresh.append(QueuedMessage(message, self.next_sequence, expires_at_ms))
        self.next_sequence += 1
        self.length += 1
        self.ready_bytes += len(message.body)
        return TAKEN

    def publish_delivered(
        self, queued: QueuedMessage, publisher: Publisher | None, sequence: int
    ) -> int:
        queued.sequence = self.next_sequence
        self.next_sequence += 1
        self.unacked_count += 1
        return TAKEN

    def mark_redelivered(self, message: Message) -> None:
        if self._fresh and self._fresh[-1].message is message:
            self._fresh[-1].redelivered = True

    def fetch(self, ack_required: bool) -> QueuedMessage | None:
        if self.length == 0:
            return None
        queued = heappop(self._returned)[1] if self._returned else self._fresh.popleft()
        self.length -= 1
        self.ready_bytes -= len(queued.message.body)
        if ack_required:
            self.unacked_count += 1
        return queued

    def head(self) -> QueuedMessage | None:
        if self._returned:
            return self._returned[0][1]
        return self._fresh[0] if self._fresh else None

    def ack(self, run: list[QueuedMessage]) -> None:
        self.unacked_count -= len(run)
        assert self.unacked_count >= 0, "more acknowledged than delivered"

    def requeue(self, run: list[QueuedMessage]) -> None:
        for queued in run:
            heappush(self._returned, (queued.sequence, queued))
            self.ready_bytes += len(queued.message.body)
        self.length += len(run)
        self.unacked_count -= len(run)
        assert self.unacked_count >= 0, "more returned than delivered"

    async def browse(self, offset: int, limit: int, bytes_max: int) -> list[QueuedMessage]:
        end = offset + limit
        returned = [queued for _, queued in nsmallest(end, self._returned)]
        shown: list[QueuedMessage] = []
        for queued in islice(chain(returned, self._fresh), offset, end):
            if bytes_max <= 0:
                break
            bytes_max -= len(queued.message.body)
            shown.append(queued)
        return shown

    def purge(self) -> int:
        count = self.length
        self._fresh.clear()
        self._returned.clear()
        self.length = 0
        self.ready_bytes = 0
        return count
