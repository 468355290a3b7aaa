"""The sub-queues of a queue as RabbitMQ shows them: q1, q2, delta, q3, q4, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warren.storage.queue.message_tiers import MessageTiers


def sub_queues(queue: MessageTiers) -> dict[str, Any]:
    """Count the messages of each sub-queue, and of each state.

    q1 and q4 are alphas, q2 and q3 betas and gammas. As in RabbitMQ, q1 is a part of q4 as long as
    nothing is between them, q2 a part of q3 without a delta, and a lazy queue has nothing but q3
    and delta: there q3 is all that is before delta, and delta all that is to leave memory.
    """
    before = len(queue.returned) + len(queue.front) + len(queue.leaving)
    q4, q3 = before - queue.front_bodiless, len(queue.q3) + queue.front_bodiless
    q1, q2 = len(queue.back) - queue.back_bodiless, len(queue.q2) + queue.back_bodiless
    count, start, end = queue.delta_count, queue.delta_start, queue.delta_end
    if queue.is_lazy:
        newer = [*queue.q2, *queue.back]
        q4, q3 = 0, q4 + q3
        q1, q2 = 0, 0
        if newer:
            start = start if count else newer[0].sequence
            end = newer[-1].sequence + 1
            count += len(newer)
    elif not count:
        q3, q2 = q3 + q2, 0
        if not q3:
            q4, q1 = q4 + q1, 0
    transient = max(0, count - queue.persistent_count)
    delta = ["delta", start, count, transient, end]
    nothing = ["delta", "undefined", 0, 0, "undefined"]
    return {
        "q1": q1,
        "q2": q2,
        "delta": delta if count else nothing,
        "q3": q3,
        "q4": q4,
        **states(queue),
    }


def states(queue: MessageTiers) -> dict[str, int]:
    """Count ready messages by what of them is in memory; the rest is delta."""
    bodiless = queue.bodiless_count
    return {
        "alpha": queue.length - queue.delta_count - bodiless,
        "beta": queue.beta_count,
        "gamma": bodiless - queue.beta_count,
    }
