"""Metrics of queues: the same of one queue and of the sum over all."""

from __future__ import annotations

from math import nan
from typing import Final, NamedTuple

from warren.broker.activity import Activity
from warren.management.metrics.exposition import COUNTER, GAUGE, HISTOGRAM, Metric, Pieces, head_of
from warren.management.views.queues import MESSAGE_BYTES, QUEUE_BYTES
from warren.model.counters import MessageCounters
from warren.queues.backing import BackingQueue
from warren.queues.backing_figures import BackingFigures
from warren.queues.queue import Queue
from warren.queues.waiting_times import WAIT_BUCKETS_MS, WaitingTimes
from warren.statistics.census import QueueCensus
from warren.wire.properties import decode_properties

_HAS_TIMESTAMP: Final = 0x40
WAITING: Final = "queue_time_in_queue_seconds"
HISTOGRAMS_AT_ONCE_MAX: Final = 100


class QueueFigures(NamedTuple):
    """Of one queue, or of several; `ready_consumers` counts those whose consumers can take more."""

    queues: int
    messages: BackingFigures
    consumers: int
    ready_consumers: int
    counters: MessageCounters
    head_age_ms: int
    head_timestamp: float = nan

    @property
    def in_memory(self) -> int:
        return self.messages.ready + self.messages.unacked - self.messages.paged_out

    @property
    def bytes(self) -> int:
        return self.messages.ready_bytes + self.messages.unacked_bytes

    @property
    def bytes_in_memory(self) -> int:
        return self.bytes - self.messages.paged_out_bytes

    @property
    def memory_bytes(self) -> int:
        kept = self.in_memory * MESSAGE_BYTES + self.bytes_in_memory
        return self.queues * QUEUE_BYTES + kept


def figures_of(queue: Queue, now_ms: int) -> QueueFigures:
    backing = queue.backing
    return QueueFigures(
        1,
        backing.figures(),
        len(queue.consumers),
        int(queue.rotation.count > 0),
        queue.counters,
        queue.head_age_ms(now_ms) or 0,
        _head_timestamp(backing),
    )


def sums_of(census: QueueCensus, activity: Activity) -> QueueFigures:
    """What deleted queues had counted stays in, so that counters never fall."""
    counters = MessageCounters()
    counters.add(census.messages)
    counters.add(activity.queues_gone)
    return QueueFigures(
        census.queues,
        census.figures(),
        census.consumers,
        census.ready_consumers,
        counters,
        census.head_age_ms,
    )


def _head_timestamp(backing: BackingQueue) -> float:
    head = backing.peek() if backing.length else None
    if head is None or not head.message.properties.flags & _HAS_TIMESTAMP:
        return nan
    timestamp = decode_properties(head.message.properties.raw).timestamp
    return nan if timestamp is None else timestamp


_Metric = Metric[QueueFigures]

