"""A queue's messages as RabbitMQ parts them: q1, q2, delta, q3, q4, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warren.storage.queue.paged_messages import PagedMessages


def sub_queues(queue: PagedMessages) -> dict[str, Any]:
    """As RabbitMQ shows them. Its lazy queues have nothing but q3 and delta; in others, q4 is
    all there is unless something was paged out or came after that."""
    first, back = len(queue.front) + len(queue.leaving), len(queue.back)
    count, q1 = queue.delta_count, back
    if queue.is_lazy:
        q3, q4 = first + len(queue.returned), 0
        count, q1 = count + back, 0
    elif queue.delta_count or back:
        q3, q4 = first, len(queue.returned)
    else:
        q3, q4 = 0, first + len(queue.returned)
    start = queue.delta_start if queue.delta_count or not back else queue.back[0].sequence
    end = queue.back[-1].sequence + 1 if queue.is_lazy and back else queue.delta_end
    transient = max(0, count - queue.persistent_count)
    delta = ["delta", start, count, transient, end]
    nothing = ["delta", "undefined", 0, 0, "undefined"]
    return {"q1": q1, "q2": 0, "delta": delta if count else nothing, "q3": q3, "q4": q4}
