"""A stream as a queue: publishes are appended, consumers read, and nothing ever leaves by that.

Every consumer has a cursor of its own, so there is no rotation: a commit, a read that has ended or
a consumer that can take more again makes that consumer go on (`_feed`). What was committed lately
is in memory and shared by all who follow; whoever is further back has chunks read from the disk, a
stretch at a time, by a thread. An acknowledgement is a consumer's credit, and nothing else.
"""

from __future__ import annotations

from functools import partial

from warren.model.errors import not_implemented, precondition_failed
from warren.model.fields import Table
from warren.model.records import QueueRecord
from warren.queues.boundary import TAKEN, Publisher
from warren.queues.consumers import Consumer
from warren.queues.host import QueueHost
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings
from warren.storage.disk.workers import Workers
from warren.streams.consumer_groups import ConsumerGroups, require_group
from warren.streams.consumer_offsets import going_on_at, starting_moment_ms, starting_offset
from warren.streams.cursor import StreamCursor
from warren.streams.limits import SEGMENT_BYTES_DEFAULT, Limits
from warren.streams.log import StreamLog
from warren.streams.reading import Place, Stretch
from warren.streams.segments import Segment
from warren.wire.codec import Message, QueuedMessage


class StreamQueue(Queue):
    def __init__(
        self,
        record: QueueRecord,
        settings: QueueSettings,
        log: StreamLog,
        host: QueueHost,
        workers: Workers,
    ) -> None:
        Queue.__init__(self, record, settings, log.backing, host)
        self.waiting_times = None
        self.log = log
        self.workers = workers
        self.cursors: dict[Consumer, StreamCursor] = {}
        """Cursors of consumers that are served; a group's others wait, and have none."""
        self.seeking: set[Consumer] = set()
        """Consumers that begin at a moment whose offset is being looked up."""
        self.groups = ConsumerGroups(host.clock, workers.spawn, self.position_of)
        log.on_committed = self.pump
        log.apply(limits_of(settings))

    def publish(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        if self.is_deleted:
            return TAKEN
        return self.backing.publish(message, 0, publisher, sequence)

    # Consumers.

    def check_consumer(self, exclusive: bool) -> None:
        """Any number may read a stream, and being exclusive means nothing."""

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers[consumer] = None
        if self.groups.enter(consumer):
            self._begin(consumer)
            self._feed(consumer)

    def _begin(self, consumer: Consumer) -> None:
        """Have the consumer served from where it, or its group, goes on; delivers nothing yet."""
        self.rotation.add(consumer)
        self.log.follow(True)
        offset = self.groups.beginning(consumer)
        if offset is None:
            offset = starting_offset(self.log, consumer.arguments)
        else:
            offset = min(max(offset, self.log.first_offset), self.log.end_offset)
        cursor = StreamCursor(self.log.end_offset if offset is None else offset)
        self.cursors[consumer] = cursor
        if offset is None:
            cursor.is_reading = True
            self.seeking.add(consumer)
            moment_ms = starting_moment_ms(consumer.arguments, self.log.now_ms())
            self.workers.spawn(self._seek(consumer, cursor, moment_ms))
        self.groups.begun(consumer)

    def position_of(self, consumer: Consumer) -> int | None:
        """The first offset that the consumer has not acknowledged, or is to have next."""
        cursor = self.cursors.get(consumer)
        if cursor is None or consumer in self.seeking:
            return None
        unacked = consumer.deliveries.unacked.values()
        return min([q.sequence for q in unacked if q.holder is consumer], default=cursor.offset)

    async def _seek(self, consumer: Consumer, cursor: StreamCursor, moment_ms: int) -> None:
        segments = self.log.safe_segments()
        find = partial(self.log.reader.find_time, segments, moment_ms)
        try:
            offset = await self.workers.run_in_thread(find)
        except OSError:  # retention was quicker
            offset = self.log.first_offset
        cursor.is_reading = False
        self.seeking.discard(consumer)
        cursor.move(cursor.offset if offset is None else offset)
        self.groups.begun(consumer)
        self._feed(consumer)

    def hand_on_consumers(self) -> None:
        """They are about to be served elsewhere, and go on where they are."""
        self.groups.hand_on()
        for consumer, cursor in self.cursors.items():
            has_begun = bool(cursor.messages) or cursor.place is not None
            if has_begun or starting_offset(self.log, consumer.arguments) is not None:
                going_on_at(consumer, cursor.offset)
        self.cursors.clear()
        self.log.on_committed = None
        self.log.follow(False)

    def remove_consumer(self, consumer: Consumer) -> None:
        following = self.groups.leave(consumer)
        self.cursors.pop(consumer, None)
        self.seeking.discard(consumer)
        Queue.remove_consumer(self, consumer)
        if following is not None and not self.is_deleted:
            self._begin(following)
        if not self.cursors:
            self.log.follow(False)

    def consumer_ready(self, consumer: Consumer) -> None:
        self._feed(consumer)

    def pump(self) -> None:
        for consumer in list(self.cursors):
            self._feed(consumer)

    def _feed(self, consumer: Consumer) -> None:
        """Deliver what is at hand, and have more brought if that is not all."""
        cursor = self.cursors.get(consumer)
        if cursor is None or consumer.is_parked:
            return
        end = self.log.end_offset
        while cursor.offset < end:
            message = cursor.peek()
            if message is None:
                if not self._bring(consumer, cursor):
                    return
                continue
            if not consumer.can_take():
                consumer.park()
                return
            queued = QueuedMessage(message, cursor.offset, 0)
            cursor.offset += 1
            consumer.deliver(queued)

    def _bring(self, consumer: Consumer, cursor: StreamCursor) -> bool:
        """Whether something of use came at once; else it is being read."""
        if cursor.is_reading:
            return False
        if cursor.take_chunk() or cursor.take_recent(self.log.recent):
            return True
        if cursor.offset < self.log.first_offset:  # retention has overtaken it
            cursor.move(self.log.first_offset)
            return True
        if cursor.offset >= self.log.end_offset:  # what was left is damaged
            return True
        cursor.is_reading = True
        self.workers.spawn(self._read(consumer, cursor))
        return False

    async def _read(self, consumer: Consumer, cursor: StreamCursor) -> None:
        segments, place, offset = self.log.safe_segments(), cursor.place, cursor.offset
        try:
            stretch = await self.workers.run_in_thread(
                partial(self._read_stretch, segments, place, offset)
            )
        except OSError:
            # Retention removes files while they are read; then another place is the next.
            stretch = None
            await self.workers.pause(0)
        cursor.is_reading = False
        if stretch is None:
            cursor.place = None
        else:
            cursor.take_read(stretch)
        self._feed(consumer)

    def _read_stretch(
        self, segments: list[Segment], place: Place | None, offset: int
    ) -> Stretch | None:
        """What is at a place, or at an offset. Blocks."""
        segment = _of_place(segments, place)
        if segment is None or place is None:
            return self.log.reader.find_stretch(segments, offset)
        return self.log.reader.read(segment, place.position)

    # What streams do not do.

    def acked(self, run: list[QueuedMessage]) -> None:
        """The consumer has room again, which whoever keeps count of that knows already."""

    def requeued(self, run: list[QueuedMessage]) -> None:
        """They never left."""

    def rejected(self, run: list[QueuedMessage]) -> None:
        """They never left."""

    def get(self) -> QueuedMessage | None:
        raise not_implemented(f"basic.get not supported by stream queues {self.record}")

    def purge(self) -> int:
        raise not_implemented(f"queue.purge not supported by stream queues {self.record}")

    def loaded(self) -> None:
        self.pump()

    def apply_settings(self, settings: QueueSettings) -> None:
        if not self.is_deleted:
            self.settings = settings
            self.log.apply(limits_of(settings))

    def head_age_ms(self, now_ms: int) -> int | None:
        return None


def require_stream_consumer(
    record: QueueRecord, prefetch: int, no_ack: bool, arguments: Table
) -> None:
    """What a consumer must have agreed to, in RabbitMQ's order."""
    if not prefetch:
        raise precondition_failed(f"consumer prefetch count is not set for '{record}'")
    if no_ack:
        raise not_implemented(f"automatic acknowledgement not supported by stream queues {record}")
    require_group(record, arguments)


def _of_place(segments: list[Segment], place: Place | None) -> Segment | None:
    """The segment, if there is more in it at that place."""
    if place is None:
        return None
    found = (s for s in segments if s.base == place.base and s.size > place.position)
    return next(found, None)


def limits_of(settings: QueueSettings) -> Limits:
    size = settings.segment_bytes
    return Limits(
        segment_bytes=SEGMENT_BYTES_DEFAULT if size is None else size,
        bytes_max=settings.max_length_bytes,
        age_ms_max=settings.max_age_ms,
    )
