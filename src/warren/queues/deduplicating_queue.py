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
messages, many in one record (`id_pack`): written after the messages, when the turn of the loop ends
or the record is full, and both must be safe before a publisher hears of it. Mirrors get the record
in one batch with the messages. An end between the two leaves messages whose ids are missing, never
ids whose messages are: so the newest messages, behind the last one that an id names, are looked at
as well. Whichever it is, the queue first learns its ids (`_recall`); what is published meanwhile
waits, and nothing is delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from warren.model.deduplication import WINDOW_IDS_DEFAULT, Remembered, Window
from warren.model.logs import EventLog
from warren.model.records import QueueRecord
from warren.queues.backing import BackingQueue
from warren.queues.boundary import PENDING, REJECTED, TAKEN, Answer, Publisher
from warren.queues.fate import Fate, new_fate
from warren.queues.host import QueueHost
from warren.queues.id_keeping import IDS_LEVEL, NOWHERE, IdKeepingBacking
from warren.queues.id_pack import IdPack
from warren.queues.id_records import MalformedIds, ids_of
from warren.queues.message_id import id_of
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings
from warren.wire.codec import Message, QueuedMessage

LOOK_MESSAGES: Final = 1_024
LOOK_BYTES: Final = 4 * 1_048_576
"""Read at once from a queue whose ids are to be learnt."""

_log = EventLog("queue")


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
        self._packs: dict[int, IdPack] = {}
        """By number, those that ids in the window are kept in."""
        self._pack: IdPack | None = None
        """The one that takes ids now, and is not written yet."""
        self._pack_number = 0
        self._is_turn_open = False
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
        fate = new_fate(self._fates, self._window, entry, origin)
        self._fates[key] = fate
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
        keeper = self.keeper
        taken = keeper.taken
        fate.level = keeper.level_number(message)
        fate.number = keeper.next_sequence_of(message)
        if self._is_windowed and not self._is_turn_open:
            # Before the message, so that both are in the batch that begins when the turn ends.
            self._is_turn_open = True
            self._spawn(self._end_turn())
        outcome = self._publish_any(message, fate, sequence, redelivered)
        if outcome == REJECTED or fate.unsafe == 0:
            fate.refused()
            return REJECTED
        if outcome == TAKEN:
            fate.unsafe -= 1
        is_gone = keeper.taken == taken
        if not self._is_windowed:
            if is_gone:
                self._window.forget(fate.entry)
        else:
            if is_gone:
                fate.level, fate.number = NOWHERE
            self._keep_id(fate, message.properties.persistent)
        fate.unsafe -= 1
        if fate.unsafe == 0:
            fate.settled()
        return TAKEN

    def _keep_id(self, fate: Fate, is_persistent: bool) -> None:
        """Put the id into the pack, for which its publishers wait, too."""
        pack = self._pack
        if pack is not None and pack.is_persistent != is_persistent:
            self._write_pack()
            pack = None
        if pack is None:
            pack = self._new_pack(is_persistent)
            self._pack = pack
            self.backing.before_batch(self._write_pack)
        pack.add(fate)
        if pack.is_full:
            self._write_pack()

    def _new_pack(self, is_persistent: bool) -> IdPack:
        self._pack_number += 1
        pack = IdPack(self._pack_number, is_persistent, self.keeper.ids_embedded_below())
        self._packs[self._pack_number] = pack
        return pack

    async def _end_turn(self) -> None:
        self._is_turn_open = False
        self._write_pack()

    def _write_pack(self) -> None:
        """Have the ids kept that came since the last time.

        Mirrors are told in the same batch as of the messages, and a master answers for all of it.
        """
        pack, self._pack = self._pack, None
        if pack is None:
            return
        if self.is_deleted or pack.left == 0:
            del self._packs[pack.number]
            pack.confirmed(0)
            return
        pack.record = QueuedMessage(pack.message(), 0, 0)
        is_alone = self.backing is self.keeper
        outcome = self.backing.publish_along(pack.record, pack if is_alone else None, 0)
        if outcome == TAKEN or not is_alone:
            pack.confirmed(0)

    def id_records(self) -> list[QueuedMessage]:
        """What the queue has of its backing, as a client has what it has not acknowledged."""
        self._write_pack()
        return [pack.record for pack in self._packs.values() if pack.record is not None]

    def _left(self, message: Message) -> None:
        key = id_of(message)
        entry = None if key is None else self._window.find(key, self.host.clock.now_ms())
        if entry is not None:
            self._window.forget(entry)

    def _forgotten(self, entry: Remembered) -> None:
        """Let go of a record when none of its ids is remembered."""
        pack = self._packs.get(entry.pack)
        if pack is None:
            return
        pack.left -= 1
        if pack.left == 0 and pack.record is not None:
            self._drop(pack.number, pack.record)

    def _drop(self, number: int, record: QueuedMessage) -> None:
        del self._packs[number]
        if not self.is_deleted:
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
            self._learn_record(record)
        if not self._is_looking:
            self._is_looking = True
            self._spawn(self._look())
        return False

    async def _look(self) -> None:
        if self._is_windowed:
            self._window.make_room(self.host.clock.now_ms())
            await self._look_at_newest()
            self._write_pack()
        else:
            await self._look_through()
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
                if key is not None and self._window.find(key, 0) is None:
                    self._window.restore(Remembered(key, 0))

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
        fate = new_fate(self._fates, self._window, self._window.add(key, now_ms), None)
        fate.level, fate.number = level, queued.sequence
        fate.unsafe = 0  # but for the pack
        self._keep_id(fate, queued.message.properties.persistent)

    def _learn_record(self, record: QueuedMessage) -> None:
        """Ids in the order in which they came; of one that comes twice the later one counts."""
        pack = self._new_pack(record.message.properties.persistent)
        try:
            ids = ids_of(record.message)
        except MalformedIds as error:
            _log.error("remembered ids damaged", queue=str(self.record), problem=error)
            ids = []
        for entry, (level, sequence) in ids:
            former = self._window.find(entry.key, 0)
            if former is not None:
                self._window.forget(former)
            entry.pack = pack.number
            pack.left += 1
            self._window.restore(entry)
            self._named[level] = max(sequence, self._named.get(level, sequence))
        if pack.left:
            pack.record = record
        else:
            self._drop(pack.number, record)

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
        self._write_pack()
        self._fates.clear()
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
