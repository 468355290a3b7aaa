"""Which queues an index knows: by name, and those that were deleted and still have files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.storage.index.queue_index import QueueIndex


class QueueRegister:
    def __init__(self) -> None:
        self.alive: dict[str, QueueIndex] = {}
        self.deleted: dict[QueueIndex, None] = {}
        self.next_id = 1

    def new_id(self) -> int:
        """Never used again, also not by a queue of the same name."""
        self.next_id += 1
        return self.next_id - 1

    def all(self) -> list[QueueIndex]:
        return [*self.alive.values(), *self.deleted]

    def is_free(self, queue: QueueIndex) -> bool:
        """Whether no deleted queue of the same name has files where this one would have its own."""
        return all(other.name != queue.name for other in self.deleted)
