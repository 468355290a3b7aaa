"""Metrics of exchanges. RabbitMQ 3 has what is published by channel and exchange only."""

from __future__ import annotations

from typing import Final

from warren.management.metrics.exposition import COUNTER, GAUGE, Metric
from warren.routing.exchange import Exchange

EXCHANGE: Final[tuple[Metric[Exchange], ...]] = (
    Metric("exchange_messages_published_total", COUNTER,
           "Total number of messages published into an exchange",
           lambda x: x.counters.publish_in),
    Metric("exchange_messages_routed_total", COUNTER,
           "Total number of copies of messages that an exchange has routed to queues",
           lambda x: x.counters.publish_out),
)  # fmt: skip
NAMES: Final[tuple[Metric[Exchange], ...]] = (
    Metric("exchange_name", GAUGE, "Enumerates exchanges without any additional info. This value "
           "is cluster-wide.", lambda x: 1),
)  # fmt: skip
BINDINGS: Final[tuple[Metric[Exchange], ...]] = (
    Metric("exchange_bindings", GAUGE, "Number of bindings for an exchange. This value is "
           "cluster-wide.", lambda x: x.bindings_count),
)  # fmt: skip
