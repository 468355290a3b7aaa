"""basic.* but publish and ack, which have the short way: qos, consume, cancel, get, nack ..."""

from __future__ import annotations

from collections.abc import Coroutine
from struct import Struct
from typing import Any, Final

from pamqp import commands

from warren.channels.channel import Channel
from warren.channels.channel_events import consumer_created, consumer_deleted
from warren.channels.closing import is_gone
from warren.channels.names import arguments_of, queue_or_last
from warren.channels.reply_registry import DIRECT_REPLY_TO
from warren.channels.reply_to import consume_replies, stop_replies
from warren.channels.retry_while_moving import ask
from warren.channels.settling import (
    SETTLED_AT_ONCE_MAX,
    Settlement,
    is_much,
    nack_in_slices,
    queues_of,
    recover_in_slices,
    require_may_return,
    settle,
    tags_between,
)
from warren.model.errors import SoftError, not_allowed, not_implemented, precondition_failed
from warren.queues.arguments import QueueType, consumer_priority, validate_consumer_arguments
from warren.queues.boundary import AbstractQueue, Answer, Fetched, Holder, answer_of
from warren.queues.consumers import Consumer
from warren.queues.delivery import UnknownDeliveryTag
from warren.streams.queue import require_stream_consumer
from warren.wire.codec import QueuedMessage
from warren.wire.methods import Method

CONSUMER_TAG_PREFIX: Final = "amq.ctag-"
_GET_EMPTY: Final = commands.Basic.GetEmpty()
_GET_OK_HEAD: Final = Struct(">HHQB")
_GET_OK_TAIL: Final = Struct(">I")


def qos(channel: Channel, method: commands.Basic.Qos) -> Method:
    if method.prefetch_size:
        raise not_implemented(f"prefetch_size!=0 ({method.prefetch_size})")
    deliveries = channel.deliveries
    if method.global_:
        deliveries.prefetch_limit = method.prefetch_count
    else:
        channel.prefetch = method.prefetch_count
        deliveries.prefetch_limit = 0
    deliveries.wake_waiting()
    return commands.Basic.QosOk()


def consume(channel: Channel, method: commands.Basic.Consume) -> Answer[None]:
    tag = method.consumer_tag or channel.session.host.random_name(CONSUMER_TAG_PREFIX)
    if method.queue == DIRECT_REPLY_TO:
        consume_replies(channel, tag, method.no_ack, channel.session.host.random_name(""))
        _consume_ok(channel, method, tag)
        return None
    name = queue_or_last(channel, method.queue)
    channel.session.require(channel, "queue", name, "read")
    if tag in channel.consumers:
        raise not_allowed(f"attempt to reuse consumer tag '{tag}'")
    return ask(channel, name, lambda queue: _consume(channel, method, queue, tag))


def _consume(
    channel: Channel, method: commands.Basic.Consume, queue: AbstractQueue, tag: str
) -> Answer[None]:
    if is_gone(channel):
        return None
    arguments = arguments_of(method)
    validate_consumer_arguments(queue.record, arguments)
    if queue.settings.queue_type is QueueType.STREAM:
        require_stream_consumer(queue.record, channel.prefetch, method.no_ack, arguments)
    consumer = Consumer(queue, channel.deliveries, tag, method.no_ack, channel.prefetch)
    consumer.priority = consumer_priority(arguments)
    consumer.exclusive = method.exclusive
    consumer.arguments = arguments
    consumer.on_cancelled = lambda gone: _cancelled_by_server(channel, gone)

    def started() -> None:
        if is_gone(channel):
            consumer.queue.remove_consumer(consumer)
            return
        channel.consumers[tag] = consumer
        _consume_ok(channel, method, tag)
        consumer_created(channel, consumer)

    return queue.start_consumer(consumer, started)


def cancel(channel: Channel, method: commands.Basic.Cancel) -> Answer[Method | None]:
    tag = str(method.consumer_tag)
    reply = None if method.nowait else _with_tag(commands.Basic.CancelOk, tag)
    reply_consumer = channel.reply_consumer
    if reply_consumer is not None and reply_consumer.consumer.tag == tag:
        stop_replies(channel)
        return reply
    consumer = channel.consumers.pop(tag, None)
    if consumer is None:
        return reply
    queue = consumer.queue
    queue.remove_consumer(consumer)
    consumer_deleted(channel, consumer)
    queue.pump()
    if queue.record.auto_delete:
        return _after_deletions(channel, reply)
    return reply


async def _after_deletions(channel: Channel, reply: Method | None) -> Method | None:
    await channel.session.host.deletions_done()
    return reply


def get(channel: Channel, method: commands.Basic.Get) -> Answer[Method | None]:
    name = queue_or_last(channel, method.queue)
    channel.session.require(channel, "queue", name, "read")
    return ask(channel, name, lambda queue: _get(channel, method, queue))


def _get(
    channel: Channel, method: commands.Basic.Get, queue: AbstractQueue
) -> Answer[Method | None]:
    if queue.settings.queue_type is QueueType.STREAM:
        raise not_implemented(f"basic.get not supported by stream queues {queue.record}")
    if channel.output.is_congested:
        return _get_when_drained(channel, method)
    answer = queue.fetch(channel.session.host.until)
    if isinstance(answer, Fetched):
        return _got(channel, queue, answer, method.no_ack)
    return _get_awaited(channel, method, queue, answer)


