"""The master's side of a link: does for another node's clients what channels do for our own.

A handle stands for one queue on one link: its inbox of publishes, what was delivered over it, its
consumers. The inbox outlives the link (see `inbox`), the rest does not: when the link ends, what
was delivered and not settled goes back to its place, as when a client's connection ends.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from warren.cluster.link.channels import LinkChannel, ServedQueues
from warren.cluster.link.consumer import LinkConsumer
from warren.cluster.link.control import (
    ACKED_IDS,
    Applied,
    BecomeMirror,
    CancelConsumer,
    CloseQueue,
    Consume,
    ConsumerCancelled,
    Control,
    Counted,
    Counts,
    Delete,
    Dismiss,
    Done,
    Failed,
    Get,
    Gone,
    Grant,
    Held,
    Inquire,
    Kept,
    MalformedControl,
    MirrorNews,
    NoSuchQueue,
    OfAsker,
    OpenQueue,
    OutOfReach,
    Ping,
    Purge,
    QueueOpened,
    Request,
    WantMore,
    decode_acked,
    decode_control,
    encode_control,
    is_control,
)
from warren.cluster.link.publishes import LinkPublishes
from warren.metadata.store import MetadataError
from warren.model.errors import AmqpError, metadata_unreachable
from warren.model.limits import MIRROR_CHANNEL
from warren.queues.boundary import AbstractQueue, Holder
from warren.queues.consumers import Consumer
from warren.queues.delivery import Deliveries, TurnClock
from warren.queues.queue import Queue
from warren.streams.consumer_offsets import starting_offset
from warren.streams.queue import StreamQueue
from warren.wire.codec import Message, OutputBuffer, QueuedMessage
from warren.wire.tables import decode_table

if TYPE_CHECKING:
    from warren.broker.vhost import VirtualHost

_NACK_IDS = b"\x00\x3c\x00\x78"
_GET_OK = b"\x00\x3c\x00\x47"
_REQUEUE = 2


class Surroundings(Protocol):
    """What a delegate needs of its node and its link."""

    peer: str
    output: OutputBuffer
    turn_clock: TurnClock
    vhosts: Mapping[str, VirtualHost]
    reply_desk: AbstractQueue

    @property
    def is_frozen(self) -> bool:
        """This node may neither confirm nor deliver at the moment."""
        ...

    def answers_due(self, handle: LinkChannel) -> None:
        """Call its `flush` at the end of this turn."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> object: ...

    def make_inbox(self, queue: AbstractQueue, control: OpenQueue) -> LinkPublishes:
        """For a queue of which the other node has not been served before."""
        ...

    def becomes_master(self, control: OpenQueue, again: Callable[[OpenQueue], None]) -> bool:
        """True if this node is about to be the queue's master; then `again` is called."""
        ...

    def inquired(self, control: OfAsker) -> None:
        """The management API of the other node wants something of ours."""
        ...

    def applied(self, revision: int) -> None:
        """The other node's topology has come to this revision of the store."""
        ...

    def counted(self, news: Counted) -> None:
        """The other node tells how many connections and channels it has."""
        ...

    def mirror_frames(self, body: bytes) -> None:
        """Take frames of the rings of mirrored queues."""
        ...

    def mirror_news(self, news: MirrorNews) -> None: ...


