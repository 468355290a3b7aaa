"""Recalling: a queue that is lazy no more has its messages read back, a batch at a time.

RabbitMQ does so, too. Nobody waits for them, so it ends as soon as memory is short: what is left
comes back when it is needed. What was recalled may leave memory again, like anything published.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from warren.storage.queue.message_tiers import is_bodiless
from warren.wire.codec import QueuedMessage

if TYPE_CHECKING:
    from warren.storage.queue.variable_queue import VariableQueue

RECALL_BYTES: Final = 1_048_576
RECALL_MESSAGES_MAX: Final = 16_384


def recall(queue: VariableQueue) -> None:
    """Have the next batch read, unless one is being read, whose end calls this again."""
    if not queue.is_recalling or queue.is_loading or queue.is_filling:
        return
    if queue.keep_bytes >= 0:
        queue.is_recalling = False
        return
    if queue.q3 and not queue.front_bodiless:
        queue.take_places(RECALL_BYTES)
    bodiless = _latest_bodiless(queue)
    if bodiless:
        queue.read_bodies_of(bodiless)
    elif queue.delta_count and not queue.q3:
        queue.load()
    else:
        queue.is_recalling = False


def _latest_bodiless(queue: VariableQueue) -> list[QueuedMessage]:
    """Find messages without a body at the end of `front`, where the last batch came."""
    if not queue.front_bodiless:
        return []
    latest = islice(reversed(queue.front), RECALL_MESSAGES_MAX)
    found = [queued for queued in latest if is_bodiless(queued)]
    found.reverse()
    return _within(found)


def _within(found: list[QueuedMessage]) -> list[QueuedMessage]:
    room = RECALL_BYTES
    for count, queued in enumerate(found):
        if room <= 0:
            return found[:count]
        room -= queued.size
    return found
