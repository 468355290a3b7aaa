"""What operators are shown of the work a node does, with RabbitMQ's names.

Counts are read from where they are made, at the moment somebody asks. Rates need two looks: every
SAMPLE_INTERVAL_MS all that counts is visited (`sampling`), a slice of it at a time so that clients
go on meanwhile, and its growth since the last visit is its rate until the next one.

Every answer is a mapping that can go into JSON as it is: a count under its name, and how fast it
grows under the name with `_details`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Final, Protocol

from warren.broker.activity import Traffic
from warren.broker.broker import Broker
from warren.channels.channel import Channel
from warren.model.clock import Clock
from warren.model.counters import MessageCounters, TrafficCounters
from warren.queues.queue import Queue
from warren.statistics.census import QueueCensus, sample_queues
from warren.statistics.figures import (
    DELIVERING,
    PUBLISHING,
    Figures,
    exchange_figures,
    message_figures,
    with_rates,
)
from warren.statistics.history import History, Sample
from warren.statistics.total_history import LENGTHS, OF_MACHINES, TotalHistory, TotalSample
from warren.storage.bodies.store_counters import StorageCounts
from warren.wire.codec import FrameReader, OutputBuffer

SAMPLE_INTERVAL_MS: Final = 5_000
# Visited in one go: less than a millisecond's work.
VISITS_PER_SLICE: Final = 1_000

_FAMILIES: Final = (PUBLISHING, DELIVERING)
_DISK: Final = ("disk_reads", "disk_writes")
# Families of counters are left out until one of them counts; until then they are 0.
_NOTHING: Final = {name: 0 for family in _FAMILIES for name in family}


class CountedConnection(Protocol):
    """What statistics need to know of a client's connection."""

    reader: FrameReader
    output: OutputBuffer

    @property
    def traffic(self) -> Traffic: ...

    @property
    def unsent_bytes(self) -> int: ...


