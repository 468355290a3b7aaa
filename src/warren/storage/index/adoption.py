"""Taking over queues from before a start: what recovery found becomes queues that go on."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from warren.storage.index.checkpoint import encode_queue
from warren.storage.index.index_records import EMBEDDED
from warren.storage.index.queue_index import QueueIndex
from warren.storage.index.recovering import RecoveringQueue
from warren.storage.index.segment import SEGMENT_ENTRIES, SEGMENT_SHIFT
from warren.storage.index.segment_entry import weigh
from warren.storage.index.segment_reading import mark_redelivered
from warren.wire.codec import QueuedMessage


@dataclass(frozen=True, slots=True)
class RecoveredSegment:
    start: int
    end: int
    count: int
    body_bytes: int


@dataclass(frozen=True, slots=True)
class RecoveredQueue:
    """What a queue had when the node stopped: the older part in segments, the newer in memory.

    All of `journaled` comes after all that is in segments.
    """

    name: str
    next_sequence: int
    used_from: int
    used_below: int
    segments: list[RecoveredSegment]
    journaled: list[QueuedMessage]

    @property
    def count(self) -> int:
        return sum(segment.count for segment in self.segments) + len(self.journaled)


def adopt(
    queue: QueueIndex, recovering: RecoveringQueue, *, is_clean: bool, journal_from: int
) -> None:
    """`queue` is new and has nothing; what it is to have is in the journal from that file on."""
    state = recovering.state
    past = max([state.next_sequence, *((n + 1) << SEGMENT_SHIFT for n in state.segments)])
    # As in RabbitMQ. What comes is never in a segment with what was.
    queue.next_sequence = -(-past // SEGMENT_ENTRIES) * SEGMENT_ENTRIES
    queue.segments = state.segments
    queue.has_directory = any(segment.live for segment in state.segments.values())
    queue.acked_segments = {n: s for n, s in state.segments.items() if s.unwritten_acks}
    queue.delivered = state.delivered
    # Who had what is only known after a clean stop; otherwise anybody may have had everything.
    queue.redelivered_below = state.redelivered_below if is_clean else queue.next_sequence
    queue.journaled = sorted(recovering.journaled.values(), key=attrgetter("sequence"))
    queue.journaled_from = journal_from
    _charge(queue, queue.journaled)
    first = [queued.sequence for queued in queue.journaled[:1]]
    queue.segmented_below = min(first, default=queue.next_sequence)
    mark_redelivered(queue, queue.journaled)
    for segment in state.segments.values():
        if not segment.live:
            queue.removable.append(segment)
        elif segment.doomed:
            queue.segments_to_purge.append(segment)
    _describe_for_checkpoints(queue, state.next_sequence)
    _bury_orphans(queue, recovering)
    _write_off(queue, recovering.lost)


def _describe_for_checkpoints(queue: QueueIndex, used_below: int) -> None:
    """Numbers that were passed over, and have not been used, need not be known as used."""
    following, queue.next_sequence = queue.next_sequence, used_below
    queue.blob = encode_queue(queue)
    queue.next_sequence = following


def adopt_deleted(queue: QueueIndex, recovering: RecoveringQueue) -> None:
    """A deletion that was not finished."""
    queue.segments = recovering.state.segments
    queue.is_deleted = True
    _bury_orphans(queue, recovering)


def _bury_orphans(queue: QueueIndex, recovering: RecoveringQueue) -> None:
    """Have the deaths recorded that were not when the node stopped."""
    orphans = list(recovering.orphans.values())
    _charge(queue, orphans)
    queue.ack(orphans)


def _write_off(queue: QueueIndex, lost: list[int]) -> None:
    """Have it recorded that nobody wants these: the next start must not miss them, nor the file
    they were said to be in."""
    queue.acks += [(sequence, 1, 0, EMBEDDED, 0) for sequence in lost]
    if lost:
        queue.become_dirty()


def _charge(queue: QueueIndex, entries: list[QueuedMessage]) -> None:
    if queue.credit is not None:
        queue.credit.charge(weigh(entries), None)


def merge_runs(queue: QueueIndex, more: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of sequence numbers that were delivered, without those that are long gone."""
    alive = [segment.base for segment in queue.segments.values() if segment.live]
    alive += [queued.sequence for queued in queue.journaled[:1]]
    oldest = max(min(alive, default=queue.next_sequence), queue.redelivered_below)
    merged: list[tuple[int, int]] = []
    for first, count in sorted([*queue.delivered, *more]):
        if first + count <= oldest:
            continue
        if merged and first <= sum(merged[-1]):
            start = merged[-1][0]
            merged[-1] = (start, max(sum(merged[-1]), first + count) - start)
        else:
            merged.append((first, count))
    return merged


def is_interleaved(queue: QueueIndex) -> bool:
    """Whether some of what is in memory is older than some of what is in segments.

    That happens if copying was interrupted and there is no checkpoint to say so, or if large
    messages overtook small ones on their way to the journal.
    """
    if not queue.journaled:
        return False
    first = queue.journaled[0].sequence
    return any(s.base + s.live.bit_length() > first for s in queue.segments.values())


def describe(queue: QueueIndex, used_from: int, used_below: int) -> RecoveredQueue:
    """`used_from`, `used_below`: all numbers that the disk knows of are between these."""
    segments = []
    for number in sorted(queue.segments):
        segment = queue.segments[number]
        count = segment.readable.bit_count()
        if count:
            end = segment.base + SEGMENT_ENTRIES
            segments.append(RecoveredSegment(segment.base, end, count, segment.body_bytes))
    journaled = list(queue.journaled)
    used = used_from, used_below
    return RecoveredQueue(queue.name, queue.next_sequence, *used, segments, journaled)
