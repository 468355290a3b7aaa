"""exchange.* : declare, delete, bind, unbind."""

from __future__ import annotations

from pamqp import commands

from warren.broker.exchange_operations import require_known_type
from warren.broker.predeclared import require_not_default
from warren.channels.channel import Channel
from warren.channels.names import arguments_of, clean_name
from warren.model.equivalence import alternate_exchange_of
from warren.model.records import (
    BindingRecord,
    Destination,
    DestinationKind,
    ExchangeRecord,
)
from warren.wire.methods import Method


async def declare(channel: Channel, method: commands.Exchange.Declare) -> Method | None:
    name = clean_name(method.exchange)
    session, vhost = channel.session, channel.vhost
    if method.passive:
        require_not_default(name)
        vhost.lookup_exchange(name)
        return None if method.nowait else commands.Exchange.DeclareOk()
    require_known_type(method.exchange_type)
    require_not_default(name)
    session.require(channel, "exchange", name, "configure")
    record = ExchangeRecord(
        vhost.name,
        name,
        method.exchange_type,
        durable=method.durable,
        auto_delete=method.auto_delete,
        internal=method.internal,
        arguments=arguments_of(method),
        created_by=session.user.name,
    )
    if name not in vhost.exchanges:
        alternate = alternate_exchange_of(record)
        if alternate is not None:
            session.require(channel, "exchange", name, "read")
            session.require(channel, "exchange", alternate, "write")
    await vhost.declare_exchange(record)
    return None if method.nowait else commands.Exchange.DeclareOk()


async def delete(channel: Channel, method: commands.Exchange.Delete) -> Method | None:
    name = clean_name(method.exchange)
    require_not_default(name)
    channel.session.require(channel, "exchange", name, "configure")
    await channel.vhost.delete_exchange(name, method.if_unused)
    return None if method.nowait else commands.Exchange.DeleteOk()


async def bind(channel: Channel, method: commands.Exchange.Bind) -> Method | None:
    await channel.vhost.bind(_binding(channel, method), channel.session.host.connection_id)
    return None if method.nowait else commands.Exchange.BindOk()


async def unbind(channel: Channel, method: commands.Exchange.Unbind) -> Method | None:
    await channel.vhost.unbind(_binding(channel, method), channel.session.host.connection_id)
    return None if method.nowait else commands.Exchange.UnbindOk()


def _binding(
    channel: Channel, method: commands.Exchange.Bind | commands.Exchange.Unbind
) -> BindingRecord:
    source, destination = clean_name(method.source), clean_name(method.destination)
    session, vhost = channel.session, channel.vhost
    require_not_default(source)
    require_not_default(destination)
    session.require(channel, "exchange", destination, "write")
    session.require(channel, "exchange", source, "read")
    exchange = vhost.exchanges.get(source)
    if exchange is not None:
        session.require_topic(exchange, method.routing_key, "read")
    target = Destination(DestinationKind.EXCHANGE, destination)
    return BindingRecord(vhost.name, source, target, method.routing_key, arguments_of(method))
