"""Which of a client's deliveries are those of this master.

A client at a mirror's node keeps what it has when that node is promoted, and may settle it later.
But all that counts as ready again, and will be delivered again: to settle it is void. And its
numbers are those of the link that it came over, which other messages may have here.
"""

from __future__ import annotations

from warren.queues.backing import BackingQueue
from warren.wire.codec import QueuedMessage


def own_deliveries(
    unacked: dict[tuple[int, int], QueuedMessage], backing: BackingQueue, run: list[QueuedMessage]
) -> list[QueuedMessage]:
    known = []
    for queued in run:
        level = backing.level_number(queued.message)
        if unacked.get((level, queued.sequence)) is queued:
            known.append(queued)
    return known
