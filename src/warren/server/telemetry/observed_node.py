"""The observed node: what telemetry reads of the node that it tells of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from warren.broker.broker import Broker
    from warren.config.settings import Config
    from warren.server.alarms import NodeAlarms
    from warren.server.cluster import Cluster
    from warren.server.connection import AmqpConnection
    from warren.server.context import ConnectionContext
    from warren.statistics.statistics import Statistics


class ObservedNode(Protocol):
    config: Config
    broker: Broker
    context: ConnectionContext
    statistics: Statistics
    alarms: NodeAlarms
    cluster: Cluster | None

    def open_connections(self) -> list[AmqpConnection]: ...
