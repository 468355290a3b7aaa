"""The clients of a simulated node: a connection that publishes with confirms and consumes.

They use queues as a channel does. A connection that breaks is made anew; what it had unacknowledged
goes back, and what it had published and heard nothing of is of unknown fate.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from replica_world import PERSISTENT, TRANSIENT
from warren.channels.confirms import Confirms
from warren.model.counters import MessageCounters
from warren.model.errors import AmqpError
from warren.queues.boundary import PENDING, REJECTED, AbstractQueue
from warren.queues.consumers import Consumer
from warren.queues.delivery import Deliveries
from warren.queues.queue import Queue
from warren.server.outgoing import Outgoing
from warren.wire.codec import Ack, Delivery, FrameReader, Message, MethodFrame, PropertyBlock

if TYPE_CHECKING:
    from cluster_simulation.process import Process

FRAME_MAX: Final = 1 << 20
ROUTE_KEY: Final = b"\x00\x01q"
QUEUE: Final = "q"
RECONNECT_S: Final = 0.05
CONSUME_AGAIN_S: Final = 0.2
_NACK: Final = b"\x00\x3c\x00\x78"


class ClientSocket:
    """The part of an asyncio transport that `Outgoing` uses."""

    def __init__(self, connection: ClientChannel) -> None:
        self._connection = connection
        self._reader = FrameReader(FRAME_MAX, FRAME_MAX)
        self._reader.is_client = True

    def write(self, data: bytes) -> None:
        self._connection.received(self._reader.feed(data))

    def abort(self) -> None:
        self._connection.abort()

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """There is room for everything."""

    def get_extra_info(self, name: str) -> object:
        return True if name == "sslcontext" else None

    def get_write_buffer_size(self) -> int:
        return 0


class ClientChannel:
    def __init__(self, client: Client) -> None:
        process = client.process
        self.client = client
        self.is_open = True
        self.process = process
        self.witness = process.world.witness
        self.outgoing = Outgoing(FRAME_MAX, process.flush_scheduler)
        transport: Any = ClientSocket(self)
        self.outgoing.attach(transport)
        output = self.outgoing.output
        self.confirms = Confirms(1, output, self.outgoing.confirms_due, MessageCounters())
        self.deliveries = Deliveries(1, output, process.turn_clock, MessageCounters())
        self.unconfirmed: dict[int, int] = {}
        """Bodies by the number of their publish."""
        self.consumers: list[Consumer] = []
        self._bodies: dict[int, int] = {}
        self._origin = process.world.next_number()

    @property
    def queue(self) -> AbstractQueue | None:
        vhost = self.process.broker.vhosts.get("/")
        return None if vhost is None else vhost.queues.get(QUEUE)

    # Publishing.

    def publish(self, body: int, message: Message) -> None:
        queue = self.queue
        if queue is None:
            return
        sequence = self.confirms.begin()
        self.unconfirmed[sequence] = body
        self.witness.published(self._origin, body, message)
        outcome = queue.publish(message, self.confirms, sequence)
        if outcome == PENDING:
            self.confirms.wait_for(sequence, 1)
        elif outcome == REJECTED:
            self.confirms.rejected(sequence)
        else:
            self.confirms.taken(sequence)

    def _answered(self, tag: int, multiple: bool, is_confirmed: bool) -> None:
        tags = [each for each in self.unconfirmed if each <= tag] if multiple else [tag]
        for each in tags:
            body = self.unconfirmed.pop(each, None)
            if body is not None and is_confirmed:
                self.witness.heard_confirm(self.process, body)
            elif body is not None:
                self.witness.rejected.add(body)

    # Consuming.

    def consume(self, prefetch: int, no_ack: bool) -> None:
        queue = self.queue
        if queue is None or not self.is_open or not self.process.tenure.holds():
            self.process.loop.call_later(CONSUME_AGAIN_S, self.consume, prefetch, no_ack)
            return
        consumer = Consumer(queue, self.deliveries, "t", no_ack, prefetch)
        consumer.on_cancelled = self._cancelled
        self.consumers.append(consumer)
        try:
            starting = queue.start_consumer(consumer, lambda: None)
        except AmqpError:
            self._cancelled(consumer)
            return
        if starting is not None:
            self.process.spawn(self._start(consumer, starting))

    async def _start(self, consumer: Consumer, starting: Coroutine[Any, Any, None]) -> None:
        try:
            await starting
        except AmqpError:
            self._cancelled(consumer)

    def _cancelled(self, consumer: Consumer) -> None:
        if consumer not in self.consumers:
            return  # its connection has ended, and with it all consumers
        self.consumers.remove(consumer)
        if self.is_open and self.client.is_consuming:
            prefetch, no_ack = consumer.prefetch, consumer.no_ack
            self.process.loop.call_later(CONSUME_AGAIN_S, self.consume, prefetch, no_ack)

    def received(self, events: list[Any]) -> None:
        """What the node has written to the client."""
        is_here = isinstance(self.queue, Queue)
        for event in events:
            if type(event) is Delivery:
                self._delivered(event, is_here)
            elif type(event) is Ack:
                if is_here:
                    self.witness.acts(self.process, "confirms")
                self._answered(event.delivery_tag, event.multiple, is_confirmed=True)
            elif type(event) is MethodFrame and event.payload.startswith(_NACK):
                tag = int.from_bytes(event.payload[4:12], "big")
                self._answered(tag, bool(event.payload[12] & 1), is_confirmed=False)

    def _delivered(self, delivery: Delivery, is_here: bool) -> None:
        body = int(delivery.message.body)
        if is_here:
            self.witness.delivers(self.process, self, delivery)
        self.witness.received(self, body, delivery.redelivered)
        tag = delivery.delivery_tag
        if tag not in self.deliveries.unacked:
            self.witness.acknowledged.add(body)  # nobody wants to hear of it again
            return
        self._bodies[tag] = body
        dice, world = self.process.dice, self.process.world
        fate = dice.random()
        if fate < 0.95 or world.is_peaceful:
            self.process.loop.call_later(
                dice.randint(1_000, world.consumer_us_max) / 1_000_000, self._settle, tag, fate
            )

    def _settle(self, tag: int, fate: float) -> None:
        if not self.is_open or tag not in self.deliveries.unacked:
            return
        if fate >= 0.85:
            self.deliveries.settle_requeued(self.deliveries.take(tag, False))
            return
        is_multiple = fate < 0.2
        unacked = self.deliveries.unacked
        tags = [each for each in unacked if each <= tag] if is_multiple else [tag]
        self.witness.acknowledged.update(self._bodies.pop(each) for each in tags)
        self.deliveries.ack(tag, is_multiple)

    # Its end.

    def abort(self) -> None:
        """The node gives up the connection: what is encoded for it is void."""
        self.process.loop.call_soon(self.lose)

    def lose(self) -> None:
        """The connection has ended, whoever ended it."""
        if not self.is_open:
            return
        self.is_open = False
        self.outgoing.detach()
        self.confirms.is_closed = True
        consumers, self.consumers = self.consumers, []
        queues = dict.fromkeys(consumer.queue for consumer in consumers)
        for consumer in consumers:
            consumer.queue.remove_consumer(consumer)
        self.deliveries.settle_requeued(self.deliveries.take_all())
        for queue in queues:
            queue.pump()
        self.client.connection_lost()


class Client:
    """Whoever uses a node, as long as its process lives."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.connection: ClientChannel | None = None
        self.is_consuming = True
        self.is_ended = False

    def begin(self) -> None:
        self._connect()

    def _connect(self) -> None:
        if self.is_ended:
            return
        self.connection = ClientChannel(self)
        if self.is_consuming:
            for prefetch, no_ack in self.process.world.consumers:
                self.connection.consume(prefetch, no_ack)

    def connection_lost(self) -> None:
        self.connection = None
        self.process.loop.call_later(RECONNECT_S, self._connect)

    def lose(self) -> None:
        if self.connection is not None:
            self.process.loop.run(self.connection.lose)

    def end(self) -> None:
        self.is_ended = True
        self.lose()

    def all_deliveries(self) -> list[Deliveries]:
        return [] if self.connection is None else [self.connection.deliveries]

    @property
    def unanswered(self) -> int:
        return 0 if self.connection is None else len(self.connection.unconfirmed)

    @property
    def unacked(self) -> int:
        return 0 if self.connection is None else len(self.connection.deliveries.unacked)

    def publish(self) -> None:
        """Publish a message, unless the node holds publishers up, or nobody is connected."""
        if self.connection is not None and not self.process.loop.is_paused:
            self.process.loop.run(self._publish, self.connection)

    def _publish(self, connection: ClientChannel) -> None:
        world = self.process.world
        if not self.process.tenure.holds() or not connection.is_open:
            return
        world.published += 1
        connection.publish(world.published, self._make_message(world.published))

    def _make_message(self, body: int) -> Message:
        world, dice = self.process.world, self.process.dice
        is_transient = dice.random() < world.transient_chance
        properties = TRANSIENT if is_transient else PERSISTENT
        if world.max_priority is not None:
            priority = dice.randint(0, world.max_priority)
            properties = PropertyBlock(bytes([0x18, 0, 1 if is_transient else 2, priority]))
        return Message(ROUTE_KEY, properties, b"%d" % body)

    def purge(self) -> None:
        """Purge the queue, if it is led here."""
        queue = None if self.connection is None else self.connection.queue
        if isinstance(queue, Queue) and self.process.tenure.holds():
            self.process.world.witness.purged(self.process)
            self.process.loop.run(self._purge, queue)

    def _purge(self, queue: Queue) -> None:
        answer = queue.purge()
        if not isinstance(answer, int):
            answer.close()  # it waits turn by turn for a disk that is played in a time of its own
