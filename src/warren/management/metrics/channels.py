"""Metrics of channels and connections: the same of one and of the sum over all.

RabbitMQ tells per channel and exchange, or queue, what was published and delivered; here it is told
per channel, and per queue and exchange by the metrics of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from warren.broker.activity import Activity, Traffic
from warren.channels.channel import Channel
from warren.management.metrics.exposition import COUNTER, GAUGE, Metric
from warren.model.counters import MessageCounters
from warren.server.connection import AmqpConnection


@dataclass(slots=True)
class ChannelFigures:
    """Of one channel, or of several if others are added."""

    counters: MessageCounters
    channels: int = 0
    consumers: int = 0
    unacked: int = 0
    unconfirmed: int = 0
    uncommitted: int = 0
    acks_uncommitted: int = 0
    consumer_prefetch: int = 0
    channel_prefetch: int = 0

    def add(self, channels: Iterable[Channel]) -> None:
        for channel in channels:
            transaction, confirms = channel.transaction, channel.confirms
            self.channels += 1
            self.consumers += len(channel.consumers)
            self.unacked += len(channel.deliveries.unacked)
            if confirms is not None:
                self.unconfirmed += len(confirms.unconfirmed)
            if transaction is not None:
                self.uncommitted += transaction.messages_uncommitted
                self.acks_uncommitted += transaction.acks_uncommitted
            self.consumer_prefetch += channel.prefetch
            self.channel_prefetch += channel.deliveries.prefetch_limit


def figures_of_channel(channel: Channel) -> ChannelFigures:
    figures = ChannelFigures(channel.counters)
    figures.add([channel])
    return figures


_Metric = Metric[ChannelFigures]

CHANNEL: Final = (
    _Metric("channel_consumers", GAUGE, "Consumers on a channel", lambda c: c.consumers),
    _Metric("channel_messages_unacked", GAUGE, "Delivered but not yet acknowledged messages",
            lambda c: c.unacked),
    _Metric("channel_messages_unconfirmed", GAUGE, "Published but not yet confirmed messages",
            lambda c: c.unconfirmed),
    _Metric("channel_messages_uncommitted", GAUGE,
            "Messages received in a transaction but not yet committed", lambda c: c.uncommitted),
    _Metric("channel_acks_uncommitted", GAUGE,
            "Message acknowledgements in a transaction not yet committed",
            lambda c: c.acks_uncommitted),
    _Metric("consumer_prefetch", GAUGE,
            "Limit of unacknowledged messages for each consumer", lambda c: c.consumer_prefetch),
    _Metric("channel_prefetch", GAUGE,
            "Total limit of unacknowledged messages for all consumers on a channel",
            lambda c: c.channel_prefetch),
)  # fmt: skip
PUBLISHING: Final = (
    _Metric("channel_messages_published_total", COUNTER,
            "Total number of messages published into an exchange on a channel",
            lambda c: c.counters.publish),
    _Metric("channel_messages_confirmed_total", COUNTER,
            "Total number of messages published into an exchange and confirmed on the channel",
            lambda c: c.counters.confirm),
    _Metric("channel_messages_unroutable_returned_total", COUNTER,
            "Total number of messages published as mandatory into an exchange and returned to the "
            "publisher as unroutable", lambda c: c.counters.return_unroutable),
    _Metric("channel_messages_unroutable_dropped_total", COUNTER,
            "Total number of messages published as non-mandatory into an exchange and dropped as "
            "unroutable", lambda c: c.counters.drop_unroutable),
)  # fmt: skip
DELIVERING: Final = (
    _Metric("channel_get_ack_total", COUNTER,
            "Total number of messages fetched with basic.get in manual acknowledgement mode",
            lambda c: c.counters.get),
    _Metric("channel_get_total", COUNTER,
            "Total number of messages fetched with basic.get in automatic acknowledgement mode",
            lambda c: c.counters.get_no_ack),
    _Metric("channel_messages_delivered_ack_total", COUNTER,
            "Total number of messages delivered to consumers in manual acknowledgement mode",
            lambda c: c.counters.deliver),
    _Metric("channel_messages_delivered_total", COUNTER,
            "Total number of messages delivered to consumers in automatic acknowledgement mode",
            lambda c: c.counters.deliver_no_ack),
    _Metric("channel_messages_redelivered_total", COUNTER,
            "Total number of messages redelivered to consumers", lambda c: c.counters.redeliver),
    _Metric("channel_messages_acked_total", COUNTER,
            "Total number of messages acknowledged by consumers", lambda c: c.counters.ack),
    _Metric("channel_get_empty_total", COUNTER,
            "Total number of times basic.get operations fetched no message",
            lambda c: c.counters.get_empty),
)  # fmt: skip


@dataclass(slots=True)
class ConnectionFigures:
    """Of one connection, or of several if others are added."""

    traffic: Traffic
    unsent_bytes: int = 0
    channels: int = 0

    def add(self, connections: Iterable[AmqpConnection]) -> None:
        mine = self.traffic
        for connection in connections:
            traffic = connection.traffic
            mine.received_bytes += traffic.received_bytes
            mine.sent_bytes += traffic.sent_bytes
            mine.frames_received += traffic.frames_received
            mine.writes += traffic.writes
            self.unsent_bytes += connection.unsent_bytes
            self.channels += len(connection.channels)


def figures_of_connection(connection: AmqpConnection) -> ConnectionFigures:
    return ConnectionFigures(connection.traffic, connection.unsent_bytes, len(connection.channels))


def figures_of_closed(activity: Activity) -> ConnectionFigures:
    """Where sums begin."""
    return ConnectionFigures(replace(activity.traffic_gone))


_Traffic = Metric[ConnectionFigures]

CONNECTION_COARSE: Final = (
    _Traffic("connection_incoming_bytes_total", COUNTER,
             "Total number of bytes received on a connection", lambda c: c.traffic.received_bytes),
    _Traffic("connection_outgoing_bytes_total", COUNTER,
             "Total number of bytes sent on a connection", lambda c: c.traffic.sent_bytes),
)  # fmt: skip
CONNECTION: Final = (
    _Traffic("connection_incoming_packets_total", COUNTER,
             "Total number of frames received on a connection",
             lambda c: c.traffic.frames_received),
    _Traffic("connection_outgoing_packets_total", COUNTER,
             "Total number of writes to the socket of a connection", lambda c: c.traffic.writes),
    _Traffic("connection_pending_packets", GAUGE,
             "Number of bytes waiting to be sent on a connection", lambda c: c.unsent_bytes),
    _Traffic("connection_channels", GAUGE, "Channels on a connection", lambda c: c.channels),
)  # fmt: skip
