"""A classic queue: takes messages, hands them to consumers, takes them back.

The path of most messages is the beginning of `publish`: no rules apply, a consumer is ready, the
message goes out. Everything with a rule to it (time to live, length limits) takes the long way,
`_publish_by_rules`, so that the rules cost nothing to queues without them.

Expired messages leave when they reach the head, by a timer set for the head, or just before
anything is delivered or fetched: a client never sees one. Those further back wait, as in RabbitMQ.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from warren.model.clock import TimerHandle
from warren.model.counters import MessageCounters, QueueLengths
from warren.model.errors import QueueGone, access_refused, precondition_failed
from warren.model.next_turn import NextTurn
from warren.model.records import QueueRecord
from warren.queues.arrival import Arrival
from warren.queues.backing import BackingQueue
from warren.queues.boundary import (
    REJECTED,
    TAKEN,
    AbstractQueue,
    Answer,
    Fetched,
    Publisher,
    QueueCounts,
    Until,
)
from warren.queues.consumers import Consumer, ConsumerRotation
from warren.queues.host import DeathReason, QueueHost
from warren.queues.idle_expiry import IdleExpiry
from warren.queues.length_limit import may_drop_at_once, overflows, would_overflow
from warren.queues.settings import Overflow, QueueSettings
from warren.queues.waiting_times import WaitingTimes
from warren.wire.codec import Message, QueuedMessage

# A limit may come by policy, to a queue that is far beyond it.
DROPPED_PER_TURN_MAX: Final = 4_096
DELIVERED_PER_TURN_MAX: Final = 1_024
"""A consumer may come to a queue that has hundreds of thousands of messages."""

# Numbers that the .pxd makes C variables.
_DELIVERED_PER_TURN_MAX = DELIVERED_PER_TURN_MAX


class Queue(AbstractQueue):
    def __init__(
        self,
        record: QueueRecord,
        settings: QueueSettings,
        backing: BackingQueue,
        host: QueueHost,
    ) -> None:
        self.record = record
        self.counters = MessageCounters()
        self.settings = settings
        self.backing = backing
        self.host = host
        self.rotation = ConsumerRotation()
        self.consumers: dict[Consumer, None] = {}
        self.exclusive_consumer: Consumer | None = None
        self.active_consumer: Consumer | None = None
        self.is_deleted = False
        self.waiting_for_load: list[Callable[[], None]] = []
        self.has_rules = _has_rules(settings)
        self.is_held = False
        # Clients that are giving back many messages, part by part.
        self.returning = 0
        self.is_pumping = False
        self.may_expire = False
        self.expiry_timer: TimerHandle | None = None
        self.expiry_due_ms = 0
        self.idle_expiry = IdleExpiry(self) if settings.expires_ms is not None else None

        self.turn_clock = host.turn_clock
        self.waiting_times: WaitingTimes | None = None
        self.lengths: QueueLengths | None = None
        if backing.length:
            self._begin_waiting()

    @property
    def message_count(self) -> int:
        return self.backing.length

    @property
    def consumer_count(self) -> int:
        return len(self.consumers)

    def publish(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        if self.has_rules or message.properties.expiration_ms >= 0:
            return self._publish_by_rules(message, publisher, sequence, False)
        if self.backing.length == 0:
            consumer = self.rotation.next_ready()
            if consumer is not None:
                if consumer.no_ack:
                    consumer.hand_over(message, False)
                    return TAKEN
                return self._hand_to(consumer, QueuedMessage(message, 0, 0), publisher, sequence)
        return self._keep(message, 0, publisher, sequence)

    def publish_again(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        return self._publish_by_rules(message, publisher, sequence, True)

    def _hand_to(
        self, consumer: Consumer, queued: QueuedMessage, publisher: Publisher | None, sequence: int
    ) -> int:
        """The queue is empty: straight to the consumer, by way of no queue at all."""
        outcome = self.backing.publish_delivered(queued, publisher, sequence)
        consumer.deliver(queued)
        return outcome

    def _keep(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> int:
        waiting = self.waiting_times
        if waiting is None:
            waiting = self._begin_waiting()
        waiting.arrive(self.turn_clock.now_ms, self.backing.length)
        return self.backing.publish(message, expires_at_ms, publisher, sequence)

    def _publish_by_rules(
        self, message: Message, publisher: Publisher | None, sequence: int, redelivered: bool
    ) -> int:
        if self.is_deleted:
            return TAKEN
        limits = self.settings
        if limits.overflow is not Overflow.DROP_HEAD and would_overflow(
            limits, self.backing, message
        ):
            if limits.overflow is Overflow.REJECT_PUBLISH_DLX:
                self._dead_letter([message], DeathReason.MAXLEN)
            return REJECTED
        ttl_ms = self._ttl_of(message)
        expires_at_ms = 0 if ttl_ms < 0 else self.host.clock.now_ms() + ttl_ms
        self._drop_expired()
        if self.backing.length == 0 and not self.is_held:
            consumer = self.rotation.next_ready()
            if consumer is not None:
                if consumer.no_ack:
                    consumer.hand_over(message, redelivered)
                    return TAKEN
                queued = QueuedMessage(message, 0, expires_at_ms)
                queued.redelivered = redelivered
                return self._hand_to(consumer, queued, publisher, sequence)
        if ttl_ms == 0 and self.settings.dead_letter_exchange is None:
            return TAKEN
        arrival = None
        if publisher is not None and may_drop_at_once(self.settings, self.backing, message):
            publisher = arrival = Arrival(publisher)
        outcome = self._keep(message, expires_at_ms, publisher, sequence)
        if redelivered:
            self.backing.mark_redelivered(message)
        self.may_expire = self.may_expire or ttl_ms >= 0
        self._drop_overflow()
        self._schedule_expiry()
        return outcome if arrival is None else arrival.answer(outcome)

    def _ttl_of(self, message: Message) -> int:
        """Milliseconds the message may wait here; -1 for ever."""
        own = message.properties.expiration_ms
        ttl = self.settings.message_ttl_ms
        if ttl is None:
            return max(own, -1)
        return ttl if own < 0 else min(own, ttl)

    def pump(self) -> None:
        """Deliver while there is something ready and somebody to take it."""
        backing = self.backing
        delivered = 0
        while backing.length and self.returning == 0:
            if delivered == _DELIVERED_PER_TURN_MAX:
                self._pump_on_soon()
                break
            if self.may_expire:
                self._drop_expired()
            consumer = self.rotation.next_ready()
            if consumer is None:
                break
            queued = backing.fetch(not consumer.no_ack)
            if queued is None:
                break
            delivered += 1
            if consumer.no_ack:
                consumer.hand_over(queued.message, queued.redelivered)
            else:
                consumer.deliver(queued)
            if self.may_expire:
                self._schedule_expiry()
        if delivered:
            self._count_waiting(delivered)

    def _pump_on_soon(self) -> None:
        """Go on delivering in the next turn of the loop: others have theirs first."""
        if not self.is_pumping:
            self.is_pumping = True
            self.host.clock.call_later(0, self._pump_on)

    def _pump_on(self) -> None:
        self.is_pumping = False
        self.pump()

    def _begin_waiting(self) -> WaitingTimes:
        self.waiting_times = WaitingTimes(self.turn_clock.now_ms, self.backing.length)
        return self.waiting_times

    def _count_waiting(self, left: int) -> None:
        """So many have just left from the head."""
        waiting = self.waiting_times
        if waiting is None:
            waiting = self._begin_waiting()
        waiting.leave(self.turn_clock.now_ms, self.backing.length, left)

    def head_age_ms(self, now_ms: int) -> int | None:
        """How long the oldest message that is ready has been waiting; None if there is none."""
        if not self.backing.length or self.waiting_times is None:
            return None
        return self.waiting_times.age_ms(now_ms, self.backing.length)

    def loaded(self) -> None:
        """Messages that the backing did not have at hand are there now."""
        self._drop_expired()
        self._drop_overflow()
        self._schedule_expiry()
        self.wake_waiting()
        self.pump()

    def wake_waiting(self) -> None:
        """Whoever waits for the disk looks again."""
        waiting, self.waiting_for_load = self.waiting_for_load, []
        for tell in waiting:
            tell()

    def when_loaded(self, tell: Callable[[], None]) -> None:
        """Call when what `get` did not find has been read."""
        self.waiting_for_load.append(tell)

    def fetch(self, until: Until) -> Answer[Fetched]:
        queued = self.get()
        if queued is None and self.backing.length:
            return self._fetch_loaded(until)
        return Fetched(queued, self.backing.length)

    async def _fetch_loaded(self, until: Until) -> Fetched:
        """Wait for the head, which is on a disk.

        A turn of the loop lies between the look that found nothing and this. The head may have
        come in it, and nobody would tell of it again: so look once more before waiting.
        """
        while True:
            if self.is_deleted:  # or another node is its master
                raise QueueGone(str(self.record))
            queued = self.get()
            if queued is not None or not self.backing.length:
                return Fetched(queued, self.backing.length)
            await until(self.when_loaded)

    def get(self) -> QueuedMessage | None:
        """Take the head. None although messages are ready: it is being read (`when_loaded`)."""
        self.touch()
        self._drop_expired()
        queued = self.backing.fetch(True) if self.returning == 0 else None
        if queued is not None:
            self._count_waiting(1)
        self._schedule_expiry()
        return queued

    def acked(self, run: list[QueuedMessage]) -> None:
        self.backing.ack(run)

    def requeued(self, run: list[QueuedMessage]) -> None:
        if self.is_deleted:
            return
        for queued in run:
            queued.redelivered = True
            self.may_expire = self.may_expire or queued.expires_at_ms != 0
        if self.waiting_times is None:
            self._begin_waiting()
        self.backing.requeue(run)
        self._drop_expired()
        self._drop_overflow()
        self._schedule_expiry()
        self.pump()

    def begin_return(self) -> None:
        self.returning += 1

    def end_return(self) -> None:
        self.returning -= 1
        if self.returning == 0:
            self.wake_waiting()
            self.pump()

    def rejected(self, run: list[QueuedMessage]) -> None:
        if self.is_deleted:
            return
        self._discard(self.backing.own(run), DeathReason.REJECTED)

    def counts(self) -> QueueCounts:
        self.touch()
        return QueueCounts(self.backing.length, len(self.consumers))

    def purge(self) -> Answer[int]:
        """The messages are gone at once; the answer waits until the disk has been told of all."""
        count = self.backing.purge()
        return self._purged(count) if self.backing.local().is_discarding() else count

    async def _purged(self, count: int) -> int:
        while self.backing.local().is_discarding():
            await NextTurn()
        return count

    async def delete_if(
        self, if_unused: bool, if_empty: bool, remove: Callable[[], Awaitable[None]]
    ) -> int:
        if if_empty and self.backing.length:
            raise precondition_failed(f"{self.record} not empty")
        if if_unused and self.consumers:
            raise precondition_failed(f"{self.record} in use")
        ready = self.backing.length
        await remove()
        return ready

    def apply_settings(self, settings: QueueSettings) -> None:
        """The policy has changed. Times to live are for messages that come from now on."""
        if self.is_deleted:
            return
        before, self.settings = self.settings, settings
        self.has_rules = self.is_held or _has_rules(settings)
        if settings.expires_ms != before.expires_ms:
            if self.idle_expiry is not None:
                self.idle_expiry.stop()
            self.idle_expiry = IdleExpiry(self) if settings.expires_ms is not None else None
        if settings.lazy is not None:
            self.backing.set_lazy(settings.lazy)
        self._drop_overflow()
        self._schedule_expiry()

    def touch(self) -> None:
        """Somebody uses the queue: x-expires counts from now."""
        if self.idle_expiry is not None:
            self.idle_expiry.touch()

    def check_consumer(self, exclusive: bool) -> None:
        """Whether another consumer may come, and an exclusive one at that."""
        taken = self.exclusive_consumer is not None
        if taken or (exclusive and (self.consumers or self.settings.single_active_consumer)):
            raise access_refused(f"{self.record} in exclusive use")

    def start_consumer(self, consumer: Consumer, started: Callable[[], None]) -> None:
        self.check_consumer(consumer.exclusive)
        started()
        self.add_consumer(consumer)

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers[consumer] = None
        if consumer.exclusive:
            self.exclusive_consumer = consumer
        if self.settings.single_active_consumer:
            if self.active_consumer is not None:
                return
            self.active_consumer = consumer
        self.rotation.add(consumer)
        self.pump()

    def remove_consumer(self, consumer: Consumer) -> None:
        """Delivers nothing, even if another one takes over: `pump` when all is in its place."""
        if consumer not in self.consumers:
            return
        consumer.is_cancelled = True
        del self.consumers[consumer]
        self.rotation.discard(consumer)
        if self.exclusive_consumer is consumer:
            self.exclusive_consumer = None
        if self.active_consumer is consumer:
            self._activate_next_consumer()
        if not self.consumers and not self.is_deleted:
            self.touch()
            if self.record.auto_delete:
                self.host.unused(self)

    def _activate_next_consumer(self) -> None:
        """Single active consumer: the highest priority, then the longest waiting, takes over."""
        self.active_consumer = max(self.consumers, key=lambda c: c.priority, default=None)
        if self.active_consumer is not None and not self.active_consumer.is_parked:
            self.rotation.add(self.active_consumer)

    def consumer_ready(self, consumer: Consumer) -> None:
        if self.settings.single_active_consumer and consumer is not self.active_consumer:
            return
        self.rotation.add(consumer)
        self.pump()

    def hold(self) -> None:
        """Deliver nothing until `release`; its backing has nothing to fetch meanwhile."""
        self.is_held = self.has_rules = True

    def release(self) -> None:
        self.is_held = False
        self.has_rules = self.is_deleted or _has_rules(self.settings)
        self.loaded()

    def stop(self) -> None:
        """The queue goes on elsewhere: nothing happens here any more."""
        self.is_deleted = True
        self.has_rules = True
        if self.expiry_timer is not None:
            self.expiry_timer.cancel()
        if self.idle_expiry is not None:
            self.idle_expiry.stop()

    def delete(self) -> None:
        """Stop: consumers are told, messages are gone, later settlements mean nothing."""
        self.stop()
        for consumer in list(self.consumers):
            self.remove_consumer(consumer)
            if consumer.on_cancelled is not None:
                consumer.on_cancelled(consumer)
        self.backing.delete()
        self.loaded()

    def _drop_overflow(self) -> None:
        """Not in a queue that refuses instead, which a requeue may well make longer than it is."""
        if self.settings.overflow is not Overflow.DROP_HEAD:
            return
        dropped: list[Message] = []
        while self.backing.length and overflows(self.settings, self.backing):
            if len(dropped) == DROPPED_PER_TURN_MAX:
                self.host.clock.call_later(0, self._drop_overflow)
                break
            queued = self.backing.fetch(False)
            if queued is None:
                break  # its head is being read; `loaded` goes on
            dropped.append(queued.message)
        if dropped:
            self._dead_letter(dropped, DeathReason.MAXLEN)

    def _drop_expired(self) -> None:
        if not self.may_expire:
            return
        now_ms = self.host.clock.now_ms()
        dropped = []
        head = self.backing.head()
        while head is not None and head.expires_at_ms != 0 and head.expires_at_ms <= now_ms:
            dropped.append(head.message)
            self.backing.fetch(False)
            head = self.backing.head()
        if self.backing.length == 0:
            self.may_expire = False
        if dropped:
            self._dead_letter(dropped, DeathReason.EXPIRED)

    def _schedule_expiry(self) -> None:
        """Have the timer run for the message that is at the head now."""
        if not self.may_expire:
            return
        head = self.backing.head()
        if head is None or head.expires_at_ms == 0:
            return
        if self.expiry_timer is not None:
            if self.expiry_due_ms <= head.expires_at_ms:
                return
            self.expiry_timer.cancel()
        self.expiry_due_ms = head.expires_at_ms
        wait_ms = max(0, head.expires_at_ms - self.host.clock.now_ms())
        self.expiry_timer = self.host.clock.call_later(wait_ms, self._expiry_due)

    def _expiry_due(self) -> None:
        self.expiry_timer = None
        self._drop_expired()
        self._schedule_expiry()

    def _discard(self, run: list[QueuedMessage], reason: DeathReason) -> None:
        """Remove unacknowledged messages, and dead-letter them; their bodies may be on disk."""
        if self.settings.dead_letter_exchange is None:
            self.backing.ack(run)
            return

        def have(loaded: list[QueuedMessage]) -> None:
            if not self.is_deleted:
                self.backing.ack(run)
                self._dead_letter([queued.message for queued in loaded], reason)

        self.backing.load_unacked(run, have)

    def _dead_letter(self, messages: list[Message], reason: DeathReason) -> None:
        if self.settings.dead_letter_exchange is not None:
            self.host.dead_letter(self, messages, reason)


def _has_rules(settings: QueueSettings) -> bool:
    return (
        settings.message_ttl_ms is not None
        or settings.max_length is not None
        or settings.max_length_bytes is not None
    )
