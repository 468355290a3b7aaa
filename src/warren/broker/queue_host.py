"""Makes the queues of this node, and does what they cannot do themselves.

A queue knows nothing of exchanges or of the metadata store. It says that messages have died, that
its last consumer has gone, that nobody has used it for long; what follows from that is done here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from warren.broker.dead_lettering import publish_dead
from warren.broker.safe_dead_letters import SafeDeadLetter
from warren.model.clock import Clock
from warren.model.logs import EventLog
from warren.model.records import QueueName, QueueRecord
from warren.queues.backing import BackingQueue, Level
from warren.queues.deduplicating_queue import DeduplicatingQueue
from warren.queues.delivery import TurnClock
from warren.queues.host import DeathReason
from warren.queues.id_keeping import IdKeepingBacking
from warren.queues.memory_backing import MemoryBacking
from warren.queues.priority_backing import PriorityBacking
from warren.queues.queue import Queue
from warren.queues.quorum_queue import QuorumQueue
from warren.queues.settings import AT_LEAST_ONCE, QueueSettings, QueueType
from warren.storage.vhost_storage import VhostStorage, level_name
from warren.streams.consumer_groups import NO_CURSORS, GroupCursors
from warren.streams.log import StreamLog
from warren.streams.queue import StreamQueue
from warren.streams.store import StreamStore
from warren.wire.codec import Message, QueuedMessage

if TYPE_CHECKING:
    from warren.broker.vhost import VirtualHost

_log = EventLog("queue")

HEADS_PER_LOOK: Final = 32
# Removals that are done are swept out when there are so many, or twice as many as were under way
# the last time: ten thousand queues may expire at once, and each would look through all of them.
REMOVALS_KEPT: Final = 64
LOOK_INTERVAL_MS: Final = 10
"""After a start every queue looks whether its head has expired, so many at a time."""


class Running(Awaitable[None], Protocol):
    """Work under way, such as a task."""

    def done(self) -> bool: ...


Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], Running]


class QueueFactory:
    """The `QueueHost` of every queue it makes."""

    def __init__(self, clock: Clock, spawn: Spawn) -> None:
        self.clock = clock
        self.turn_clock = TurnClock()
        self.turn_clock.now_ms = clock.now_ms()
        # Set by the broker, which needs the factory to make its virtual hosts.
        self.vhosts: Mapping[str, VirtualHost] = {}
        # By virtual host; without one, messages stay in memory and end with the process.
        self.storages: Mapping[str, VhostStorage] = {}
        self.streams: Mapping[str, StreamStore] = {}
        # What retention is to leave of a stream, from this offset on.
        self.held_from: Callable[[str, str], int | None] = lambda vhost, queue: None
        # How far groups of consumers of a stream have come.
        self.cursors_of: Callable[[str, str], GroupCursors] = lambda vhost, queue: NO_CURSORS
        # When the head came of each queue that had messages when it was last seen.
        self.head_times: Mapping[QueueName, int] = {}
        self._spawn = spawn
        self._dead: deque[tuple[Queue, list[Message], DeathReason]] = deque()
        self._removals: set[Running] = set()
        self._removals_swept_at = REMOVALS_KEPT
        self._unseen: deque[Queue] = deque()

    def make(self, record: QueueRecord, settings: QueueSettings) -> Queue:
        """Make a queue of this node, with what the disk has of it."""
        storage = self.storages.get(record.vhost)
        streams = self.streams.get(record.vhost)
        if streams is not None and settings.queue_type is QueueType.STREAM:
            log = streams.log(record.name)
            return self._stream(record, settings, log, log.backing)
        if storage is None:
            return self._queue(record, settings, _in_memory(settings))

        def on_disk(name: str) -> Level:
            backing = storage.backing(name, record.durable)
            backing.on_loaded = lambda: queue.loaded()  # noqa: PLW0108 - it is made below
            return backing

        levels = levels_of(settings, lambda priority: on_disk(level_name(record.name, priority)))
        if levels is None:
            queue = self._queue(record, settings, on_disk(record.name))
        else:
            for priority in storage.recovered_levels(record.name):
                levels.add_level(priority, on_disk(level_name(record.name, priority)))
            queue = self._queue(record, settings, levels)
        self._recall_head(queue)
        queue.backing.set_lazy(settings.lazy is True)
        if queue.message_count or (isinstance(queue, DeduplicatingQueue) and queue.is_recalling):
            # From before the start: some may have expired, and nobody has looked at the head yet.
            queue.may_expire = True
            if not self._unseen:
                self.clock.call_later(0, self._look_at_heads)
            self._unseen.append(queue)
        return queue

    def _stream(
        self, record: QueueRecord, settings: QueueSettings, log: StreamLog, backing: BackingQueue
    ) -> StreamQueue:
        log.held_from = lambda: self.held_from(record.vhost, record.name)
        queue = StreamQueue(record, settings, log, self, log.workers)
        queue.backing = backing
        queue.groups.cursors = self.cursors_of(record.vhost, record.name)
        return queue

    def make_promoted(
        self, record: QueueRecord, settings: QueueSettings, backing: BackingQueue
    ) -> Queue:
        """Of a queue whose messages this node has had a copy of."""
        streams = self.streams.get(record.vhost)
        if streams is not None and settings.queue_type is QueueType.STREAM:
            log = streams.logs[record.name]
            assert log.backing is backing.local(), "this copy was promoted"
            return self._stream(record, settings, log, backing)
        queue = self._queue(record, settings, backing)
        self._recall_head(queue)
        queue.may_expire = True
        return queue

    def _recall_head(self, queue: Queue) -> None:
        head_ms = self.head_times.get((queue.record.vhost, queue.record.name))
        if head_ms is not None and queue.waiting_times is not None:
            queue.waiting_times.recall(head_ms)

    def _queue(self, record: QueueRecord, settings: QueueSettings, backing: BackingQueue) -> Queue:
        if settings.deduplicates:
            return DeduplicatingQueue(record, settings, backing, self, self._spawn)
        if settings.queue_type is QueueType.QUORUM:
            _explain_strategy(record, settings)
            return QuorumQueue(record, settings, backing, self)
        return Queue(record, settings, backing, self)

    def _look_at_heads(self) -> None:
        """A few at a time: each may have to be read from the disk, and clients come first."""
        for _ in range(min(HEADS_PER_LOOK, len(self._unseen))):
            queue = self._unseen.popleft()
            if not queue.is_deleted:
                queue.loaded()
        if self._unseen:
            self.clock.call_later(LOOK_INTERVAL_MS, self._look_at_heads)

    def dead_letter(self, queue: Queue, messages: list[Message], reason: DeathReason) -> None:
        # Not at once: the target may be the very queue that is in the middle of something.
        if not self._dead:
            self.clock.call_later(0, self._publish_dead)
        self._dead.append((queue, messages, reason))

    def dead_letter_safely(
        self, queue: Queue, run: list[QueuedMessage], reason: DeathReason
    ) -> None:
        def publish() -> None:
            for queued in run:
                SafeDeadLetter(queue, queued, reason, find).begin()

        def find() -> VirtualHost | None:
            return self.vhosts.get(queue.record.vhost)

        self.clock.call_later(0, publish)

    def unused(self, queue: Queue) -> None:
        vhost = self.vhosts.get(queue.record.vhost)
        if vhost is not None:
            self._remove(vhost.queue_unused(queue))

    def expired(self, queue: Queue) -> None:
        vhost = self.vhosts.get(queue.record.vhost)
        if vhost is not None:
            self._remove(vhost.queue_expired(queue))

    async def removals_done(self) -> None:
        """Wait until queues that are on their way out at this moment are gone from the disk, too.

        Else one that is declared again under such a name could have its messages after a crash.
        """
        for removal in tuple(self._removals):
            await removal
        for storage in tuple(self.storages.values()):
            await storage.index.deletions_safe()

    def _remove(self, work: Coroutine[Any, Any, None]) -> None:
        if len(self._removals) >= self._removals_swept_at:
            self._removals = {removal for removal in self._removals if not removal.done()}
            self._removals_swept_at = max(REMOVALS_KEPT, 2 * len(self._removals))
        self._removals.add(self._spawn(work))

    def _publish_dead(self) -> None:
        self.turn_clock.now_ms = self.clock.now_ms()
        dead, self._dead = self._dead, deque()
        for queue, messages, reason in dead:
            vhost = self.vhosts.get(queue.record.vhost)
            if vhost is None:
                continue
            for message in messages:
                publish_dead(vhost, queue, message, reason)


def _explain_strategy(record: QueueRecord, settings: QueueSettings) -> None:
    if settings.dead_letter_strategy == AT_LEAST_ONCE and not settings.keeps_dead_letters:
        _log.warning(
            "dead letters are at-most-once: at-least-once needs overflow reject-publish and a "
            "dead-letter exchange",
            queue=str(record),
        )


def _in_memory(settings: QueueSettings) -> BackingQueue:
    levels = levels_of(settings, lambda priority: MemoryBacking())
    return MemoryBacking() if levels is None else levels


def levels_of(
    settings: QueueSettings, make_level: Callable[[int], Level]
) -> PriorityBacking | None:
    """For a queue that has several backings inside; None for most."""
    if settings.top_level is None:
        return None
    if settings.deduplicates:
        return IdKeepingBacking(settings.top_level, make_level)
    return PriorityBacking(settings.top_level, make_level)
