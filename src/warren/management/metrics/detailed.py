"""/metrics/detailed: only those families, and only of those virtual hosts, that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from warren.management.metrics import channels, exchanges, node, queues
from warren.management.metrics.exposition import PREFIX, Metric, Pieces, write_sums
from warren.management.metrics.scrape import Scrape

if TYPE_CHECKING:
    from warren.server.node import Node

DETAILED: Final = PREFIX + "detailed_"
CLUSTER: Final = PREFIX + "cluster_"

Write: TypeAlias = Callable[[Scrape], Pieces]


def _node(metrics: Sequence[Metric[Node]]) -> Write:
    return lambda scrape: write_sums(DETAILED, metrics, scrape.node)


def _queues(metrics: Sequence[Metric[queues.QueueFigures]]) -> Write:
    return lambda scrape: scrape.write_queues(DETAILED, metrics)


def _channels(metrics: Sequence[Metric[channels.ChannelFigures]]) -> Write:
    return lambda scrape: scrape.write_channels(DETAILED, metrics)


def _connections(metrics: Sequence[Metric[channels.ConnectionFigures]]) -> Write:
    return lambda scrape: scrape.write_connections(DETAILED, metrics)


FAMILIES: Final[dict[str, Write]] = {
    "connection_churn_metrics": _node(node.CHURN),
    "node_coarse_metrics": _node(node.NODE_COARSE),
    "node_metrics": _node(node.NODE),
    "node_persister_metrics": _node(node.PERSISTER),
    "auth_attempt_metrics": lambda scrape: node.write_attempts(scrape.node, DETAILED),
    "queue_coarse_metrics": _queues(queues.COARSE),
    "queue_consumer_count": _queues(queues.CONSUMERS),
    "queue_metrics": _queues(queues.FINE),
    "channel_queue_exchange_metrics": _queues(queues.PUBLISHED),
    "queue_delivery_metrics": _queues(queues.DELIVERY),
    "channel_metrics": _channels(channels.CHANNEL),
    "channel_exchange_metrics": _channels(channels.PUBLISHING),
    "channel_queue_metrics": _channels(channels.DELIVERING),
    "connection_coarse_metrics": _connections(channels.CONNECTION_COARSE),
    "connection_metrics": _connections(channels.CONNECTION),
    "vhost_status": lambda scrape: scrape.write_vhosts(CLUSTER),
    "exchange_names": lambda scrape: scrape.write_exchanges(CLUSTER, exchanges.NAMES, True),
    "exchange_bindings": lambda scrape: scrape.write_exchanges(CLUSTER, exchanges.BINDINGS, True),
    # Ours.
    "exchange_metrics": lambda scrape: scrape.write_exchanges(DETAILED, exchanges.EXCHANGE),
    "queue_head_metrics": _queues(queues.HEAD_AGE),
    "queue_copies_metrics": lambda scrape: scrape.write_copies(DETAILED),
    "queue_waiting_metrics": lambda scrape: scrape.write_waiting(DETAILED),
}


def detailed(scrape: Scrape, families: Iterable[str]) -> Pieces:
    """Families that nobody knows are passed over, as RabbitMQ does."""
    wanted = dict.fromkeys(families)
    if "queue_metrics" in wanted:
        wanted.pop("queue_consumer_count", None)  # it has the same metric
    for family in wanted:
        if family in FAMILIES:
            yield from FAMILIES[family](scrape)
    yield from node.write_identity(scrape.node)
