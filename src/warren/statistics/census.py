"""Going through all queues, compiled: 20 000 of them in a few milliseconds, a slice at a time."""

from __future__ import annotations

from warren.broker.activity import delivered_by
from warren.model.counters import QueueLengths
from warren.queues.queue import Queue
from warren.queues.waiting_times import WaitingTimes
from warren.storage.variable_queue import VariableQueue


class QueueCensus:
    """Sums over queues; `head_age_ms` is that of the oldest head."""

    def __init__(self) -> None:
        self.queues = 0
        self.consumers = 0
        self.ready = 0
        self.ready_bytes = 0
        self.unacked = 0
        self.paged_out = 0
        self.paged_out_bytes = 0
        self.published = 0
        self.delivered = 0
        self.head_age_ms = 0
        self.waited = WaitingTimes(0, 0)

    def count(self, queues: list[Queue], start: int, end: int, now_ms: int) -> None:
        for position in range(start, min(end, len(queues))):
            queue = queues[position]
            self._count(queue, now_ms)

    def _count(self, queue: Queue, now_ms: int) -> None:
        backing = queue.backing
        counters = queue.counters
        self.queues += 1
        self.consumers += len(queue.consumers)
        self.ready += backing.length
        self.ready_bytes += backing.ready_bytes
        self.unacked += backing.unacked_count
        self.published += counters.publish
        self.delivered += delivered_by(counters)
        if isinstance(backing, VariableQueue) and backing.delta_count:
            self.paged_out += backing.delta_count
            self.paged_out_bytes += backing.delta_bytes
        waiting = queue.waiting_times
        if waiting is not None:
            self.waited.add(waiting)
            self.head_age_ms = max(self.head_age_ms, waiting.age_ms(now_ms, backing.length))


def sample_queues(queues: list[Queue], start: int, end: int, elapsed_s: float) -> None:
    """Work out the rates of each since the last time, which was so long ago."""
    for position in range(start, min(end, len(queues))):
        queue = queues[position]
        queue.counters.sample(elapsed_s)
        backing = queue.backing
        lengths = queue.lengths
        if lengths is None:
            if backing.length == 0 and backing.unacked_count == 0:
                continue
            lengths = queue.lengths = QueueLengths()
        lengths.sample(backing.length, backing.unacked_count, elapsed_s)
