"""A queue that takes each id once: x-message-deduplication.

**Two kinds.** Without further arguments an id counts while its message is in the queue, ready or
unacknowledged, as in the plug-in. With x-cache-size or x-cache-ttl it counts for so many ids, or
so long, whether or not the message has been consumed: what a publisher sends again after a failure
is taken once, even if a consumer was quick.

**A repeat** is dropped, and its publisher is told what the first one's publisher is told, when
that is known: a repeat is confirmed when the message it repeats is safe, and refused if that is
refused. A refused message's id is forgotten, since its publisher will send it again.

**What is remembered after a crash or a promotion.** The ids of the first kind are those of the
messages that are there, so they are read from these. Those of the second kind are kept beside the
messages (`id_keeping`): written after the message and in the same turn, and both must be safe
before the publisher hears of it. An end between the two leaves messages whose ids are missing,
never ids whose messages are: so the newest messages, behind the last one that an id names, are
looked at as well. Whichever it is, the queue first learns its ids (`_recall`); what is published
meanwhile waits, and nothing is delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from warren.model.deduplication import WINDOW_IDS_DEFAULT, Remembered, Window
from warren.model.records import QueueRecord
from warren.queues.backing import BackingQueue
from warren.queues.boundary import PENDING, REJECTED, TAKEN, Answer, Publisher
from warren.queues.host import QueueHost
from warren.queues.id_keeping import (
    IDS_LEVEL,
    NOWHERE,
    IdKeepingBacking,
    Place,
    entry_of,
    record_of,
)
from warren.queues.message_id import id_of
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings
from warren.wire.codec import Message, QueuedMessage

LOOK_MESSAGES: Final = 1_024
LOOK_BYTES: Final = 4 * 1_048_576
"""Read at once from a queue whose ids are to be learnt."""


class Fate:
    """What becomes of a message with an id, for all who published it: the publisher of it.

    There is one while the message, or the record of its id, is not safe. Mostly one publisher
    waits for that, so there is no list until there is another.
    """

    def __init__(self, queue: DeduplicatingQueue, entry: Remembered, origin: str | None) -> None:
        self.origin = origin
        """Of the first publisher, if that is another node."""
        self.entry = entry
        self.unsafe = 2
        """The message, the record of its id, and while it is being published, that it is."""
        self._queue = queue
        self._publisher: Publisher | None = None
        self._sequence = 0
        self._others: list[tuple[Publisher, int]] = []

    def wait(self, publisher: Publisher | None, sequence: int) -> int:
        if publisher is None or self.unsafe == 0:
            return TAKEN
        if self._publisher is None:
            self._publisher, self._sequence = publisher, sequence
        else:
            self._others = [*self._others, (publisher, sequence)]
        return PENDING

    def confirmed(self, sequence: int) -> None:
        if self.unsafe == 0:
            return
        self.unsafe -= 1
        if self.unsafe == 0:
            self._queue.settled(self)
            if self._publisher is not None:
                self._publisher.confirmed(self._sequence)
            for publisher, number in self._others:
                publisher.confirmed(number)

    def rejected(self, sequence: int) -> None:
        if self.unsafe == 0:
            return
        self.unsafe = 0
        self._queue.refused(self)
        if self._publisher is not None:
            self._publisher.rejected(self._sequence)
        for publisher, number in self._others:
            publisher.rejected(number)


class DeduplicatingQueue(Queue):
    """`spawn` runs what must wait for a disk; `keeper` is the backing, or in it."""

    def __init__(
        self,
        record: QueueRecord,
        settings: QueueSettings,
        backing: BackingQueue,
        host: QueueHost,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        Queue.__init__(self, record, settings, backing, host)
        keeper = backing.local()
        assert isinstance(keeper, IdKeepingBacking)
        self.keeper = keeper
        self.duplicates = 0
        self._spawn = spawn
        size_max, ttl_ms = settings.window_size, settings.window_ttl_ms
        self._is_windowed = size_max is not None or ttl_ms is not None
        self._has_ttl = ttl_ms is not None
        if self._is_windowed:
            size_max = WINDOW_IDS_DEFAULT if size_max is None else size_max
        else:
            keeper.on_left = self._left
        self._window = Window(size_max, ttl_ms, self._forgotten)
        self._fates: dict[bytes, Fate] = {}
        """Of ids whose messages are not safe."""
        self._records: dict[bytes, QueuedMessage] = {}
        """Of ids that are kept."""
        self.is_recalling = bool(keeper.ids_ready or keeper.length)
        self._named: dict[int, int] = {}
        """By level, the newest message that an id names."""
        self._is_looking = False
        self._held: list[tuple[Message, Publisher | None, int, bool]] = []

    def publish(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        return self._publish_once(message, publisher, sequence, False)

    def publish_again(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        return self._publish_once(message, publisher, sequence, True)

    def _publish_once(
        self, message: Message, publisher: Publisher | None, sequence: int, redelivered: bool
    ) -> int:
        if self.is_recalling and not self.is_deleted:
            self._held.append((message, publisher, sequence, redelivered))
            return TAKEN if publisher is None else PENDING
        key = None if self.is_deleted else id_of(message)
        if key is None:
            return self._publish_any(message, publisher, sequence, redelivered)
        now_ms = self.host.clock.now_ms() if self._has_ttl else 0
        entry = self._window.find(key, now_ms)
        if entry is not None:
            self.duplicates += 1
            first = self._fates.get(key)
            return TAKEN if first is None else first.wait(publisher, sequence)
        entry = self._window.add(key, now_ms)
        origin = None if publisher is None else publisher.origin
        fate = self._fates[key] = Fate(self, entry, origin)
        outcome = self._publish_first(fate, message, sequence, redelivered)
        return REJECTED if outcome == REJECTED else fate.wait(publisher, sequence)

    def _publish_any(
        self, message: Message, publisher: Publisher | None, sequence: int, redelivered: bool
    ) -> int:
        if redelivered:
            return Queue.publish_again(self, message, publisher, sequence)
        return Queue.publish(self, message, publisher, sequence)

    def _publish_first(self, fate: Fate, message: Message, sequence: int, redelivered: bool) -> int:
        """Publish the first message with an id; REJECTED, or `fate` says when it is safe."""
        entry = fate.entry
        taken, place = self.keeper.taken, self.keeper.next_place(message)
        outcome = self._publish_any(message, fate, sequence, redelivered)
        if outcome == REJECTED or fate.unsafe == 0:
            self.refused(fate)
            return REJECTED
        if outcome == TAKEN:
            fate.unsafe -= 1
        if self._is_windowed:
            self._keep_id(fate, message, NOWHERE if self.keeper.taken == taken else place)
        elif self.keeper.taken == taken:
            self._window.forget(entry)  # it has gone already
        fate.unsafe -= 1
        if fate.unsafe == 0:
            self.settled(fate)
        return TAKEN

    def _keep_id(self, fate: Fate, message: Message, place: Place) -> None:
        """Mirrors are told in the same batch, and a master answers for the whole of it."""
        entry = fate.entry
        is_alone = self.backing is self.keeper
        record = QueuedMessage(record_of(entry, place, message.properties.persistent), 0, 0)
        self._records[entry.key] = record
        outcome = self.backing.publish_delivered(record, fate if is_alone else None, 0)
        if is_alone and outcome == PENDING:
            fate.unsafe += 1

    def settled(self, fate: Fate) -> None:
        """Nobody need wait for it any more."""
        if self._fates.get(fate.entry.key) is fate:
            del self._fates[fate.entry.key]

    def refused(self, fate: Fate) -> None:
        self.settled(fate)
        self._window.forget(fate.entry)

    def id_records(self) -> list[QueuedMessage]:
        """What the queue has of its backing, as a client has what it has not acknowledged."""
        return list(self._records.values())

    def _left(self, message: Message) -> None:
        key = id_of(message)
        entry = None if key is None else self._window.find(key, self.host.clock.now_ms())
        if entry is not None:
            self._window.forget(entry)

    def _forgotten(self, entry: Remembered) -> None:
        record = self._records.pop(entry.key, None)
        if record is not None and not self.is_deleted:
            self.backing.ack([record])

    # Learning the ids.

    def _recall(self) -> bool:
        """Whether all ids are known; if not, `loaded` goes on when there is more."""
        if not self.is_recalling:
            return True
        while self.keeper.ids_ready:
            record = self.backing.fetch(True)
            if record is None:
                return False
            entry, (level, sequence) = entry_of(record.message)
            self._learn(entry, record)
            self._named[level] = max(sequence, self._named.get(level, sequence))
        if not self._is_looking:
            self._is_looking = True
            self._spawn(self._look())
        return False

    async def _look(self) -> None:
        await (self._look_at_newest() if self._is_windowed else self._look_through())
        if not self.is_deleted:
            self._recalled()
            self.loaded()

    async def _look_through(self) -> None:
        """Nothing comes or goes meanwhile but by a purge."""
        offset = 0
        while not self.is_deleted:
            found = await self.backing.browse(offset, LOOK_MESSAGES, LOOK_BYTES)
            if not found:
                break
            offset += len(found)
            for key in map(id_of, [queued.message for queued in found]):
                if key is not None:
                    self._learn(Remembered(key, 0), None)

    async def _look_at_newest(self) -> None:
        """From the end of each level back to the message that an id names."""
        for number, level in list(self.keeper.items()):
            named = self._named.get(number, -1)
            end = 0 if number == IDS_LEVEL else level.length
            newest: list[QueuedMessage] = []
            while end and not self.is_deleted:
                start = max(0, end - LOOK_MESSAGES)
                piece = await _piece(level, start, end)
                newest = [*(queued for queued in piece if queued.sequence > named), *newest]
                end = start if piece and piece[0].sequence > named else 0
            for queued in newest:
                self._learn_late(queued, number)

    def _learn_late(self, queued: QueuedMessage, level: int) -> None:
        key, now_ms = id_of(queued.message), self.host.clock.now_ms()
        if key is None or self.is_deleted or self._window.find(key, now_ms) is not None:
            return
        entry = self._window.add(key, now_ms)
        place, persistent = (level, queued.sequence), queued.message.properties.persistent
        record = self._records[key] = QueuedMessage(record_of(entry, place, persistent), 0, 0)
        self.backing.publish_delivered(record, None, 0)

    def _learn(self, entry: Remembered, record: QueuedMessage | None) -> None:
        if self._window.find(entry.key, 0) is None:
            self._window.restore(entry)
            if record is not None:
                self._records[entry.key] = record
        elif record is not None:
            self.backing.ack([record])

    def _recalled(self) -> None:
        self.is_recalling = False
        held, self._held = self._held, []
        for message, publisher, sequence, again in held:
            publish = self.publish_again if again else self.publish
            outcome = publish(message, publisher, sequence)
            if publisher is not None and outcome == TAKEN:
                publisher.confirmed(sequence)
            elif publisher is not None and outcome == REJECTED:
                publisher.rejected(sequence)

    # What has to wait for it.

    def loaded(self) -> None:
        if self.is_deleted or self._recall():
            Queue.loaded(self)

    def pump(self) -> None:
        if not self.is_recalling:
            Queue.pump(self)

    def get(self) -> QueuedMessage | None:
        if self.is_recalling:
            self.touch()
            return None
        return Queue.get(self)

    def _drop_expired(self) -> None:
        if not self.is_recalling:
            Queue._drop_expired(self)

    def _drop_overflow(self) -> None:
        if not self.is_recalling:
            Queue._drop_overflow(self)

    def purge(self) -> Answer[int]:
        """Ids that outlive their messages outlive this, too."""
        if not self._is_windowed:
            self._window.clear()
        return Queue.purge(self)

    def stop(self) -> None:
        Queue.stop(self)
        held, self._held = self._held, []
        for _, publisher, sequence, _ in held:
            if publisher is not None:
                publisher.rejected(sequence)


async def _piece(level: BackingQueue, start: int, end: int) -> list[QueuedMessage]:
    """What is ready from one place to another."""
    found: list[QueuedMessage] = []
    while start + len(found) < end:
        more = await level.browse(start + len(found), end - start - len(found), LOOK_BYTES)
        if not more:
            break
        found += more
    return found
