"""A queue whose master is another node, as the channels of this node see it.

Nothing is kept here but what is under way: publishes until their master has confirmed them (so that
they can be sent again when the link breaks), and deliveries that a client cannot take this moment.
Everything a queue decides (order, prefetch, limits, who is next) is decided at its master, where
each of our consumers has a `LinkConsumer` standing in for it.

The master of a mirrored queue may change. Then all of that moves: publishes are sent again under
their numbers, which the new master knows as far as it has them, and consumers are served from
there. Clients notice nothing but redeliveries, unless they asked to be told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from warren.cluster.link.control import (
    CancelConsumer,
    Consume,
    Counts,
    Delete,
    Get,
    Grant,
    Purge,
    encode_acked,
)
from warren.cluster.link.failover import master_down, wants_cancel_on_failover
from warren.cluster.link.stream_places import StreamPlaces
from warren.cluster.link.unconfirmed import Unconfirmed
from warren.cluster.link.waiting_publishes import Waiting
from warren.model.counters import MessageCounters
from warren.model.errors import AmqpError, SoftError
from warren.model.limits import LINK_MESSAGE_BYTES, LINK_WINDOW_DELIVERIES
from warren.model.records import QueueRecord
from warren.queues.boundary import (
    PENDING,
    REJECTED,
    TAKEN,
    AbstractQueue,
    Fetched,
    Holder,
    Publisher,
    QueueCounts,
    Until,
)
from warren.queues.consumers import Consumer
from warren.queues.settings import QueueSettings, QueueType
from warren.wire.codec import Delivery, Message, OutputBuffer, QueuedMessage
from warren.wire.tables import encode_table

if TYPE_CHECKING:
    from warren.cluster.link.client import LinkClient

_PUBLISH: Final = b"\x00\x3c\x00\x28\x00\x00"  # basic.publish and a ticket of old
_NACK: Final = Struct(">HHQB")
_REQUEUE: Final = 2
# A quarter of the window at a time: often enough to keep it open, seldom enough to be cheap.
GRANT_DELIVERIES: Final = LINK_WINDOW_DELIVERIES // 4


class RemoteQueue(AbstractQueue):
    def __init__(self, record: QueueRecord, settings: QueueSettings, asker: LinkClient) -> None:
        self.record = record
        self.settings = settings
        self.counters = MessageCounters()
        self.asker = asker
        self.is_deleted = False
        self.is_here = False
        """True once this node has become its master: then another object is the queue."""
        self.is_mirrored = False
        """Whether somebody else will be its master when the one it has is lost."""
        self.handle = 0
        """0 while nobody here has used it."""
        self.output: OutputBuffer | None = None
        """Where publishes and settlements go; None while there is no link."""
        self.origin = ""
        """Under which a mirrored queue's copies know how far our numbers have come."""
        self.number = 0
        self.doubtful = 0
        """The last publish that a former master may have had, and delivered."""
        self.sent = 0
        self.unconfirmed: deque[Unconfirmed] = deque()
        self.consumers: dict[bytes, Consumer] = {}
        self._resuming: dict[Consumer, bool] = {}
        """Consumers that are to be served again, and whether the master is being asked to."""
        self._consumer_number = 0
        self._names: dict[Consumer, bytes] = {}
        self._held: dict[Consumer, deque[Delivery]] = {}
        self._passed_on: dict[Consumer, int] = {}
        is_stream = settings.queue_type is QueueType.STREAM
        self._places = StreamPlaces() if is_stream else None
        self._fetched: Delivery | None = None
        # The method of the last publish: most are like the one before.
        self._route_key: bytes | None = None
        self._publish_method = b""
        self.epoch = 0
        """Grows with every link: settlements of deliveries that came over an older one are void."""

    # Publishing.

    def publish(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        if self.is_deleted:
            return TAKEN
        if self.handle == 0 and not self.asker.open(self):
            return REJECTED
        self.number += 1
        self.unconfirmed.append(Unconfirmed(self.number, publisher, sequence, message))
        credit = self.asker.credit
        credit.charge(len(message.body) + LINK_MESSAGE_BYTES)
        if self.output is not None:
            self._send(message)
        return TAKEN if publisher is None else PENDING

    def _send(self, message: Message) -> None:
        if message.route_key is not self._route_key:
            self._route_key = message.route_key
            self._publish_method = _PUBLISH + message.route_key + b"\0"
        assert self.output is not None, "asked by who calls"
        self.output.content(self.handle, self._publish_method, message)

    def settled(self, number: int, multiple: bool, is_refused: bool) -> None:
        """The master's answer to publishes; numbers that were answered before are passed over."""
        unconfirmed = self.unconfirmed
        released = 0
        while unconfirmed:
            entry = unconfirmed[0]
            if entry.number > number:
                break
            unconfirmed.popleft()
            released += len(entry.message.body) + LINK_MESSAGE_BYTES
            if entry.publisher is None:
                continue
            if is_refused and entry.number == number:
                entry.publisher.rejected(entry.sequence)
            else:
                entry.publisher.confirmed(entry.sequence)
        if released:
            self.asker.release(released)

    def connected(self, output: OutputBuffer, received: int) -> None:
        """There is a link, and the master has all up to `received`: send the rest."""
        self.output = output
        self.epoch += 1
        for entry in self.unconfirmed:
            if entry.number > received:
                self._send(entry.message)
        # Now: whoever is served before `resume_consumers` runs is not among them.
        self._resuming |= dict.fromkeys(self.consumers.values(), False)
        self.consumers.clear()
        self._names.clear()
        if self._resuming:
            self.asker.listener.resumed(self)

    def disconnected(self) -> None:
        """The link broke. The master has taken back what our consumers had."""
        self._note_sent()
        self.output = None
        self._fetched = None
        if self.is_mirrored:
            for held in self._held.values():
                held.clear()
            self._void_deliveries()
        else:
            self._cancel_consumers()

    def _void_deliveries(self) -> None:
        """Stop counting what consumers have towards their prefetch: all of it is delivered again.

        A stream goes on behind it instead.
        """
        if self._places is None:
            for consumer in (*self.consumers.values(), *self._resuming):
                consumer.deliveries.void(consumer, Holder(self))

    def _note_sent(self) -> None:
        if self.output is not None:
            self.sent = self.number

    def master_restarted(self) -> None:
        """Note that the master is another process: the last one may have delivered publishes."""
        self.doubtful = self.sent

    def move(self, asker: LinkClient) -> None:
        """The queue has another master, or none for the moment."""
        former, self.asker = self.asker, asker
        if former is asker:
            return
        self._cancel_those_who_asked()
        self.disconnected()
        self.doubtful = self.sent
        under_way = sum([len(e.message.body) + LINK_MESSAGE_BYTES for e in self.unconfirmed])
        former.release(under_way)
        asker.charge(under_way)
        former.hand_over(self, asker)

    def begin_elsewhere(
        self, number: int, waiting: Sequence[Waiting], consumers: Sequence[Consumer]
    ) -> None:
        """This node was its master: what had no answer there, and whom to serve."""
        self.number = self.doubtful = self.sent = number
        for each in waiting:
            entry = Unconfirmed(each.number, each.publisher, each.sequence, each.message)
            self.unconfirmed.append(entry)
            self.asker.charge(len(each.message.body) + LINK_MESSAGE_BYTES)
        for consumer in consumers:
            consumer.queue = self
            self._resuming[consumer] = False
        self._cancel_those_who_asked()
        self._void_deliveries()
        if self.unconfirmed or self._resuming:
            self.asker.open(self)

    def give_up_here(self) -> tuple[list[Consumer], list[Unconfirmed]]:
        """This node has become its master: whom to serve, and what was on its way elsewhere."""
        self.is_here = True
        self._note_sent()
        self._cancel_those_who_asked()
        self._void_deliveries()
        consumers = [*self.consumers.values(), *self._resuming]
        if self._places is not None:
            for consumer in consumers:
                self._places.go_on(consumer)
        unconfirmed = list(self.unconfirmed)
        self._resuming.clear()
        under_way = sum([len(e.message.body) + LINK_MESSAGE_BYTES for e in unconfirmed])
        self.asker.release(under_way)
        self.unconfirmed.clear()
        self.doubtful = self.sent
        self.consumers.clear()
        self._names.clear()
        self.asker.close(self)
        self.asker.drop_questions(self)
        return consumers, unconfirmed

    def _cancel_those_who_asked(self) -> None:
        for name, consumer in tuple(self.consumers.items()):
            if wants_cancel_on_failover(consumer):
                self.consumer_cancelled(name)
        self._cancel_resuming([c for c in self._resuming if wants_cancel_on_failover(c)])

    async def resume_consumers(self) -> None:
        """Have all consumers served again, over the link that stands now."""
        for consumer in tuple(self._resuming):
            if self._resuming.get(consumer) is not False:
                continue  # it has gone, or come master with the queue, or is asked for already
            self._resuming[consumer] = True
            try:
                await self.start_consumer(consumer, _nothing)
            except AmqpError:
                self._cancel_resuming([consumer] if consumer in self._resuming else [])
            self._resuming.pop(consumer, None)

    def lost(self) -> None:
        """The master is gone, and with it the answer to what was under way."""
        self.disconnected()
        self.handle = 0
        unconfirmed, self.unconfirmed = self.unconfirmed, deque()
        for entry in unconfirmed:
            self.asker.release(len(entry.message.body) + LINK_MESSAGE_BYTES)
            if entry.publisher is not None:
                entry.publisher.rejected(entry.sequence)

    # Consuming.

    async def start_consumer(self, consumer: Consumer, started: Callable[[], None]) -> None:
        """Have it served by the master; `started` is called before its first delivery."""
        name = self._new_consumer_name()

        def accepted() -> None:
            if consumer.is_cancelled:
                self.asker.tell(CancelConsumer(self.handle, name.decode()))
                return
            self.consumers[name] = consumer
            self._names[consumer] = name
            self._held[consumer] = deque()
            self._passed_on[consumer] = 0
            started()

        try:
            begun = await self.asker.call(
                self, lambda n: self._consume(n, consumer, name), accepted
            )
        except BaseException:
            # Nobody waits any more; if the master has it by now, it must not keep it.
            self.asker.tell(CancelConsumer(self.handle, name.decode()))
            raise
        if self._places is not None and begun and not consumer.is_cancelled:
            self._places.begun(consumer, begun[0])

    def _new_consumer_name(self) -> bytes:
        """Whichever master it is for: what one was asked, another may answer."""
        self._consumer_number += 1
        return b"%d" % self._consumer_number

    def _consume(self, number: int, consumer: Consumer, name: bytes) -> Consume:
        if self._places is not None:
            self._places.go_on(consumer)
        return Consume(
            number,
            self.handle,
            name.decode(),
            consumer.tag,
            consumer.no_ack,
            consumer.prefetch,
            consumer.exclusive,
            consumer.priority,
            encode_table(consumer.arguments),
        )

    def name_of(self, consumer: Consumer) -> str:
        """What its master knows it by; nothing if it has gone."""
        return self._names.get(consumer, b"").decode()

    def delivered(self, delivery: Delivery) -> None:
        if not delivery.consumer_tag:
            self._fetched = delivery  # the answer to a Get comes right behind it
            return
        consumer = self.consumers.get(delivery.consumer_tag)
        if consumer is None:
            self._return(delivery.delivery_tag)  # it was cancelled while this was under way
            return
        held = self._held[consumer]
        if held or consumer.is_parked or not consumer.can_take():
            held.append(delivery)
            if not consumer.is_parked:
                consumer.park()
            return
        self._pass_on(consumer, delivery)

    def _pass_on(self, consumer: Consumer, delivery: Delivery) -> None:
        if consumer.no_ack:
            consumer.hand_over(delivery.message, delivery.redelivered)
        else:
            consumer.deliver(self._queued(delivery))
        passed_on = self._passed_on[consumer] + 1
        if passed_on == GRANT_DELIVERIES:
            passed_on = 0
            name = self._names[consumer].decode()
            self.asker.tell(Grant(self.handle, name, GRANT_DELIVERIES))
        self._passed_on[consumer] = passed_on
        if self._places is not None:
            self._places.passed_on(consumer, delivery.message)

    def _queued(self, delivery: Delivery) -> QueuedMessage:
        queued = QueuedMessage(delivery.message, delivery.delivery_tag, 0)
        queued.redelivered = delivery.redelivered
        queued.store_offset = self.epoch
        return queued

    def consumer_ready(self, consumer: Consumer) -> None:
        held = self._held.get(consumer)
        while held and consumer.can_take():
            self._pass_on(consumer, held.popleft())
        if held:
            consumer.park()

    def remove_consumer(self, consumer: Consumer) -> None:
        consumer.is_cancelled = True
        self._resuming.pop(consumer, None)
        self._passed_on.pop(consumer, None)
        if self._places is not None:
            self._places.forget(consumer)
        held = self._held.pop(consumer, ())
        name = self._names.pop(consumer, None)
        if name is None:
            return
        self.consumers.pop(name, None)
        for delivery in held:
            if not consumer.no_ack:
                self._return(delivery.delivery_tag)
        self.asker.tell(CancelConsumer(self.handle, name.decode()))

    def consumer_cancelled(self, name: bytes) -> None:
        """The master has cancelled it, or the link it was served over is gone."""
        consumer = self.consumers.pop(name, None)
        if consumer is not None:
            self.remove_consumer(consumer)
            if consumer.on_cancelled is not None:
                consumer.on_cancelled(consumer)

    def _cancel_consumers(self) -> None:
        for name in tuple(self.consumers):
            self.consumer_cancelled(name)
        self._cancel_resuming(list(self._resuming))

    def _cancel_resuming(self, consumers: list[Consumer]) -> None:
        for consumer in consumers:
            self.remove_consumer(consumer)
            if consumer.on_cancelled is not None:
                consumer.on_cancelled(consumer)

    # Settling.

    def acked(self, run: list[QueuedMessage]) -> None:
        """Clients acknowledge many at once, and most in the order they came: told as one."""
        if self.output is None:
            return
        first = last = 0
        for queued in run:
            if queued.store_offset != self.epoch:
                continue
            if first != 0 and queued.sequence == last + 1:
                last += 1
                continue
            if first != 0:
                self._send_acked(first, last)
            first = last = queued.sequence
        if first != 0:
            self._send_acked(first, last)

    def _send_acked(self, first: int, last: int) -> None:
        assert self.output is not None, "asked by who calls"
        if first == last:
            self.output.ack(self.handle, first, False)
        else:
            self.output.method(self.handle, encode_acked(first, last - first + 1))

    def requeued(self, run: list[QueuedMessage]) -> None:
        self._nack(run, _REQUEUE)

    def rejected(self, run: list[QueuedMessage]) -> None:
        self._nack(run, 0)

    def _nack(self, run: list[QueuedMessage], bits: int) -> None:
        if self.output is None:
            return
        for queued in run:
            if queued.store_offset == self.epoch:
                self.output.method(self.handle, _NACK.pack(60, 120, queued.sequence, bits))

    def _return(self, delivery_tag: int) -> None:
        if self.output is not None:
            self.output.method(self.handle, _NACK.pack(60, 120, delivery_tag, _REQUEUE))

    # Questions.

    async def fetch(self, until: Until) -> Fetched:
        found: list[QueuedMessage | None] = []

        def answered() -> None:
            delivery, self._fetched = self._fetched, None
            found.append(None if delivery is None else self._queued(delivery))

        (left,) = await self.asker.call(self, lambda n: Get(n, self.handle), answered)
        return Fetched(found[0], left)

    async def counts(self) -> QueueCounts:
        ready, consumers = await self.asker.call(self, lambda n: Counts(n, self.handle))
        return QueueCounts(ready, consumers)

    async def purge(self) -> int:
        (count,) = await self.asker.call(self, lambda number: Purge(number, self.handle))
        return count

    async def delete_if(
        self, if_unused: bool, if_empty: bool, remove: Callable[[], Awaitable[None]]
    ) -> int:
        """Have the master remove it, by `remove` of its own."""
        try:
            (count,) = await self.asker.call(
                self, lambda number: Delete(number, self.handle, if_unused, if_empty)
            )
        except SoftError:
            # The master did it, and could not say so any more.
            if self.is_deleted:
                return 0
            raise
        return count

    def require_available(self) -> None:
        if self.asker.is_lost:
            raise master_down(self.record, self.asker.homes)

    # What a queue of this node does and this one leaves to its master.

    def apply_settings(self, settings: QueueSettings) -> None:
        self.settings = settings

    def touch(self) -> None:
        """Questions asked of the master count as use there."""

    def pump(self) -> None:
        """The master delivers."""

    def delete(self) -> None:
        """What is under way has had its answer: the queue took it, or would have."""
        self.is_deleted = True
        self._cancel_consumers()
        self.settled(self.number, True, False)
        self.asker.close(self)
        if self.asker.output is None:
            self.asker.drop_questions(self)  # nobody is there who could answer
        self.lost()


def _nothing() -> None:
    """The client was told long ago that it consumes."""