COARSE: Final = (
    _Metric("queue_messages_ready", GAUGE, "Messages ready to be delivered to consumers",
            lambda q: q.messages.ready),
    _Metric("queue_messages_unacked", GAUGE,
            "Messages delivered to consumers but not yet acknowledged",
            lambda q: q.messages.unacked),
    _Metric("queue_messages", GAUGE, "Sum of ready and unacknowledged messages - total queue depth",
            lambda q: q.messages.ready + q.messages.unacked),
)  # fmt: skip
CONSUMERS: Final = (
    _Metric("queue_consumers", GAUGE, "Consumers on a queue", lambda q: q.consumers),
)
FINE: Final = (
    *CONSUMERS,
    _Metric("queue_consumer_capacity", GAUGE, "Consumer capacity", lambda q: q.ready_consumers),
    _Metric("queue_consumer_utilisation", GAUGE, "Same as consumer capacity",
            lambda q: q.ready_consumers),
    _Metric("queue_process_memory_bytes", GAUGE, "Memory in bytes used by the queue",
            lambda q: q.memory_bytes),
    _Metric("queue_messages_ram", GAUGE, "Ready and unacknowledged messages stored in memory",
            lambda q: q.in_memory),
    _Metric("queue_messages_ram_bytes", GAUGE,
            "Size of ready and unacknowledged messages stored in memory",
            lambda q: q.bytes_in_memory),
    _Metric("queue_messages_ready_ram", GAUGE, "Ready messages stored in memory",
            lambda q: q.messages.ready - q.messages.paged_out),
    _Metric("queue_messages_unacked_ram", GAUGE, "Unacknowledged messages stored in memory",
            lambda q: q.messages.unacked),
    _Metric("queue_messages_persistent", GAUGE, "Persistent messages",
            lambda q: q.messages.persistent),
    _Metric("queue_messages_persistent_bytes", GAUGE, "Size in bytes of persistent messages",
            lambda q: q.messages.persistent_bytes),
    _Metric("queue_messages_bytes", GAUGE, "Size in bytes of ready and unacknowledged messages",
            lambda q: q.bytes),
    _Metric("queue_messages_ready_bytes", GAUGE, "Size in bytes of ready messages",
            lambda q: q.messages.ready_bytes),
    _Metric("queue_messages_unacked_bytes", GAUGE, "Size in bytes of all unacknowledged messages",
            lambda q: q.messages.unacked_bytes),
    _Metric("queue_messages_paged_out", GAUGE, "Messages paged out to disk",
            lambda q: q.messages.paged_out),
    _Metric("queue_messages_paged_out_bytes", GAUGE, "Size in bytes of messages paged out to disk",
            lambda q: q.messages.paged_out_bytes),
    _Metric("queue_head_message_timestamp", GAUGE,
            "Timestamp of the first message in the queue, if any", lambda q: q.head_timestamp),
)  # fmt: skip
PUBLISHED: Final = (
    _Metric("queue_messages_published_total", COUNTER, "Total number of messages published to "
            "queues", lambda q: q.counters.publish),
)  # fmt: skip
# As later versions of RabbitMQ have them.
DELIVERY: Final = (
    _Metric("queue_get_ack_total", COUNTER,
            "Total number of messages fetched from a queue with basic.get in manual "
            "acknowledgement mode", lambda q: q.counters.get),
    _Metric("queue_get_total", COUNTER,
            "Total number of messages fetched from a queue with basic.get in automatic "
            "acknowledgement mode", lambda q: q.counters.get_no_ack),
    _Metric("queue_messages_delivered_ack_total", COUNTER,
            "Total number of messages delivered from a queue to consumers in manual "
            "acknowledgement mode", lambda q: q.counters.deliver),
    _Metric("queue_messages_delivered_total", COUNTER,
            "Total number of messages delivered from a queue to consumers in automatic "
            "acknowledgement mode", lambda q: q.counters.deliver_no_ack),
    _Metric("queue_messages_redelivered_total", COUNTER,
            "Total number of messages redelivered from a queue to consumers",
            lambda q: q.counters.redeliver),
    _Metric("queue_messages_acked_total", COUNTER,
            "Total number of messages acknowledged by consumers on a queue",
            lambda q: q.counters.ack),
    _Metric("queue_get_empty_total", COUNTER,
            "Total number of times basic.get operations fetched no message on a queue",
            lambda q: q.counters.get_empty),
)  # fmt: skip
# Ours: the oldest of all in sums.
HEAD_AGE: Final = (
    _Metric("queue_head_message_age_seconds", GAUGE,
            "How long the oldest ready message has been waiting",
            lambda q: q.head_age_ms / 1000),
)  # fmt: skip


def write_waiting(prefix: str, those: list[tuple[str, WaitingTimes, MessageCounters]]) -> Pieces:
    """The histogram of how long messages waited, for each of those (labels, times, counts).

    What was handed to a consumer at once was never in the queue, and has waited for nothing.
    """
    name = prefix + WAITING
    yield head_of(name, HISTOGRAM, "How long messages waited in queues until they were delivered")
    for start in range(0, len(those), HISTOGRAMS_AT_ONCE_MAX):
        part = those[start : start + HISTOGRAMS_AT_ONCE_MAX]
        yield "".join([_histogram(name, *each) for each in part])


def _histogram(name: str, labels: str, waited: WaitingTimes, counters: MessageCounters) -> str:
    delivered = counters.deliver + counters.deliver_no_ack + counters.get + counters.get_no_ack
    count = max(0, delivered - waited.left)
    comma = "," if labels else ""
    lines = []
    for bucket, limit_ms in zip(waited.buckets, (*WAIT_BUCKETS_MS, None), strict=True):
        count += bucket
        limit = "+Inf" if limit_ms is None else limit_ms / 1000
        lines.append(f'{name}_bucket{{{labels}{comma}le="{limit}"}} {count}\n')
    braced = f"{{{labels}}}" if labels else ""
    lines.append(f"{name}_sum{braced} {waited.waited_ms / 1000}\n")
    lines.append(f"{name}_count{braced} {count}\n")
    return "".join(lines)
