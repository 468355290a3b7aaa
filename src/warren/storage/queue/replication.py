"""Changes to a queue's messages that another node has decided: by number, not by whose turn it is.

A mirror does not deliver, expire or drop. It is told which messages come, under the sequence number
that the master gave them, and which are gone. So the messages of a mirror are a `VariableQueue` as
any other, with its tiers, bounds and files, of which nothing is ever fetched; and when the mirror
becomes the master, that same object goes on as the backing of the queue.

What is gone is nearly always at the head or not far behind it: behind messages that a client of the
master has and has not acknowledged. So it is looked for from the head on.

What comes later than what is newer (a synchronisation works its way back from what a mirror has to
what it lacks) is older than all that is there: it becomes the head.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final

from warren.queues.boundary import PENDING, TAKEN, Publisher
from warren.storage.index.segment import pieces_among
from warren.storage.queue.message_tiers import is_bodiless
from warren.storage.queue.paging_host import MESSAGE_OVERHEAD_BYTES
from warren.storage.queue.variable_queue import VariableQueue
from warren.wire.codec import Message, QueuedMessage

EVERYTHING: Final = 1 << 62

# A number of another module, which the .pxd makes a C variable.
_OVERHEAD = MESSAGE_OVERHEAD_BYTES


def put_at(
    queue: VariableQueue,
    sequence: int,
    message: Message,
    expires_at_ms: int,
    publisher: Publisher | None,
) -> int:
    """Append a message under its own number; TAKEN or PENDING, as `publish` says it."""
    assert sequence >= queue.next_sequence, "numbers go up"
    queue.next_sequence = sequence
    outcome = queue.publish(message, expires_at_ms, publisher, sequence)
    tail: Any = queue.back if queue.back else queue.front
    tail[-1].redelivered = True
    return outcome


def put_run(
    queue: VariableQueue,
    first: int,
    messages: list[Message],
    expiries: tuple[int, ...],
    publisher: Publisher,
) -> int:
    """Append messages under numbers that follow each other; how many of them are TAKEN."""
    taken = 0
    sequence = first
    for place, message in enumerate(messages):
        if put_at(queue, sequence, message, expiries[place], publisher) == TAKEN:
            taken += 1
        sequence += 1
    return taken


def put_older(
    queue: VariableQueue,
    sequence: int,
    message: Message,
    expires_at_ms: int,
    publisher: Publisher,
) -> int:
    """Add a message that is older than all there are; TAKEN or PENDING."""
    queued = QueuedMessage(message, sequence, expires_at_ms)
    queued.redelivered = True
    queued.size = len(message.body)
    if queue.returned:  # from a time when this was the master
        heappush(queue.returned, (sequence, queued))
    else:
        queue.front.appendleft(queued)
        queue.loaded_below = 0
    queue.length += 1
    queue.ready_bytes += queued.size
    if not (queue.is_durable and message.properties.persistent):
        return TAKEN
    queue.persistent_count += 1
    queue.persistent_bytes += queued.size
    queued.publisher = publisher
    queued.publisher_sequence = sequence
    queue.indexed().publish(queued)
    return PENDING


def offer_again(queue: VariableQueue) -> None:
    """Mark what is on disk as redelivered: the master may have given it to a client.

    A mirror's messages are marked in memory when they come (`put_at`), and may leave it; and a
    mirror that stops may be master after its next start, with what its disk has.
    """
    if queue.index is not None:
        queue.index.redelivered_below = queue.next_sequence


def mark_all(queue: VariableQueue) -> None:
    """Mark every message as redelivered, in memory and on disk, where a clean stop leaves it."""
    offer_again(queue)
    for queued in queue.in_memory():
        queued.redelivered = True


def retain(queue: VariableQueue, runs: Sequence[tuple[int, int]], end: int) -> None:
    """Forget all but these, (first, count) in order; what comes is numbered from `end` on."""
    start = 0
    for first, count in runs:
        remove_span(queue, start, first)
        start = first + count
    remove_span(queue, start, EVERYTHING)
    if queue.delta_count:
        # It ended with a segment, in which there may have been room for more.
        queue.delta_end = min(queue.delta_end, end)
    queue.next_sequence = end
    if queue.index is not None:
        # A start passes over some numbers; these are wanted.
        queue.index.next_sequence = end
        queue.index.segmented_below = min(queue.index.segmented_below, end)


def remove(queue: VariableQueue, first: int, count: int, body_bytes: int) -> None:
    """Forget a run of messages, all of which are here, and whose bodies have so many bytes."""
    end = first + count
    gone = _take_from_memory(queue, first, end)
    paged_out = count - len(gone)
    if paged_out:
        sizes = sum([queued.size for queued in gone])
        _forget_paged_out(queue, (first, end), paged_out, body_bytes - sizes)


def remove_span(queue: VariableQueue, start: int, end: int) -> None:
    """Forget whatever is numbered from `start` to before `end`, however much that is."""
    _take_from_memory(queue, start, end)
    start, end = max(start, queue.delta_start), min(end, queue.delta_end)
    if queue.delta_count == 0 or start >= end:
        return
    count = queue.delta_count
    if start > queue.delta_start or end < queue.delta_end:
        count = _count_paged_out(queue, start, end)
    if count:
        _forget_paged_out(
            queue, (start, end), count, queue.delta_bytes * count // queue.delta_count
        )


def _count_paged_out(queue: VariableQueue, start: int, end: int) -> int:
    queue.index.close_run()
    pieces = pieces_among(queue.index.segments, start, end)
    return sum((segment.readable & places).bit_count() for segment, places in pieces)


def _take_from_memory(queue: VariableQueue, first: int, end: int) -> list[QueuedMessage]:
    gone: list[QueuedMessage] = []
    if queue.returned:
        _take_returned(queue, first, end, gone)
    _take(queue.front, first, end, gone)
    if queue.front_bodiless:
        for queued in gone:
            if is_bodiless(queued):
                queue.uncount_bodiless(queued)
    if queue.leaving:
        _take_leaving(queue, first, end, gone)
    if queue.places:
        _take_places(queue, first, end, gone)
    if queue.back:
        _take_back(queue, first, end, gone)
    if gone:
        _count_gone(queue, gone)
    return gone


def _take(messages: deque[QueuedMessage], first: int, end: int, gone: list[QueuedMessage]) -> int:
    """Move those of the run to `gone`; says how many there were before them."""
    if not messages or messages[-1].sequence < first or messages[0].sequence >= end:
        return 0
    position = 0
    for queued in messages:
        if queued.sequence >= first:
            break
        position += 1
    messages.rotate(-position)
    while messages and first <= messages[0].sequence < end:
        gone.append(messages.popleft())
    messages.rotate(position)
    return position


def _take_returned(queue: VariableQueue, first: int, end: int, gone: list[QueuedMessage]) -> None:
    returned = queue.returned
    while returned and first <= returned[0][0] < end:
        gone.append(heappop(returned)[1])
    if not returned or returned[0][0] >= end:
        return
    if any(first <= sequence < end for sequence, _ in returned):
        gone += [queued for sequence, queued in returned if first <= sequence < end]
        returned[:] = [entry for entry in returned if not first <= entry[0] < end]
        heapify(returned)


def _take_leaving(queue: VariableQueue, first: int, end: int, gone: list[QueuedMessage]) -> None:
    mine = [queued for queued in queue.leaving if first <= queued.sequence < end]
    if mine:
        queue.leaving = [q for q in queue.leaving if not first <= q.sequence < end]
        queue.leaving_bytes -= sum([queued.size + _OVERHEAD for queued in mine])
        gone += mine


def _take_places(queue: VariableQueue, first: int, end: int, gone: list[QueuedMessage]) -> None:
    mine: list[QueuedMessage] = []
    _take(queue.q3, first, end, mine)
    _take(queue.q2, first, end, mine)
    for queued in mine:
        queue.uncount_place(queued)
    gone += mine


def _take_back(queue: VariableQueue, first: int, end: int, gone: list[QueuedMessage]) -> None:
    mine: list[QueuedMessage] = []
    position = _take(queue.back, first, end, mine)
    if not mine:
        return
    given = mine[: max(0, queue.given_count - position)]
    queue.given_count -= len(given)
    queue.given_bytes -= sum([queued.size + _OVERHEAD for queued in given])
    queue.back_bytes -= sum([queued.size + _OVERHEAD for queued in mine])
    queue.release_credit()
    if queue.back_bodiless:
        bodiless = [queued.size for queued in mine if is_bodiless(queued)]
        queue.back_bodiless -= len(bodiless)
        queue.back_bodiless_bytes -= sum(bodiless)
    gone += mine


def _count_gone(queue: VariableQueue, gone: list[QueuedMessage]) -> None:
    for queued in gone:
        queue.ready_bytes -= queued.size
        if queue.is_persistent(queued):
            queue.persistent_count -= 1
            queue.persistent_bytes -= queued.size
    queue.length -= len(gone)
    if queue.index is not None:
        queue.index.ack(gone)


def _forget_paged_out(
    queue: VariableQueue, span: tuple[int, int], count: int, body_bytes: int
) -> None:
    """What is in no list is on disk only."""
    start, end = max(span[0], queue.delta_start), min(span[1], queue.delta_end)
    assert count <= min(end - start, queue.delta_count), "what is gone was here"
    queue.index.ack_range(start, end)
    queue.delta_count -= count
    queue.delta_bytes -= body_bytes
    queue.length -= count
    queue.ready_bytes -= body_bytes
    queue.persistent_count = max(0, queue.persistent_count - count)
    queue.persistent_bytes = max(0, queue.persistent_bytes - body_bytes)
    if not queue.delta_count:
        # Nothing weighs nothing, whatever was estimated.
        queue.ready_bytes -= queue.delta_bytes
        queue.delta_bytes = 0
        queue.end_delta()
