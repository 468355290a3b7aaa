"""This node's side of a link: asks another node, on behalf of clients here, about its queues.

It lives as long as the other node's session, through any number of links. While there is none,
publishes wait (bounded by the credit, which holds publishers back) and so do questions; when there
is one again, queues are opened anew, publishes without an answer are sent again, and questions are
asked again. When the session ends, nobody will answer: publishes are refused, questions fail. So
they do when there has been no link for a while, until there is one: clients cannot wait for ever.

Pure: events in, frames out. `server/links.py` has the socket.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

from warren.cluster.link.channels import OpenedQueues
from warren.cluster.link.control import (
    AnswerBegins,
    AnswerPart,
    Applied,
    CloseQueue,
    ConsumerCancelled,
    Control,
    Done,
    Failed,
    Gone,
    MalformedControl,
    NoSuchQueue,
    OpenQueue,
    Ping,
    QueueOpened,
    Request,
    decode_control,
    encode_control,
    is_control,
)
from warren.cluster.link.failover import master_down
from warren.cluster.link.inquiries import Inquiries
from warren.cluster.link.remote_queue import RemoteQueue
from warren.flow.credit import Credit
from warren.flow.states import Stage
from warren.model.errors import QueueGone, SoftError
from warren.model.limits import LINK_HANDLES_MAX, LINK_UNCONFIRMED_BYTES_MAX, MIRROR_CHANNEL
from warren.model.records import QueueRecord, describe_queue
from warren.queues.settings import QueueSettings
from warren.wire.codec import Message, OutputBuffer, PropertyBlock

_NACK_IDS = b"\x00\x3c\x00\x78"
MIRROR_METHOD: Final = b"\x00\x3c\x00\x28\x00\x00\x00\x00\x00"  # basic.publish, to nowhere
_PLAIN: Final = PropertyBlock(b"\x00\x00")


class Answer(Protocol):
    """What is needed of a future."""

    def done(self) -> bool: ...
    def set_result(self, result: tuple[int, ...], /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...
    def __await__(self) -> Generator[Any, None, tuple[int, ...]]: ...


class Call(NamedTuple):
    queue: RemoteQueue
    make: Callable[[int], Request]
    answered: Callable[[], None] | None
    answer: Answer


class LinkClientListener(Protocol):
    """The node of a `LinkClient`, as far as it hears of it."""

    def applied(self, node: str, revision: int) -> None:
        """The other node's topology has come to this revision of the store."""
        ...

    def resumed(self, queue: RemoteQueue) -> None:
        """Consumers of a mirrored queue are to be served by another master, or again."""
        ...

    def master_missing(self, queue: RemoteQueue, node: str) -> None:
        """A mirrored queue is not on the node where it should be, or that node is lost."""
        ...


class _NobodyListens:
    def applied(self, node: str, revision: int) -> None: ...

    def resumed(self, queue: RemoteQueue) -> None: ...

    def master_missing(self, queue: RemoteQueue, node: str) -> None: ...


NOBODY_LISTENS: Final = _NobodyListens()


