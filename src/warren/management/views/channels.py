"""Channels and their consumers as JSON."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from warren.channels.channel import Channel
from warren.management.arguments import table_to_json
from warren.management.json_types import JsonObject
from warren.management.views.connections import show_connection_reference
from warren.management.views.moments import show_idle_since
from warren.queues.consumers import Consumer
from warren.queues.queue import Queue
from warren.queues.settings import QueueType
from warren.server.connection import AmqpConnection
from warren.streams.consumer_groups import group_of
from warren.streams.queue import StreamQueue

if TYPE_CHECKING:
    from warren.server.node import Node


class ChannelPlace(NamedTuple):
    """A channel, and whose it is."""

    connection: AmqpConnection
    channel: Channel

    @property
    def name(self) -> str:
        return f"{self.connection.details.name} ({self.channel.number})"


class ConsumerPlace(NamedTuple):
    """A consumer, and where it is."""

    at: ChannelPlace
    consumer: Consumer


def channels_of(connection: AmqpConnection) -> list[ChannelPlace]:
    return [ChannelPlace(connection, c) for c in connection.channels if not c.is_closing]


def consumers_of(connection: AmqpConnection) -> list[ConsumerPlace]:
    return [
        ConsumerPlace(place, consumer)
        for place in channels_of(connection)
        for consumer in place.channel.consumers.values()
    ]


def show_channel(node: Node, place: ChannelPlace) -> JsonObject:
    connection, channel = place
    transaction, confirms = channel.transaction, channel.confirms
    user = connection.user.name
    shown: JsonObject = {
        "acks_uncommitted": 0 if transaction is None else transaction.acks_uncommitted,
        "confirm": confirms is not None,
        "connection_details": show_connection_reference(connection),
        "consumer_count": len(channel.consumers),
        "global_prefetch_count": channel.deliveries.prefetch_limit,
        "messages_unacknowledged": len(channel.deliveries.unacked),
        "messages_uncommitted": 0 if transaction is None else transaction.messages_uncommitted,
        "messages_unconfirmed": 0 if confirms is None else len(confirms.unconfirmed),
        "name": place.name,
        "node": node.config.name,
        "number": channel.number,
        "pending_raft_commands": 0,
        "pid": connection.pid(channel.number),
        "prefetch_count": channel.prefetch,
        "state": connection.channel_state(channel.number),
        "transactional": transaction is not None,
        "user": user,
        "user_who_performed_action": user,
        "vhost": connection.vhost.name,
    }
    if stats := node.statistics.of_channel(channel):
        shown["message_stats"] = stats
    show_idle_since(shown, node, channel.counters)
    return shown


def show_channel_in_full(
    node: Node, place: ChannelPlace, active: Collection[Consumer]
) -> JsonObject:
    consumers = [ConsumerPlace(place, consumer) for consumer in place.channel.consumers.values()]
    return {
        **show_channel(node, place),
        "consumer_details": [show_consumer(node, consumer, active) for consumer in consumers],
        # By queue and exchange, which RabbitMQ knows with detailed rates only.
        "deliveries": [],
        "publishes": [],
    }


def show_consumer(
    node: Node, place: ConsumerPlace, active: Collection[Consumer] = ()
) -> JsonObject:
    """`active` are those that a master elsewhere has as the active one of a queue or group."""
    consumer = place.consumer
    record = consumer.queue.record
    is_active, status = _activity(consumer, active)
    return {
        "ack_required": not consumer.no_ack,
        "active": is_active,
        "activity_status": status,
        "arguments": table_to_json(consumer.arguments),
        "channel_details": _show_channel_reference(node, place.at),
        "consumer_tag": consumer.tag,
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.prefetch,
        "queue": {"name": record.name, "vhost": record.vhost},
    }


def takes_turns(consumer: Consumer) -> bool:
    """True if others wait while it is served: of a queue, or of a group that reads a stream."""
    is_grouped = group_of(consumer.arguments) is not None
    is_stream = consumer.queue.settings.queue_type is QueueType.STREAM
    return is_grouped if is_stream else consumer.queue.settings.single_active_consumer


def _activity(consumer: Consumer, active: Collection[Consumer]) -> tuple[bool, str]:
    queue = consumer.queue
    if not takes_turns(consumer):
        return True, "up"
    if isinstance(queue, StreamQueue):
        is_active = consumer in queue.cursors
    elif isinstance(queue, Queue):
        is_active = queue.active_consumer is consumer
    else:
        is_active = consumer in active
    return is_active, "single_active" if is_active else "waiting"


def _show_channel_reference(node: Node, place: ChannelPlace) -> JsonObject:
    details = place.connection.details
    return {
        "connection_name": details.name,
        "name": place.name,
        "node": node.config.name,
        "number": place.channel.number,
        "peer_host": details.peer.host,
        "peer_port": details.peer.port,
        "pid": place.connection.pid(place.channel.number),
        "user": place.connection.user.name,
    }