class Statistics:
    """Of one node. `connections` says which there are at the moment."""

    def __init__(
        self,
        broker: Broker,
        count_storage: Callable[[], StorageCounts],
        connections: Callable[[], Sequence[CountedConnection]],
        clock: Clock,
    ) -> None:
        self._broker = broker
        self._count_storage = count_storage
        self._connections = connections
        self._clock = clock
        self._sampled_at_ms = clock.now_ms()
        self._traffic: dict[CountedConnection, TrafficCounters] = {}
        self._node = MessageCounters()
        self._vhosts: dict[str, MessageCounters] = {}
        # Of figures that are single numbers: what they were, and how fast they grow.
        self._single: dict[str, int] = {}
        self._single_rates: dict[str, float] = {}
        # Of queues that have used the disk: messages read and written, and how fast that grows.
        self._disk_counts: dict[Queue, tuple[int, int]] = {}
        self._disk_rates: dict[Queue, tuple[float, float]] = {}
        self._history = History()
        self.total_history = TotalHistory(broker.events.node_name)
        # Called with each sample, so that other nodes hear of it.
        self.tell_sample: Callable[[dict[str, int]], None] = lambda _sample: None
        # What whoever shows figures wants to have a past of beside what is counted here.
        self.machine_figures: Callable[[], dict[str, int]] = dict

    def of_queue(self, queue: Queue) -> Figures:
        """The `message_stats` of a queue; empty until something has happened to it."""
        counters = queue.counters
        figures = message_figures(counters, (("publish",), DELIVERING), counters.rates)
        counts = queue.backing.local().disk_counts()
        if any(counts):
            rates = dict(zip(_DISK, self._disk_rates.get(queue, ()), strict=False))
            figures |= with_rates(dict(zip(_DISK, counts, strict=True)), rates)
        return figures

    def lengths_of_queue(self, queue: Queue) -> Figures:
        """How many messages it has, and how that changes."""
        ready, unacked = queue.backing.length, queue.backing.unacked_count
        lengths = queue.lengths
        rates = (lengths.ready_rate, lengths.unacked_rate) if lengths is not None else (0.0, 0.0)
        return with_rates(
            dict(zip(LENGTHS, (ready + unacked, ready, unacked), strict=True)),
            dict(zip(LENGTHS, (sum(rates), *rates), strict=True)),
        )

    def of_exchange(self, vhost: str, exchange: str) -> Figures:
        return exchange_figures(self._broker.vhosts[vhost].exchanges[exchange].counters)

    def of_channel(self, channel: Channel) -> Figures:
        return message_figures(channel.counters, _FAMILIES, channel.counters.rates)

    def of_connection(self, connection: CountedConnection) -> Figures:
        """Traffic: `recv_oct`, `send_oct` ... with their details."""
        sampled = self._traffic.get(connection) or TrafficCounters()
        traffic = connection.traffic
        octets = {"recv_oct": traffic.received_bytes, "send_oct": traffic.sent_bytes}
        rates = {"recv_oct": sampled.receive_rate, "send_oct": sampled.send_rate}
        return with_rates(octets, rates) | {
            "recv_cnt": traffic.frames_received,
            "send_cnt": traffic.writes,
            "send_pend": connection.unsent_bytes,
        }

    def idle_since_ms(self, counters: MessageCounters) -> int | None:
        """When the last thing was counted; None if that is not a sample ago yet."""
        idle_s = counters.idle_s
        return None if idle_s == 0 else self._sampled_at_ms - int(1000 * idle_s)

    def of_vhost(self, vhost: str) -> Figures:
        """The `message_stats` of all that happened in a virtual host."""
        sampled = self._vhosts.get(vhost)
        total = self._broker.vhosts[vhost].activity.messages()
        return message_figures(total, _FAMILIES, sampled.rates if sampled is not None else None)

    def totals(self) -> Figures:
        """The `message_stats` of the node."""
        messages = self._broker.activity.messages()
        figures = message_figures(messages, _FAMILIES, self._node.rates)
        return figures | with_rates(self._disk(), self._single_rates)

    def queue_totals(self) -> Figures:
        return with_rates(_lengths(self.census(self.queues())), self._single_rates)

    def churn(self) -> Figures:
        """The `churn_rates`: how many connections, channels and queues came and went."""
        return with_rates(asdict(self._broker.activity.churn), self._single_rates)

    def history(self, name: str, age_s: int, increment_s: int) -> list[Sample]:
        """Of a figure of the node: of `totals`, `queue_totals`, `churn` or `machine_figures`."""
        return self._history.samples(name, self._clock.now_ms(), age_s, increment_s)

    def history_of_all(self, name: str, age_s: int, increment_s: int) -> list[TotalSample]:
        """Return the past of all nodes together: of `totals`, `queue_totals` or `churn`."""
        return self.total_history.samples(name, self._clock.now_ms(), age_s, increment_s)

    def machines(self, age_s: int, increment_s: int) -> dict[str, dict[str, list[Sample]]]:
        """By node, running or not, and figure: the past of its machine, as this node heard it."""
        now_ms = self._clock.now_ms()
        return {
            node: {name: history.samples(name, now_ms, age_s, increment_s) for name in OF_MACHINES}
            for node, history in self.total_history.machines.items()
        }

    def heard(self, node: str, sample: Mapping[str, int]) -> None:
        """Another node has told its sample."""
        self.total_history.heard(node, self._clock.now_ms(), sample)

    def queues(self) -> list[Queue]:
        return [queue for vhost in self._broker.vhosts.values() for queue in vhost.queues_here()]

    def census(self, queues: list[Queue]) -> QueueCensus:
        census = QueueCensus()
        census.count(queues, 0, len(queues), self._clock.now_ms())
        return census

    # Sampling.

    def sampling(self) -> Iterator[None]:
        """A visit to everything: do it to the end, and something else between its steps."""
        now_ms = self._clock.now_ms()
        elapsed_s = max(1, now_ms - self._sampled_at_ms) / 1000
        self._sampled_at_ms = now_ms
        queues = self.queues()
        for start in range(0, len(queues), VISITS_PER_SLICE):
            sample_queues(queues, start, start + VISITS_PER_SLICE, elapsed_s)
            yield
        yield from self._sample_disk(queues, elapsed_s)
        for step in (self._sample_channels, self._sample_exchanges, self._sample_connections):
            yield from step(elapsed_s)
        census = QueueCensus()
        for start in range(0, len(queues), VISITS_PER_SLICE):
            census.count(queues, start, start + VISITS_PER_SLICE, now_ms)
            yield
        self._sample_sums(census, elapsed_s)

    def _sample_disk(self, queues: list[Queue], elapsed_s: float) -> Iterator[None]:
        counts, rates = dict[Queue, tuple[int, int]](), dict[Queue, tuple[float, float]]()
        for start in range(0, len(queues), VISITS_PER_SLICE):
            for queue in queues[start : start + VISITS_PER_SLICE]:
                found = queue.backing.local().disk_counts()
                if any(found):
                    reads, writes = self._disk_counts.get(queue, (0, 0))
                    # A queue may have got another backing, which begins anew.
                    new = max(0, found[0] - reads), max(0, found[1] - writes)
                    counts[queue] = found
                    rates[queue] = new[0] / elapsed_s, new[1] / elapsed_s
            yield
        self._disk_counts, self._disk_rates = counts, rates

    def _sample_channels(self, elapsed_s: float) -> Iterator[None]:
        channels = list(self._broker.activity.channels)
        for start in range(0, len(channels), VISITS_PER_SLICE):
            for counters in channels[start : start + VISITS_PER_SLICE]:
                counters.sample(elapsed_s)
            yield

    def _sample_exchanges(self, elapsed_s: float) -> Iterator[None]:
        vhosts = self._broker.vhosts.values()
        exchanges = [exchange for vhost in vhosts for exchange in vhost.exchanges.values()]
        for start in range(0, len(exchanges), VISITS_PER_SLICE):
            for exchange in exchanges[start : start + VISITS_PER_SLICE]:
                exchange.counters.sample(elapsed_s)
            yield

    def _sample_connections(self, elapsed_s: float) -> Iterator[None]:
        connections = self._connections()
        former, traffic = self._traffic, dict[CountedConnection, TrafficCounters]()
        for start in range(0, len(connections), VISITS_PER_SLICE):
            for connection in connections[start : start + VISITS_PER_SLICE]:
                counters = former.get(connection) or TrafficCounters()
                counters.sample(connection.reader.octets, connection.output.octets, elapsed_s)
                traffic[connection] = counters
            yield
        self._traffic = traffic

    def _sample_sums(self, census: QueueCensus, elapsed_s: float) -> None:
        broker = self._broker
        _sample_sum(self._node, broker.activity.messages(), elapsed_s)
        self._vhosts = {name: self._vhosts.get(name, MessageCounters()) for name in broker.vhosts}
        for name, sampled in self._vhosts.items():
            _sample_sum(sampled, broker.vhosts[name].activity.messages(), elapsed_s)
        single = _lengths(census) | asdict(broker.activity.churn) | self._disk()
        former = self._single or single
        self._single_rates = {
            name: (value - former[name]) / elapsed_s for name, value in single.items()
        }
        self._single = single
        counts = message_figures(self._node, _FAMILIES, None)
        totals = {name: count for name, count in counts.items() if isinstance(count, int)}
        sample = _NOTHING | single | totals | self.machine_figures()
        now_ms = self._clock.now_ms()
        self._history.add(now_ms, sample)
        self.total_history.add(now_ms, sample)
        self.tell_sample(sample)

    def _disk(self) -> dict[str, int]:
        counts = self._count_storage()
        return dict(zip(_DISK, (counts.messages_read, counts.messages_written), strict=True))


def _lengths(census: QueueCensus) -> dict[str, int]:
    counts = (census.ready + census.unacked, census.ready, census.unacked)
    return dict(zip(LENGTHS, counts, strict=True))


def _sample_sum(sampled: MessageCounters, total: MessageCounters, elapsed_s: float) -> None:
    sampled.reset()
    sampled.add(total)
    sampled.sample(elapsed_s)
