"""The global counters of messages: from the start of the node, by protocol and kind of queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from warren.management.metrics.exposition import (
    COUNTER,
    GAUGE,
    PREFIX,
    Labelled,
    Metric,
    Pieces,
    labels_of,
    write_each,
)
from warren.model.counters import MessageCounters

if TYPE_CHECKING:
    from warren.server.node import Node

_PROTOCOL: Final = labels_of({"protocol": "amqp091"})
_QUEUE_TYPE: Final = labels_of({"protocol": "amqp091", "queue_type": "rabbit_classic_queue"})


class GlobalFigures(NamedTuple):
    counters: MessageCounters
    routed: int
    publishers: int
    consumers: int


_Metric = Metric[GlobalFigures]

_BY_PROTOCOL: Final = (
    _Metric("global_messages_received_total", COUNTER,
            "Total number of messages received from publishers", lambda g: g.counters.publish),
    _Metric("global_messages_received_confirm_total", COUNTER,
            "Total number of messages received from publishers expecting confirmations",
            lambda g: g.counters.publish_confirmed),
    _Metric("global_messages_routed_total", COUNTER,
            "Total number of messages routed to queues or streams", lambda g: g.routed),
    _Metric("global_messages_unroutable_dropped_total", COUNTER,
            "Total number of messages published as non-mandatory into an exchange and dropped as "
            "unroutable", lambda g: g.counters.drop_unroutable),
    _Metric("global_messages_unroutable_returned_total", COUNTER,
            "Total number of messages published as mandatory into an exchange and returned to the "
            "publisher as unroutable", lambda g: g.counters.return_unroutable),
    _Metric("global_messages_confirmed_total", COUNTER,
            "Total number of messages confirmed to publishers", lambda g: g.counters.confirm),
    _Metric("global_publishers", GAUGE, "Publishers currently connected", lambda g: g.publishers),
    _Metric("global_consumers", GAUGE, "Consumers currently connected", lambda g: g.consumers),
)  # fmt: skip
_BY_QUEUE_TYPE: Final = (
    _Metric("global_messages_delivered_total", COUNTER,
            "Total number of messages delivered to consumers", lambda g: _delivered(g.counters)),
    _Metric("global_messages_delivered_consume_manual_ack_total", COUNTER,
            "Total number of messages delivered to consumers using basic.consume with manual "
            "acknowledgment", lambda g: g.counters.deliver),
    _Metric("global_messages_delivered_consume_auto_ack_total", COUNTER,
            "Total number of messages delivered to consumers using basic.consume with automatic "
            "acknowledgment", lambda g: g.counters.deliver_no_ack),
    _Metric("global_messages_delivered_get_manual_ack_total", COUNTER,
            "Total number of messages delivered to consumers using basic.get with manual "
            "acknowledgment", lambda g: g.counters.get),
    _Metric("global_messages_delivered_get_auto_ack_total", COUNTER,
            "Total number of messages delivered to consumers using basic.get with automatic "
            "acknowledgment", lambda g: g.counters.get_no_ack),
    _Metric("global_messages_get_empty_total", COUNTER,
            "Total number of times basic.get operations fetched no message",
            lambda g: g.counters.get_empty),
    _Metric("global_messages_redelivered_total", COUNTER,
            "Total number of messages redelivered to consumers", lambda g: g.counters.redeliver),
    _Metric("global_messages_acknowledged_total", COUNTER,
            "Total number of messages acknowledged by consumers", lambda g: g.counters.ack),
)  # fmt: skip


def _delivered(counters: MessageCounters) -> int:
    return counters.deliver + counters.deliver_no_ack + counters.get + counters.get_no_ack


def write_global(node: Node, consumers: int) -> Pieces:
    activity = node.broker.activity
    exchanges = [x for vhost in node.broker.vhosts.values() for x in vhost.exchanges.values()]
    figures = GlobalFigures(
        counters=activity.messages(),
        routed=activity.routed_gone + sum(x.counters.publish_out for x in exchanges),
        publishers=sum(1 for counters in activity.channels if counters.publish),
        consumers=consumers,
    )
    yield from write_each(PREFIX, _BY_PROTOCOL, Labelled([figures], [_PROTOCOL]))
    yield from write_each(PREFIX, _BY_QUEUE_TYPE, Labelled([figures], [_QUEUE_TYPE]))
