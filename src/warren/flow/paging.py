"""Who has to move messages out of memory when it gets short, and how many.

There is one budget for all queues, in bytes. Its measure is what the kernel says the process holds,
for that is what the limit is about; but how much of it is messages, and whose, is counted. When the
process holds more than the paging threshold (a share of the limit, `paging_bytes`), messages have
to make up for what is above it:

    excess  =  held  -  threshold  -  what is on its way to the disk already

and every queue gives its share of that, in proportion to what it has. Its oldest messages stay:
they are wanted first. Queues that have little are left alone as long as there are others.

RabbitMQ aims at a duration: every queue may hold as many messages as it moves in so many seconds. A
queue that nobody reads from thus loses all of it. Here it keeps its share, and it makes no
difference: its consumer, when one comes, begins with what is in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

RELAX_BELOW: Final = 0.9
"""Of the threshold: below that share, messages may stay in memory again."""

QUEUE_BYTES_MIN: Final = 65_536
"""A queue with less than that in memory is of no use to us, if others have more."""


class Pageable(Protocol):
    @property
    def memory_bytes(self) -> int:
        """Of messages that are in memory."""

    @property
    def waiting_bytes(self) -> int:
        """Of those among them that will leave it as soon as the disk has them."""


Queue = TypeVar("Queue", bound=Pageable)


@dataclass(frozen=True, slots=True)
class Orders(Generic[Queue]):
    queues: list[Queue]
    """Who is to save memory, those with the most first."""
    kept_share: float
    """Of what stays there now."""


def orders(queues: Iterable[Queue], above_bytes: int) -> Orders[Queue]:
    """What brings memory down by `above_bytes`, or as far as possible."""
    sized: list[tuple[int, Queue]] = []
    excess = above_bytes
    for queue in queues:
        waiting = queue.waiting_bytes
        excess -= waiting
        sized.append((queue.memory_bytes - waiting, queue))
    if excess <= 0:
        return Orders([], 1.0)
    large = [(size, queue) for size, queue in sized if size >= QUEUE_BYTES_MIN]
    if sum(size for size, _ in large) < excess:
        large = [(size, queue) for size, queue in sized if size > 0]
    total = sum(size for size, _ in large)
    large.sort(key=lambda entry: entry[0], reverse=True)
    kept_share = max(0.0, 1.0 - excess / total) if total else 0.0
    return Orders([queue for _, queue in large], kept_share)
