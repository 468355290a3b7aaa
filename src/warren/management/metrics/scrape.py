"""One answer to Prometheus, in pieces: the event loop has a turn after each of them.

A piece may be empty: then there was something to count. What is counted is a list made at the
beginning, since anything may come and go between two pieces.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from warren.broker.vhost import VirtualHost
from warren.management.metrics import channels, node, queues
from warren.management.metrics.exchanges import EXCHANGE
from warren.management.metrics.exposition import (
    GAUGE,
    PREFIX,
    SAMPLES_AT_ONCE_MAX,
    Labelled,
    Metric,
    Pieces,
    labels_of,
    write_each,
    write_sums,
)
from warren.management.metrics.messages import write_global
from warren.management.metrics.mirrors import MIRRORS, figures_of_mirrors
from warren.management.metrics.redundancy import write_copies, write_redundancy
from warren.management.views.channels import ChannelPlace, channels_of
from warren.queues.queue import Queue
from warren.queues.waiting_times import WaitingTimes
from warren.routing.exchange import Exchange
from warren.statistics.census import QueueCensus

if TYPE_CHECKING:
    from warren.server.node import Node

T = TypeVar("T")
Counting: TypeAlias = Generator[str, None, T]

# Summing up queues is compiled, half a millisecond; the figures of each take longer.
QUEUES_AT_ONCE_MAX: Final = 2_000
FIGURES_AT_ONCE_MAX: Final = 200

QUEUE_SUMS: Final = (*queues.COARSE, *queues.FINE[:-1], *queues.PUBLISHED, *queues.DELIVERY)
QUEUE_EACH: Final = (
    *queues.COARSE, *queues.FINE, *queues.PUBLISHED, *queues.DELIVERY, *queues.HEAD_AGE,
)  # fmt: skip
CHANNEL: Final = (*channels.CHANNEL, *channels.PUBLISHING, *channels.DELIVERING)
CONNECTION: Final = (*channels.CONNECTION_COARSE, *channels.CONNECTION)


class Totals(NamedTuple):
    connections: int
    channels: int
    consumers: int
    queues: int


_TOTALS: Final[tuple[Metric[Totals], ...]] = (
    Metric("connections", GAUGE, "Connections currently open", lambda t: t.connections),
    Metric("channels", GAUGE, "Channels currently open", lambda t: t.channels),
    Metric("consumers", GAUGE, "Consumers currently connected", lambda t: t.consumers),
    Metric("queues", GAUGE, "Queues available", lambda t: t.queues),
)


class Scrape:
    """`vhosts` are the names of those to tell of; None: all."""

    def __init__(self, node: Node, vhosts: frozenset[str] | None = None) -> None:
        self.node = node
        self.activity = node.broker.activity
        self._vhosts = [
            vhost for name, vhost in node.broker.vhosts.items() if vhosts is None or name in vhosts
        ]
        self._connections = [
            c for c in node.open_connections() if vhosts is None or c.vhost.name in vhosts
        ]

    def aggregated(self) -> Pieces:
        """One sample of each metric, whatever there is."""
        yield from self._of_the_node()
        census = yield from self._census()
        sums = queues.sums_of(census, self.activity)
        yield from write_sums(PREFIX, (*QUEUE_SUMS, *queues.HEAD_AGE), sums)
        yield from self._waiting(census, sums)
        of_channels = yield from self._channel_sums()
        yield from write_sums(PREFIX, CHANNEL, of_channels)
        of_connections = yield from self._connection_sums()
        yield from write_sums(PREFIX, CONNECTION, of_connections)
        yield from self._totals(of_channels.channels, of_channels.consumers)

    def per_object(self) -> Pieces:
        """A sample for each object; what belongs to none is as in the sums."""
        yield from self._of_the_node()
        census = yield from self._census()
        yield from self._waiting(census, queues.sums_of(census, self.activity))
        yield from self.write_queues(PREFIX, QUEUE_EACH)
        yield from self.write_copies(PREFIX)
        yield from self.write_channels(PREFIX, CHANNEL)
        yield from self.write_connections(PREFIX, CONNECTION)
        yield from self.write_exchanges(PREFIX, EXCHANGE)
        of_channels = yield from self._channel_sums()
        yield from self._totals(of_channels.channels, of_channels.consumers)

    def _of_the_node(self) -> Pieces:
        for metrics in (
            node.ALARMS, node.CHURN, node.NODE_COARSE, node.NODE, node.PERSISTER, node.DISK,
        ):  # fmt: skip
            yield from write_sums(PREFIX, metrics, self.node)
        yield from write_sums(PREFIX, MIRRORS, figures_of_mirrors(self.node))
        yield from write_redundancy(self.node)
        yield from node.write_attempts(self.node, PREFIX)
        yield from node.write_identity(self.node)

    def _totals(self, channel_count: int, consumer_count: int) -> Pieces:
        queue_count = sum(len(vhost.queues) for vhost in self._vhosts)
        totals = Totals(len(self._connections), channel_count, consumer_count, queue_count)
        yield from write_sums(PREFIX, _TOTALS, totals)
        yield from write_global(self.node, consumer_count)

    # Sums.

    def _census(self) -> Counting[QueueCensus]:
        census, now_ms, those = QueueCensus(), self.node.context.clock.now_ms(), self._queues()
        for start in range(0, len(those), QUEUES_AT_ONCE_MAX):
            census.count(those, start, start + QUEUES_AT_ONCE_MAX, now_ms)
            yield ""
        return census

    def _waiting(self, census: QueueCensus, sums: queues.QueueFigures) -> Pieces:
        waited = WaitingTimes(0, 0)
        waited.add(census.waited)
        waited.add(self.activity.waited_gone)
        return queues.write_waiting(PREFIX, [("", waited, sums.counters)])

    def _channel_sums(self) -> Counting[channels.ChannelFigures]:
        sums, those = channels.ChannelFigures(self.activity.messages()), self._channels()
        for start in range(0, len(those), SAMPLES_AT_ONCE_MAX):
            sums.add(place.channel for place in those[start : start + SAMPLES_AT_ONCE_MAX])
            yield ""
        return sums

    def _connection_sums(self) -> Counting[channels.ConnectionFigures]:
        sums, those = channels.figures_of_closed(self.activity), self._connections
        for start in range(0, len(those), SAMPLES_AT_ONCE_MAX):
            sums.add(those[start : start + SAMPLES_AT_ONCE_MAX])
            yield ""
        return sums

    # One by one.

    def write_queues(self, prefix: str, metrics: Sequence[Metric[queues.QueueFigures]]) -> Pieces:
        those, now_ms = self._queues(), self.node.context.clock.now_ms()
        figures: list[queues.QueueFigures] = []
        labels: list[str] = []
        for start in range(0, len(those), FIGURES_AT_ONCE_MAX):
            part = those[start : start + FIGURES_AT_ONCE_MAX]
            figures += [queues.figures_of(queue, now_ms) for queue in part]
            labels += map(_queue_labels, part)
            yield ""
        yield from write_each(prefix, metrics, Labelled(figures, labels))

    def write_copies(self, prefix: str) -> Pieces:
        return write_copies(prefix, self.node, self._queues(), _queue_labels)

    def write_waiting(self, prefix: str) -> Pieces:
        used = [
            (_queue_labels(queue), queue.waiting_times, queue.counters)
            for queue in self._queues()
            if queue.waiting_times is not None
        ]
        return queues.write_waiting(prefix, used)

    def write_channels(
        self, prefix: str, metrics: Sequence[Metric[channels.ChannelFigures]]
    ) -> Pieces:
        those = self._channels()
        figures = [channels.figures_of_channel(place.channel) for place in those]
        yield from write_each(prefix, metrics, Labelled(figures, [*map(_channel_labels, those)]))

    def write_connections(
        self, prefix: str, metrics: Sequence[Metric[channels.ConnectionFigures]]
    ) -> Pieces:
        figures = [channels.figures_of_connection(each) for each in self._connections]
        labels = [labels_of({"connection": each.details.name}) for each in self._connections]
        yield from write_each(prefix, metrics, Labelled(figures, labels))

    def write_exchanges(
        self, prefix: str, metrics: Sequence[Metric[Exchange]], with_type: bool = False
    ) -> Pieces:
        those = [exchange for vhost in self._vhosts for exchange in vhost.exchanges.values()]
        labels = [_exchange_labels(exchange, with_type) for exchange in those]
        yield from write_each(prefix, metrics, Labelled(those, labels))

    def write_vhosts(self, prefix: str) -> Pieces:
        status: Metric[VirtualHost] = Metric(
            "vhost_status", GAUGE, "Whether a given vhost is running", lambda vhost: 1
        )
        labels = [labels_of({"vhost": vhost.name}) for vhost in self._vhosts]
        yield from write_each(prefix, (status,), Labelled(self._vhosts, labels))

    def _queues(self) -> list[Queue]:
        return [queue for vhost in self._vhosts for queue in vhost.queues_here()]

    def _channels(self) -> list[ChannelPlace]:
        return [place for connection in self._connections for place in channels_of(connection)]


def _channel_labels(place: ChannelPlace) -> str:
    return labels_of({"channel": place.name, "vhost": place.connection.vhost.name})


def _queue_labels(queue: Queue) -> str:
    return labels_of({"vhost": queue.record.vhost, "queue": queue.record.name})


def _exchange_labels(exchange: Exchange, with_type: bool) -> str:
    record = exchange.record
    labels = {"vhost": record.vhost, "exchange": record.name}
    return labels_of({**labels, "type": record.type} if with_type else labels)