class LinkServer:
    """`inboxes` are those of the asking node, by queue; what an inbox counts is its `origin`'s."""

    def __init__(
        self,
        around: Surroundings,
        inboxes: dict[AbstractQueue, LinkPublishes],
    ) -> None:
        self._around = around
        self._inboxes = inboxes
        self._served = ServedQueues(self._method, self._message)
        self._handles = self._served.handles
        self._awaited: dict[int, OpenQueue] = {}
        """Handles of queues that are about to come master."""

    def process(self, events: list[Any]) -> None:
        """Raises MalformedControl if the other side does not make sense."""
        self._served.process(events)

    def _message(self, message: Message) -> None:
        """For no queue that is open."""
        if message.channel == MIRROR_CHANNEL:
            self._around.mirror_frames(message.body)

    def deliveries(self) -> list[Deliveries]:
        """What its clients have of queues here."""
        return [handle.deliveries for handle in self._handles.values()]

    def close(self) -> None:
        """The link has ended."""
        handles = list(self._handles.values())
        self._handles.clear()
        self._awaited.clear()
        for handle in handles:
            handle.close()

    def moved(self, queue: Queue) -> None:
        """Close a queue that has another master, which answers for all that was sent here."""
        for handle in tuple(self._handles.values()):
            if handle.queue is queue:
                self._close(handle.number)

    def tell(self, control: Control) -> None:
        self._around.output.method(0, encode_control(control))

    def _settle(self, channel: int, tag: int, bits: int) -> None:
        """Requeue or reject one delivery, as the bits of a nack say."""
        handle = self._handles.get(channel)
        if handle is None:
            return
        taken = handle.deliveries.take_run(tag, 1)
        if bits & _REQUEUE:
            handle.deliveries.settle_requeued(taken)
        else:
            handle.deliveries.settle_rejected(taken)

    def _acked(self, channel: int, payload: bytes) -> None:
        handle = self._handles.get(channel)
        if handle is not None:
            handle.acked(*decode_acked(payload))

    def _method(self, channel: int, payload: bytes) -> None:
        if channel == 0 and is_control(payload):
            self._control(decode_control(payload))
        elif payload.startswith(ACKED_IDS):
            self._acked(channel, payload)
        elif payload.startswith(_NACK_IDS) and len(payload) == 13:
            self._settle(channel, int.from_bytes(payload[4:12], "big"), payload[12])
        else:
            raise MalformedControl(f"method {payload[:4].hex()} on channel {channel} of a link")

    def _control(self, control: Control) -> None:
        match control:
            # First, as there are two `Held` for each batch of mirrored queues; others are rare.
            case Held() | BecomeMirror() | OutOfReach() | Kept():
                self._around.mirror_news(control)
            case OpenQueue():
                self._open(control)
            case CloseQueue(number):
                self._close(number)
            case Consume() | Get() | Purge() | Counts() | Delete():
                self._request(control)
            case CancelConsumer(handle, name):
                self._cancel(handle, name)
            case Grant(handle, name, deliveries):
                consumer = self._consumer(handle, name)
                if consumer is not None:
                    consumer.grant(deliveries)
            case Inquire() | WantMore() | Dismiss():
                self._around.inquired(control)
            case Applied(revision):
                self._around.applied(revision)
            case Counted():
                self._around.counted(control)
            case Ping():
                self.tell(Ping())
            case _:
                raise MalformedControl(f"{type(control).__name__} is not for the asked side")

    def _open(self, control: OpenQueue) -> None:
        queue = self._find(control)
        if queue is None:
            if self._around.becomes_master(control, self._open_awaited):
                self._awaited[control.handle] = control
            else:
                self.tell(NoSuchQueue(control.handle))
            return
        inbox = self._inboxes.get(queue)
        if inbox is None or inbox.origin != control.origin:
            inbox = self._inboxes[queue] = self._around.make_inbox(queue, control)
        output, clock = self._around.output, self._around.turn_clock
        handle = LinkChannel(control.handle, queue, inbox, output, clock)
        self._handles[control.handle] = handle
        inbox.doubtful = max(inbox.doubtful, control.doubtful)
        inbox.attach(control.lowest, partial(self._around.answers_due, handle))
        self.tell(QueueOpened(control.handle, inbox.received))

    def _open_awaited(self, control: OpenQueue) -> None:
        """Unless the other node has closed it meanwhile, and the handle is for something else."""
        if self._awaited.get(control.handle) is control:
            del self._awaited[control.handle]
            self._open(control)

    def _close(self, number: int) -> None:
        """The queue is deleted; one that is declared again is numbered from 1."""
        self._awaited.pop(number, None)
        handle = self._handles.pop(number, None)
        if handle is not None:
            handle.close()
            self._inboxes.pop(handle.queue, None)

    def _find(self, control: OpenQueue) -> AbstractQueue | None:
        if not control.vhost:
            return self._around.reply_desk
        vhost = self._around.vhosts.get(control.vhost)
        queue = vhost.queues.get(control.queue) if vhost is not None else None
        return queue if isinstance(queue, Queue) else None

    def _request(self, request: Request) -> None:
        handle = self._handles.get(request.handle)
        queue = handle.queue if handle is not None else None
        if handle is None or not isinstance(queue, Queue) or queue.is_deleted:
            self.tell(Gone(request.id))
            return
        if self._around.is_frozen:
            self._fail(request.id, metadata_unreachable(f"the master of {queue.record} is frozen"))
            return
        try:
            match request:
                case Consume():
                    self._consume(handle, queue, request)
                case Get():
                    self._get(handle, queue, request.id)
                case Purge():
                    self._purge(queue, request.id)
                case Counts():
                    counts = queue.counts()
                    self.tell(Done(request.id, (counts.ready, counts.consumers)))
                case Delete():
                    self._around.spawn(self._delete(queue, request))
        except AmqpError as error:
            self._fail(request.id, error)

    def _fail(self, number: int, error: AmqpError) -> None:
        self.tell(Failed(number, error.code, error.name, error.explanation))

    def _purge(self, queue: Queue, number: int) -> None:
        count = queue.purge()
        if isinstance(count, int):
            self.tell(Done(number, (count,)))
        else:
            self._around.spawn(self._purged(count, number))

    async def _purged(self, count: Coroutine[Any, Any, int], number: int) -> None:
        self.tell(Done(number, (await count,)))

    def _consume(self, handle: LinkChannel, queue: Queue, request: Consume) -> None:
        queue.check_consumer(request.exclusive)
        consumer = LinkConsumer(
            queue, handle.deliveries, request.consumer, request.no_ack, request.prefetch
        )
        consumer.node = self._around.peer
        consumer.client_tag = request.tag
        consumer.priority = request.priority
        consumer.exclusive = request.exclusive
        consumer.arguments = decode_table(request.arguments)[0]
        consumer.on_cancelled = lambda gone: self._cancelled(handle, gone)
        handle.consumers[request.consumer] = consumer
        self.tell(Done(request.id, _beginning_of(queue, consumer)))
        queue.add_consumer(consumer)

    def _cancelled(self, handle: LinkChannel, consumer: Consumer) -> None:
        handle.consumers.pop(consumer.tag, None)
        self.tell(ConsumerCancelled(handle.number, consumer.tag))

    def _cancel(self, number: int, name: str) -> None:
        handle = self._handles.get(number)
        consumer = handle.consumers.pop(name, None) if handle is not None else None
        if handle is not None and consumer is not None:
            handle.queue.remove_consumer(consumer)
            handle.queue.pump()

    def _consumer(self, number: int, name: str) -> LinkConsumer | None:
        handle = self._handles.get(number)
        return None if handle is None else handle.consumers.get(name)

    def _get(self, handle: LinkChannel, queue: Queue, number: int) -> None:
        queued = queue.get()
        if queued is not None:
            self._send_got(handle, queued)
            queue.counters.get += 1
            queue.counters.redeliver += queued.redelivered
        elif queue.message_count:
            queue.when_loaded(lambda: self._get_loaded(handle, number))  # it is being read
            return
        else:
            queue.counters.get_empty += 1
        self.tell(Done(number, (queue.message_count,)))

    def _get_loaded(self, handle: LinkChannel, number: int) -> None:
        if self._handles.get(handle.number) is handle:
            self._request(Get(number, handle.number))

    def _send_got(self, handle: LinkChannel, queued: QueuedMessage) -> None:
        tag = handle.deliveries.track(queued, Holder(handle.queue))
        head = _GET_OK + tag.to_bytes(8, "big") + bytes([queued.redelivered])
        method = head + queued.message.route_key + bytes(4)
        self._around.output.content(handle.number, method, queued.message)

    async def _delete(self, queue: Queue, request: Delete) -> None:
        vhost = self._around.vhosts.get(queue.record.vhost)
        owner = queue.record.owner or ""
        count = 0
        try:
            if vhost is not None:
                count = await vhost.delete_queue(
                    queue.record.name, request.if_unused, request.if_empty, owner
                )
            self.tell(Done(request.id, (count,)))
        except AmqpError as error:
            self._fail(request.id, error)
        except MetadataError as error:
            self._fail(request.id, metadata_unreachable(str(error)))


def _beginning_of(queue: Queue, consumer: Consumer) -> tuple[int, ...]:
    """Where a consumer of a stream begins, unless that has to be looked up."""
    if not isinstance(queue, StreamQueue):
        return ()
    offset = starting_offset(queue.log, consumer.arguments)
    return () if offset is None else (offset,)
