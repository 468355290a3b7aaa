"""A publish that needs a closer look: an unknown route, or properties the broker must act on.

The checks come in RabbitMQ's order. A route found here is kept by the channel, together with the
permissions it took, so that the next publish with the same exchange and key goes the short way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pamqp import commands

from warren.channels.expiration import check_expiration
from warren.channels.reply_registry import DIRECT_REPLY_TO, DIRECT_REPLY_TO_PREFIX
from warren.channels.route import Route
from warren.channels.sender_selected import sender_selected_keys
from warren.channels.wide_publish import WIDE_ROUTE_MIN, publish_widely
from warren.model.errors import (
    NO_ROUTE,
    access_refused,
    not_implemented,
    precondition_failed,
)
from warren.model.limits import ROUTES_PER_CHANNEL_MAX
from warren.model.records import describe_exchange
from warren.routing.exchange import Exchange
from warren.routing.router import DEFAULT_EXCHANGE
from warren.wire.codec import Message, PropertyBlock
from warren.wire.methods import encode_method
from warren.wire.properties import Properties, decode_properties, encode_properties
from warren.wire.route_key import split_route_key

if TYPE_CHECKING:
    from warren.channels.channel import Channel

PUBLISH_IDS: Final = (60, 40)
MANDATORY: Final = 1
IMMEDIATE: Final = 2


def publish_carefully(channel: Channel, message: Message) -> None:
    if message.flags & IMMEDIATE:
        raise not_implemented("immediate=true")
    exchange_name, routing_key = split_route_key(message.route_key)
    exchange = _writable_exchange(channel, exchange_name, routing_key)
    routing_keys = [routing_key]
    headers = None
    is_cacheable = channel.vhost.router.is_cacheable(exchange)
    if message.properties.needs_vetting or not is_cacheable:
        properties = decode_properties(message.properties.raw)
        message = _vetted(channel, message, properties)
        selected = sender_selected_keys(properties.headers)
        routing_keys += selected.keys
        headers = properties.headers
        if selected.hidden:
            message = _with_properties(message, selected.without_hidden(properties))
    queues = channel.vhost.route(exchange_name, routing_keys, headers)
    route = Route(queues, exchange.counters)
    if exchange_name == DEFAULT_EXCHANGE and routing_key.startswith(DIRECT_REPLY_TO_PREFIX):
        channel.session.reply_registry.answer(routing_key, message)
    elif channel.vhost.firehose.is_on:
        channel.vhost.firehose.published(channel, message, routing_keys, queues)
    elif is_cacheable and len(routing_keys) == 1 and route.width < WIDE_ROUTE_MIN:
        _keep_route(channel, message.route_key, route)
    if channel.transaction is not None:
        channel.transaction.publish(message, route)
    else:
        if not route.queues:
            unroutable(channel, message)
        channel.count(route, 1)
        if route.width >= WIDE_ROUTE_MIN:
            work = publish_widely(channel, message, route, channel.version.value)
            channel.session.suspend(channel, work, PUBLISH_IDS)
        elif route.queues or channel.confirms is None or channel.session.host.is_frozen:
            channel.send(message, route)
        else:
            channel.confirms.acknowledge_alone()


def unroutable(channel: Channel, message: Message) -> None:
    """No queue gets it: back to the publisher, if that is what it wants."""
    if message.flags & MANDATORY:
        channel.counters.return_unroutable += 1
        _return(channel, message)
    else:
        channel.counters.drop_unroutable += 1


def _writable_exchange(channel: Channel, name: str, routing_key: str) -> Exchange:
    """The exchange, if it may be published to: permitted, there, and not internal."""
    channel.session.require(channel, "exchange", name, "write")
    exchange = channel.vhost.lookup_exchange(name)
    if exchange.record.internal:
        where = describe_exchange(name, channel.vhost.name)
        raise access_refused(f"cannot publish to internal {where}")
    channel.session.require_topic(exchange, routing_key, "write")
    return exchange


def _keep_route(channel: Channel, route_key: bytes, route: Route) -> None:
    if len(channel.routes) >= ROUTES_PER_CHANNEL_MAX:
        channel.routes.clear()
    channel.routes[route_key] = route


def _vetted(channel: Channel, message: Message, properties: Properties) -> Message:
    """Check what a client may not claim, and put in what only the broker knows."""
    is_edited = False
    if properties.reply_to == DIRECT_REPLY_TO:
        properties.reply_to = _reply_address(channel)
        is_edited = True
    if properties.user_id is not None:
        channel.session.host.access.require_user_id(channel.session.user, properties.user_id)
    if properties.expiration is not None:
        # "+5" and "0005" are numbers to RabbitMQ; the kernel knows the plain form only.
        plain = str(check_expiration(properties.expiration))
        is_edited = is_edited or plain != properties.expiration
        properties.expiration = plain
    return _with_properties(message, properties) if is_edited else message


def _with_properties(message: Message, properties: Properties) -> Message:
    block = PropertyBlock(encode_properties(properties))
    return Message(message.route_key, block, message.body, message.flags)


def _return(channel: Channel, message: Message) -> None:
    exchange, routing_key = split_route_key(message.route_key)
    method = commands.Basic.Return.__new__(commands.Basic.Return)
    method.reply_code = NO_ROUTE
    method.reply_text = "NO_ROUTE"
    method.exchange = exchange
    method.routing_key = routing_key
    channel.output.content(channel.number, encode_method(method), message)


def _reply_address(channel: Channel) -> str:
    if channel.reply_consumer is None:
        raise precondition_failed("fast reply consumer does not exist")
    return channel.reply_consumer.address