class LinkClient:
    def __init__(
        self,
        node: str,
        make_answer: Callable[[], Answer],
        listener: LinkClientListener = NOBODY_LISTENS,
    ) -> None:
        self.node = node
        self.homes: Sequence[str] = (node,) if node else ()
        """Nodes that clients are told of when questions fail because the queue is down."""
        self.credit = Credit(LINK_UNCONFIRMED_BYTES_MAX, Stage.QUEUE)
        self.is_lost = False
        self.output: OutputBuffer | None = None
        self.inquiries = Inquiries(self.tell)
        self.listener = listener
        self._make_answer = make_answer
        self._asked = OpenedQueues(self._method)
        self._queues = self._asked.queues
        self._next_handle = 1
        self._life = ""
        self._calls: dict[int, Call] = {}
        self._call_numbers = count(1)

    # The link.

    def connected(self, output: OutputBuffer, life: str = "") -> None:
        """A link stands; `life` names the process at its other end."""
        self.output = output
        self.is_lost = False
        is_restarted = life != self._life
        self._life = life
        for queue in self._queues.values():
            if is_restarted:
                queue.master_restarted()
            self._send_open(queue)
        for number, call in self._calls.items():
            self.tell(call.make(number))

    def disconnected(self) -> None:
        self.output = None
        self.inquiries.disconnected()
        for queue in tuple(self._queues.values()):
            queue.disconnected()

    def lost(self) -> None:
        """The other node's session has ended, or nothing got through to it for too long."""
        self.is_lost = True
        self.disconnected()
        for queue in tuple(self._queues.values()):
            self._lose(queue, _home_down(queue))
        # What is left was asked about queues that have been deleted meanwhile.
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if not call.answer.done():
                call.answer.set_exception(_home_down(call.queue))

    def process(self, events: list[Any]) -> None:
        """Raises MalformedControl if the other side does not make sense."""
        self._asked.process(events)

    def _method(self, channel: int, payload: bytes) -> None:
        if channel == 0 and is_control(payload):
            self._control(decode_control(payload))
        elif payload.startswith(_NACK_IDS) and len(payload) == 13:
            queue = self._queues.get(channel)
            if queue is not None:
                queue.settled(int.from_bytes(payload[4:12], "big"), False, True)
        else:
            raise MalformedControl(f"method {payload[:4].hex()} on channel {channel} of a link")

    def _control(self, control: Control) -> None:
        match control:
            case Done(number, numbers):
                self._answer(number, numbers)
            case Failed(number, code, name, explanation):
                self._fail(number, SoftError(code, name, explanation))
            case Gone(number) if number in self._calls:
                self._fail(number, _gone(self._calls[number].queue))
            case Gone():
                pass
            case QueueOpened() | NoSuchQueue() | ConsumerCancelled():
                queue = self._queues.get(control.handle)
                if queue is not None:
                    self._news_of(queue, control)
            case AnswerBegins() | AnswerPart():
                self.inquiries.heard(control)
            case Applied(revision):
                self.listener.applied(self.node, revision)
            case Ping():
                pass
            case _:
                raise MalformedControl(f"{type(control).__name__} is not for the asking side")

    def _news_of(
        self, queue: RemoteQueue, news: QueueOpened | NoSuchQueue | ConsumerCancelled
    ) -> None:
        match news:
            case QueueOpened(_, received):
                assert self.output is not None, "it has just been heard"
                queue.connected(self.output, received)
            case NoSuchQueue():
                self._lose(queue, _gone(queue))
            case ConsumerCancelled(_, consumer):
                queue.consumer_cancelled(consumer.encode())

    def _answer(self, number: int, numbers: tuple[int, ...]) -> None:
        call = self._calls.pop(number, None)
        if call is None:
            return
        # At once, not when the caller wakes up: a delivery may be right behind.
        if call.answered is not None:
            call.answered()
        if not call.answer.done():
            call.answer.set_result(numbers)

    def _fail(self, number: int, error: SoftError) -> None:
        call = self._calls.pop(number, None)
        if call is not None and not call.answer.done():
            call.answer.set_exception(error)

    # What queues need of it.

    def tell(self, control: Control) -> None:
        if self.output is not None:
            self.output.method(0, encode_control(control))

    async def call(
        self,
        queue: RemoteQueue,
        make: Callable[[int], Request],
        answered: Callable[[], None] | None = None,
    ) -> tuple[int, ...]:
        """Ask; raises the AMQP error that the master answers with, or that it is down.

        A coroutine begins a turn after it was made, and the queue may have come here by then.
        """
        if queue.is_here or queue.is_deleted:
            raise _gone(queue)
        if queue.handle == 0 and not self.open(queue):
            raise _home_down(queue)
        number = next(self._call_numbers)
        answer = self._make_answer()
        self._calls[number] = Call(queue, make, answered, answer)
        self.tell(make(number))
        try:
            return await answer
        finally:
            self._forget_call(number, answer)

    def _forget_call(self, number: int, answer: Answer) -> None:
        """Unless it has been handed over, and the number is somebody else's."""
        call = self._calls.get(number)
        if call is not None and call.answer is answer:
            del self._calls[number]

    def open(self, queue: RemoteQueue) -> bool:
        """Give the queue a handle; False if its master is gone or all handles are taken."""
        if self.is_lost or len(self._queues) >= LINK_HANDLES_MAX:
            return False
        while self._next_handle in self._queues:
            self._next_handle = self._next_handle % LINK_HANDLES_MAX + 1
        queue.handle = self._next_handle
        self._next_handle = self._next_handle % LINK_HANDLES_MAX + 1
        self._queues[queue.handle] = queue
        if self.output is not None:
            self._send_open(queue)
        return True

    def close(self, queue: RemoteQueue) -> None:
        """The queue is deleted. Questions stay open: whoever had it deleted gets an answer yet."""
        if queue.handle:
            self.tell(CloseQueue(queue.handle))
            del self._queues[queue.handle]
            queue.lost()

    def hand_over(self, queue: RemoteQueue, to: LinkClient) -> None:
        """The queue has another master: what was asked here is asked there."""
        is_in_use = bool(queue.handle)
        if is_in_use:
            self.tell(CloseQueue(queue.handle))
            del self._queues[queue.handle]
            queue.handle = 0
        for number, call in tuple(self._calls.items()):
            if call.queue is queue:
                del self._calls[number]
                to.take_over(call)
        if is_in_use and queue.handle == 0:
            to.open(queue)

    def drop_questions(self, queue: RemoteQueue) -> None:
        """The queue is on this node now, or nowhere: whoever has asked looks it up again."""
        for number, call in tuple(self._calls.items()):
            if call.queue is queue:
                self._fail(number, _gone(queue))

    def take_over(self, call: Call) -> None:
        if call.queue.handle == 0 and not self.open(call.queue):
            if not call.answer.done():
                call.answer.set_exception(_home_down(call.queue))
            return
        number = next(self._call_numbers)
        self._calls[number] = call
        self.tell(call.make(number))

    def mirror_frames(self, body: bytes) -> None:
        """Send frames of the rings of mirrored queues; a link that is down drops them."""
        if self.output is not None:
            self.output.content(MIRROR_CHANNEL, MIRROR_METHOD, Message(b"", _PLAIN, body))

    def charge(self, size_bytes: int) -> None:
        self.credit.charge(size_bytes)

    def release(self, size_bytes: int) -> None:
        self.credit.release(size_bytes)

    def _send_open(self, queue: RemoteQueue) -> None:
        lowest = queue.unconfirmed[0].number if queue.unconfirmed else queue.number + 1
        record = queue.record
        numbers = (lowest, queue.origin, queue.doubtful, queue.sent)
        self.tell(OpenQueue(queue.handle, record.vhost, record.name, *numbers))

    def _lose(self, queue: RemoteQueue, error: SoftError) -> None:
        """It is not there; a mirrored one may be elsewhere."""
        if queue.is_mirrored:
            self.listener.master_missing(queue, self.node)
        else:
            self._forget(queue, error)

    def _forget(self, queue: RemoteQueue, error: SoftError) -> None:
        del self._queues[queue.handle]
        for number, call in tuple(self._calls.items()):
            if call.queue is queue:
                self._fail(number, error)
        queue.lost()


def _home_down(queue: RemoteQueue) -> SoftError:
    return master_down(queue.record, queue.asker.homes)


def _gone(queue: RemoteQueue) -> QueueGone:
    return QueueGone(describe_queue(queue.record.name, queue.record.vhost))


def reply_desk_of(asker: LinkClient) -> RemoteQueue:
    """Where another node takes direct replies to its clients: see `OpenQueue`."""
    record = QueueRecord("", "", durable=False, node=asker.node)
    return RemoteQueue(record, QueueSettings(), asker)
