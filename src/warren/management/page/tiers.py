"""Where the messages of a queue are, in RabbitMQ's words.

alpha: body and index in memory. beta: the index is in memory, the body on disk. gamma: the same,
and the index is on disk, too. delta: on disk alone.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.management.json_types import JsonObject

_COUNT: Final = 2


class Tiers(NamedTuple):
    alpha: int
    beta: int
    gamma: int
    delta: int

    @property
    def total(self) -> int:
        return sum(self)


def tiers_of(queue: JsonObject) -> Tiers | None:
    """None while nobody can say, as the queue's node is down."""
    ready, alpha = queue.get("messages_ready"), queue.get("messages_ready_ram")
    if ready is None or alpha is None:
        return None
    status = queue.get("backing_queue_status", {})
    if "alpha" in status:
        near = (status["alpha"], status["beta"], status["gamma"])
        return Tiers(*near, max(0, ready - sum(near)))
    delta = status.get("delta", "")
    is_counted = isinstance(delta, list) and len(delta) > _COUNT and isinstance(delta[_COUNT], int)
    # With priorities there is one for each of them, which RabbitMQ does not add up: what is not in
    # memory counts as being on disk then.
    on_disk = min(delta[_COUNT], ready) if is_counted else ready - min(alpha, ready)
    in_memory = min(alpha, ready - on_disk)
    return Tiers(in_memory, 0, ready - on_disk - in_memory, on_disk)
