"""Messages from one queue to others, without losing any.

Each is got, published and, when it is as safe there as it asks to be, acknowledged; what is not
wanted, or cannot be published, goes back to its place. A crash between the last two steps leaves a
message in both queues: rather twice than never. They go in batches, each one transaction, since
every one may have to wait for a disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from warren.management.errors import bad_request
from warren.model.errors import AmqpError
from warren.queues.boundary import answer_of
from warren.queues.settings import Overflow
from warren.server.direct import DirectConnection, PublishRejected
from warren.wire.codec import Message, QueuedMessage

# What one request moves, and looks at, at most.
MOVED_MAX: Final = 10_000
LOOKED_AT_MAX: Final = 20_000
BYTES_MAX: Final = 134_217_728
BATCH_MESSAGES_MAX: Final = 100
BATCH_BYTES_MAX: Final = 4_194_304

# What becomes of a message, and the queue it goes to; None: it stays.
Destiny: TypeAlias = Callable[[Message], tuple[Message, str] | None]


class Parcel(NamedTuple):
    tag: int
    message: Message
    queue: str


class Moving:
    """Out of one queue, through one connection. What it has got, the connection gives back."""

    def __init__(self, connection: DirectConnection, queue: str, destiny: Destiny) -> None:
        self.moved = 0
        self._connection = connection
        self._queue = queue
        self._destiny = destiny
        self._batch: list[Parcel] = []

    async def run(self, wanted: int) -> None:
        """Up to so many, of those that are there now."""
        counts = await answer_of(self._connection.vhost.queues[self._queue].counts())
        looked_at, room = min(counts.ready, LOOKED_AT_MAX), BYTES_MAX
        while looked_at > 0 and room > 0 and self.moved + len(self._batch) < wanted:
            tag = self._connection.channel.deliveries.next_tag
            queued = await self._connection.get(self._queue)
            if queued is None:
                break
            looked_at -= 1
            room -= len(queued.message.body)
            await self._consider(tag, queued)
        await self._send()

    async def _consider(self, tag: int, queued: QueuedMessage) -> None:
        destiny = self._destiny(queued.message)
        if destiny is None:
            return
        self._batch.append(Parcel(tag, *destiny))
        size = sum(len(parcel.message.body) for parcel in self._batch)
        if len(self._batch) >= self._batch_max(destiny[1]) or size >= BATCH_BYTES_MAX:
            await self._send()

    def _batch_max(self, queue: str) -> int:
        """Of a batch that a queue rejects nobody knows which part; so there has to be one part."""
        found = self._connection.vhost.queues.get(queue)
        may_reject = found is None or found.settings.overflow is not Overflow.DROP_HEAD
        return 1 if may_reject else BATCH_MESSAGES_MAX

    async def _send(self) -> None:
        batch, self._batch = self._batch, []
        if not batch:
            return
        for parcel in batch:
            if parcel.queue not in self._connection.vhost.queues:
                raise bad_request(self._told(f"there is no queue '{parcel.queue}'"))
        try:
            await self._connection.publish_all([parcel.message for parcel in batch])
        except PublishRejected:
            raise bad_request(self._told("the queue rejected a message")) from None
        except AmqpError as error:
            raise bad_request(self._told(error.explanation)) from None
        for parcel in batch:
            self._connection.channel.deliveries.ack(parcel.tag, False)
        self.moved += len(batch)

    def _told(self, reason: str) -> str:
        return f"Stopped after {self.moved} messages: {reason}"