async def _get_when_drained(channel: Channel, method: commands.Basic.Get) -> Method | None:
    """Whoever asks for messages and does not read them must wait, or we would keep them all."""
    await channel.session.host.output_drained()
    return await answer_of(get(channel, method))


async def _get_awaited(
    channel: Channel,
    method: commands.Basic.Get,
    queue: AbstractQueue,
    answer: Coroutine[Any, Any, Fetched],
) -> Method | None:
    """Another node is asked, or a disk: meanwhile this client waits, and no other does."""
    fetched = await answer
    if fetched.queued is not None:
        try:
            await channel.session.host.acting()
        except SoftError:
            queue.requeued([fetched.queued])
            raise
    return _got(channel, queue, fetched, method.no_ack)


def _get_empty(channel: Channel, queue: AbstractQueue) -> Method:
    channel.counters.get_empty += 1
    queue.counters.get_empty += 1
    return _GET_EMPTY


def _got(channel: Channel, queue: AbstractQueue, fetched: Fetched, no_ack: bool) -> Method | None:
    queued, messages_left = fetched
    if queued is None:
        return _get_empty(channel, queue)
    if is_gone(channel):
        queue.requeued([queued])
        return None
    for counters in (channel.counters, queue.counters):
        counters.get += not no_ack
        counters.get_no_ack += no_ack
        counters.redeliver += queued.redelivered
    if no_ack:
        tag = channel.deliveries.next_tag
        channel.deliveries.next_tag = tag + 1
        queue.acked([queued])
    else:
        tag = channel.deliveries.track(queued, Holder(queue))
    payload = _get_ok(queued, tag, messages_left)
    channel.output.content(channel.number, payload, queued.message)
    if channel.vhost.firehose.is_on:
        channel.vhost.firehose.delivered(channel, queue, queued.message, queued.redelivered)
    return None


def nack(channel: Channel, method: commands.Basic.Nack) -> Coroutine[Any, Any, None] | None:
    return _settle(channel, method.delivery_tag, method.multiple, method.requeue)


def reject(channel: Channel, method: commands.Basic.Reject) -> None:
    _settle(channel, method.delivery_tag or 0, False, method.requeue)


def ack(channel: Channel, method: commands.Basic.Ack) -> None:
    channel.ack(method.delivery_tag, method.multiple)


async def recover(channel: Channel, method: commands.Basic.Recover) -> Method:
    await recover_async(channel, method)
    return commands.Basic.RecoverOk()


async def recover_async(
    channel: Channel, method: commands.Basic.Recover | commands.Basic.RecoverAsync
) -> None:
    if not method.requeue:
        raise not_implemented("requeue=false")
    deliveries = channel.deliveries
    if len(deliveries.unacked) <= SETTLED_AT_ONCE_MAX:
        deliveries.settle_requeued(deliveries.take_all())
        return
    await recover_in_slices(channel)


def _settle(
    channel: Channel, tag: int, multiple: bool, requeue: bool
) -> Coroutine[Any, Any, None] | None:
    settlement = Settlement.REQUEUE if requeue else Settlement.REJECT
    deliveries = channel.deliveries
    if not tag or tag in deliveries.unacked:  # else that is complained about below
        first = deliveries.settled_below if multiple else tag
        last = tag if tag or not multiple else deliveries.next_tag - 1
        if channel.transaction is None and is_much(deliveries, first, last):
            return nack_in_slices(channel, settlement, first, last)
        tags = tags_between(deliveries, first, last) if multiple else [tag]
        require_may_return(queues_of(deliveries, tags))
    try:
        if channel.transaction is not None:
            channel.transaction.settle(settlement, tag, multiple)
        else:
            settle(channel, settlement, channel.deliveries.take(tag, multiple))
    except UnknownDeliveryTag as error:
        raise precondition_failed(str(error)) from None
    return None


def _cancelled_by_server(channel: Channel, consumer: Consumer) -> None:
    """The queue is gone: clients that said they understand it are told."""
    channel.consumers.pop(consumer.tag, None)
    consumer_deleted(channel, consumer)
    if channel.session.host.capabilities.consumer_cancel_notify and not channel.is_closing:
        method = _with_tag(commands.Basic.Cancel, consumer.tag)
        method.nowait = True
        channel.session.send_news(channel, method)


def _consume_ok(channel: Channel, method: commands.Basic.Consume, tag: str) -> None:
    """Before the first delivery, which registering the consumer may bring about."""
    if not method.nowait:
        channel.session.send(channel, _with_tag(commands.Basic.ConsumeOk, tag))


def _with_tag(kind: type[Method], tag: str) -> Any:
    method: Any = kind.__new__(kind)
    method.consumer_tag = tag
    return method


def _get_ok(queued: QueuedMessage, tag: int, messages_left: int) -> bytes:
    head = _GET_OK_HEAD.pack(60, 71, tag, queued.redelivered)
    return head + queued.message.route_key + _GET_OK_TAIL.pack(messages_left)
