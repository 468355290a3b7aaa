"""Going through all queues, compiled: 20 000 of them in a few milliseconds, a slice at a time."""

from __future__ import annotations

from warren.model.counters import MessageCounters, QueueLengths
from warren.queues.backing import BackingQueue
from warren.queues.backing_figures import BackingFigures
from warren.queues.memory_backing import MemoryBacking
from warren.queues.queue import Queue
from warren.queues.waiting_times import WaitingTimes
from warren.storage.queue.paged_messages import PagedMessages


class QueueCensus:
    """Sums over queues; `head_age_ms` is that of the oldest head."""

    def __init__(self) -> None:
        self.queues = 0
        self.consumers = 0
        # Queues that have a consumer which can take a message now.
        self.ready_consumers = 0
        self.ready = 0
        self.ready_bytes = 0
        self.unacked = 0
        self.unacked_bytes = 0
        self.persistent = 0
        self.persistent_bytes = 0
        self.paged_out = 0
        self.paged_out_bytes = 0
        self.messages = MessageCounters()
        self.head_age_ms = 0
        self.waited = WaitingTimes(0, 0)

    def count(self, queues: list[Queue], start: int, end: int, now_ms: int) -> None:
        for position in range(start, min(end, len(queues))):
            queue = queues[position]
            self._count(queue, now_ms)

    def _count(self, queue: Queue, now_ms: int) -> None:
        backing = queue.backing
        self.queues += 1
        self.consumers += len(queue.consumers)
        self.ready_consumers += queue.rotation.count > 0
        if backing.length or backing.unacked_count:
            self._count_messages(backing)
        self.messages.add(queue.counters)
        waiting = queue.waiting_times
        if waiting is not None:
            self.waited.add(waiting)
            self.head_age_ms = max(self.head_age_ms, waiting.age_ms(now_ms, backing.length))

    def _count_messages(self, backing: BackingQueue) -> None:
        """The kinds of backing that most queues have give their numbers without a detour."""
        if isinstance(backing, PagedMessages):
            paged = backing
            self.unacked_bytes += paged.unacked_bytes
            self.persistent += paged.persistent_count + paged.unacked_persistent_count
            self.persistent_bytes += paged.persistent_bytes + paged.unacked_persistent_bytes
            self.paged_out += paged.delta_count + paged.bodiless_count
            self.paged_out_bytes += paged.delta_bytes + paged.bodiless_bytes
        elif type(backing) is not MemoryBacking:
            self._count_figures(backing.figures())
            return
        self.ready += backing.length
        self.ready_bytes += backing.ready_bytes
        self.unacked += backing.unacked_count

    def _count_figures(self, figures: BackingFigures) -> None:
        self.ready += figures.ready
        self.ready_bytes += figures.ready_bytes
        self.unacked += figures.unacked
        self.unacked_bytes += figures.unacked_bytes
        self.persistent += figures.persistent
        self.persistent_bytes += figures.persistent_bytes
        self.paged_out += figures.paged_out
        self.paged_out_bytes += figures.paged_out_bytes

    def figures(self) -> BackingFigures:
        return BackingFigures(
            ready=self.ready,
            ready_bytes=self.ready_bytes,
            unacked=self.unacked,
            unacked_bytes=self.unacked_bytes,
            persistent=self.persistent,
            persistent_bytes=self.persistent_bytes,
            paged_out=self.paged_out,
            paged_out_bytes=self.paged_out_bytes,
        )


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
