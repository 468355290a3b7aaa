"""queue.* : declare, delete, bind, unbind, purge."""

from __future__ import annotations

from pamqp import commands

from warren.auth.questions import once_answered
from warren.broker.predeclared import require_not_default
from warren.channels.channel import Channel
from warren.channels.names import arguments_of, clean_name, queue_or_last
from warren.channels.reply_registry import DIRECT_REPLY_TO, DIRECT_REPLY_TO_PREFIX
from warren.channels.retry_while_moving import ask, retry_while_moving
from warren.model.errors import not_found
from warren.model.records import (
    BindingRecord,
    Destination,
    DestinationKind,
    QueueRecord,
    describe_queue,
)
from warren.queues.arguments import dead_letter_exchange_of
from warren.queues.boundary import AbstractQueue, answer_of
from warren.wire.methods import Method


async def declare(channel: Channel, method: commands.Queue.Declare) -> Method | None:
    name = clean_name(method.queue)
    if name == DIRECT_REPLY_TO or name.startswith(DIRECT_REPLY_TO_PREFIX):
        return _declare_reply_address(channel, name, method.nowait)
    vhost = channel.vhost
    nowait = method.nowait
    if method.passive:
        connection_id = channel.session.host.connection_id
        return await retry_while_moving(
            channel,
            name,
            lambda: _declared(channel, vhost.lookup_queue(name, connection_id), nowait),
        )
    record = _record(channel, method, name)
    # Not left to whoever called this: a queue that the server names has another name next time.
    await once_answered(lambda: _require_declarable(channel, record))
    await channel.session.host.storage_ready()

    async def declare_it() -> Method | None:
        """Again, if it is deleted at this moment by somebody else."""
        return await _declared(channel, await vhost.declare_named_queue(record), nowait)

    return await retry_while_moving(channel, record.name, declare_it)


async def _declared(channel: Channel, queue: AbstractQueue, nowait: bool) -> Method | None:
    queue.touch()
    channel.last_queue = queue.record.name
    if nowait:
        queue.require_available()
        return None
    counts = await answer_of(queue.counts())
    return _declare_ok(queue.record.name, counts.ready, counts.consumers)


async def delete(channel: Channel, method: commands.Queue.Delete) -> Method | None:
    name = queue_or_last(channel, method.queue)
    channel.session.require(channel, "queue", name, "configure")
    connection_id = channel.session.host.connection_id
    count = await channel.vhost.delete_queue(name, method.if_unused, method.if_empty, connection_id)
    await channel.session.host.deletions_done()
    return None if method.nowait else commands.Queue.DeleteOk(count)


async def bind(channel: Channel, method: commands.Queue.Bind) -> Method | None:
    await channel.vhost.bind(_binding(channel, method), channel.session.host.connection_id)
    return None if method.nowait else commands.Queue.BindOk()


async def unbind(channel: Channel, method: commands.Queue.Unbind) -> Method | None:
    await channel.vhost.unbind(_binding(channel, method), channel.session.host.connection_id)
    return commands.Queue.UnbindOk()


async def purge(channel: Channel, method: commands.Queue.Purge) -> Method | None:
    name = queue_or_last(channel, method.queue)
    channel.session.require(channel, "queue", name, "read")
    count = await answer_of(ask(channel, name, lambda queue: queue.purge()))
    return None if method.nowait else commands.Queue.PurgeOk(count)


def _record(channel: Channel, method: commands.Queue.Declare, name: str) -> QueueRecord:
    """The queue as asked for."""
    session, vhost = channel.session, channel.vhost
    return vhost.named(
        vhost.typed(
            QueueRecord(
                vhost.name,
                name,
                durable=method.durable and not method.exclusive,
                auto_delete=method.auto_delete,
                owner=session.host.connection_id if method.exclusive else None,
                arguments=arguments_of(method),
                created_by=session.user.name,
            )
        )
    )


async def _require_declarable(channel: Channel, record: QueueRecord) -> None:
    session, vhost, name = channel.session, channel.vhost, record.name
    session.require(channel, "queue", name, "configure")
    if name not in vhost.queues:
        dead_letter_exchange = dead_letter_exchange_of(record)
        if dead_letter_exchange is not None:
            session.require(channel, "queue", name, "read")
            session.require(channel, "exchange", dead_letter_exchange, "write")


def _declare_reply_address(channel: Channel, name: str, nowait: bool) -> Method | None:
    """No queue: the answer tells whether whoever asked for the reply still lives."""
    if name != DIRECT_REPLY_TO and name not in channel.session.reply_registry:
        raise not_found(f"no {describe_queue(name, channel.vhost.name)}")
    channel.last_queue = name
    return None if nowait else _declare_ok(name, 0, 1)


def _declare_ok(name: str, messages: int, consumers: int) -> Method:
    """Made without pamqp's constructor, which refuses names that RabbitMQ allows."""
    method = commands.Queue.DeclareOk.__new__(commands.Queue.DeclareOk)
    method.queue = name
    method.message_count = messages
    method.consumer_count = consumers
    return method


def _binding(
    channel: Channel, method: commands.Queue.Bind | commands.Queue.Unbind
) -> BindingRecord:
    queue = queue_or_last(channel, method.queue)
    # With neither queue nor key named, both mean the queue declared last.
    routing_key = method.routing_key or ("" if method.queue else queue)
    exchange_name = clean_name(method.exchange)
    session, vhost = channel.session, channel.vhost
    require_not_default(exchange_name)
    session.require(channel, "queue", queue, "write")
    session.require(channel, "exchange", exchange_name, "read")
    exchange = vhost.exchanges.get(exchange_name)
    if exchange is not None:
        session.require_topic(exchange, routing_key, "read")
    target = Destination(DestinationKind.QUEUE, queue)
    return BindingRecord(vhost.name, exchange_name, target, routing_key, arguments_of(method))
