"""A quorum queue: keeps every message on disk, and counts how often each was delivered.

All else is a classic queue's; its copies on other nodes are the cluster's doing. A message that was
published as transient is kept as a persistent one, and so it is delivered.
"""

from __future__ import annotations

from typing import Final

from warren.model.records import QueueRecord
from warren.queues.backing import BackingQueue
from warren.queues.boundary import Publisher
from warren.queues.delivery_limit import with_delivery_count
from warren.queues.host import DeathReason, QueueHost
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings
from warren.wire.codec import Message, PropertyBlock, QueuedMessage
from warren.wire.properties import decode_properties, encode_properties

_PERSISTENT: Final = 2


class QuorumQueue(Queue):
    def __init__(
        self,
        record: QueueRecord,
        settings: QueueSettings,
        backing: BackingQueue,
        host: QueueHost,
    ) -> None:
        Queue.__init__(self, record, settings, backing, host)
        # Publishes that follow each other mostly share their properties.
        self._transient: PropertyBlock | None = None
        self._persistent: PropertyBlock | None = None

    def publish(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        if not message.properties.persistent:
            message = self._persisted(message)
        return Queue.publish(self, message, publisher, sequence)

    def publish_again(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        if not message.properties.persistent:
            message = self._persisted(message)
        return Queue.publish_again(self, message, publisher, sequence)

    def _persisted(self, message: Message) -> Message:
        if self._persistent is None or self._transient is not message.properties:
            properties = decode_properties(message.properties.raw)
            properties.delivery_mode = _PERSISTENT
            self._transient = message.properties
            self._persistent = PropertyBlock(encode_properties(properties))
        return Message(message.route_key, self._persistent, message.body, message.flags)

    def _discard(self, run: list[QueuedMessage], reason: DeathReason) -> None:
        if self.settings.keeps_dead_letters:
            self.host.dead_letter_safely(self, run, reason)
        else:
            Queue._discard(self, run, reason)

    def _drop_expired(self) -> None:
        if not (self.may_expire and self.settings.keeps_dead_letters):
            Queue._drop_expired(self)
            return
        now_ms = self.host.clock.now_ms()
        expired = []
        head = self.backing.head()
        while head is not None and head.expires_at_ms != 0 and head.expires_at_ms <= now_ms:
            queued = self.backing.fetch(True)
            if queued is None:
                break
            expired.append(queued)
            head = self.backing.head()
        if self.backing.length == 0:
            self.may_expire = False
        if expired:
            self._discard(expired, DeathReason.EXPIRED)

    def requeued(self, run: list[QueuedMessage]) -> None:
        if not self.is_deleted:
            Queue.requeued(self, self._within_delivery_limit(run))

    def _within_delivery_limit(self, run: list[QueuedMessage]) -> list[QueuedMessage]:
        """Give up on messages that keep coming back, and count the rest."""
        limit = self.settings.delivery_limit
        kept = []
        discarded = []
        for queued in run:
            queued.delivery_count += 1
            if limit is None or queued.delivery_count <= limit:
                queued.message = with_delivery_count(queued.message, queued.delivery_count)
                kept.append(queued)
            else:
                discarded.append(queued)
        if discarded:
            self._discard(discarded, DeathReason.DELIVERY_LIMIT)
        return kept
