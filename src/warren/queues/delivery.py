"""A channel's side of delivery: tags, what is unacknowledged, and how much more it may have.

Delivery tags count 1, 2, 3 ... per channel and every delivery takes one, but only those to be
acknowledged are remembered. `ack(N, multiple)` must find all remembered tags up to N. Walking the
dictionary from its front would step over the holes of earlier acks again and again; instead we
remember the tag below which everything is settled and look each tag up once. That number only
grows, so all multiple acks together cost one look-up per tag ever given out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from warren.model.counters import MessageCounters
from warren.queues.trace_switch import NEVER_TRACED, TraceSwitch
from warren.wire.codec import OutputBuffer, QueuedMessage

if TYPE_CHECKING:
    from warren.queues.boundary import AbstractQueue, Holder


Run: TypeAlias = list[QueuedMessage]


class TurnClock:
    """The time this turn of the event loop began: good enough for time-outs, and free to read."""

    def __init__(self) -> None:
        self.now_ms = 0


class UnknownDeliveryTag(Exception):
    def __init__(self, tag: int) -> None:
        super().__init__(f"unknown delivery tag {tag}")
        self.tag = tag


class Deliveries:
    def __init__(
        self, number: int, output: OutputBuffer, clock: TurnClock, counters: MessageCounters
    ) -> None:
        self.number = number
        self.output = output
        self.clock = clock
        self.counters = counters
        self.next_tag = 1
        self.settled_below = 1
        self.unacked: dict[int, QueuedMessage] = {}
        # basic.qos with global=true: a window shared by all consumers of the channel; 0 = none.
        self.prefetch_limit = 0
        self.prefetch_used = 0
        self.waiting: list[Holder] = []
        self.trace: TraceSwitch = NEVER_TRACED
        # Whose deliveries these are, for those who trace them.
        self.channel: object = None

    def has_room(self) -> bool:
        """Whether the socket and the channel's shared window allow one more delivery."""
        if self.output.is_congested:
            return False
        return self.prefetch_limit == 0 or self.prefetch_used < self.prefetch_limit

    def track(self, queued: QueuedMessage, holder: Holder) -> int:
        """Give the delivery a tag and remember who has it."""
        tag = self.next_tag
        self.next_tag = tag + 1
        queued.holder = holder
        queued.delivered_at_ms = self.clock.now_ms
        self.unacked[tag] = queued
        holder.unacked += 1
        if holder.counts_for_prefetch:
            self.prefetch_used += 1
        return tag

    def ack(self, tag: int, multiple: bool) -> None:
        self.settle_acked(self.take(tag, multiple))

    def take(self, tag: int, multiple: bool) -> list[QueuedMessage]:
        """Forget the deliveries that an ack, nack or reject names, oldest first."""
        unacked = self.unacked
        if not multiple:
            queued = unacked.pop(tag, None)
            if queued is None:
                raise UnknownDeliveryTag(tag)
            return [queued]
        if tag == 0:
            return self.take_all()
        if tag not in unacked:
            raise UnknownDeliveryTag(tag)
        if tag - self.settled_below > len(unacked):
            # Most in between are settled: there are fewer deliveries left than numbers.
            taken = self.take_tags([each for each in unacked if each <= tag])
            self.settled_below = tag + 1
            return taken
        taken = []
        for candidate in range(self.settled_below, tag + 1):
            queued = unacked.pop(candidate, None)
            if queued is not None:
                taken.append(queued)
        self.settled_below = tag + 1
        return taken

    def take_tags(self, tags: list[int]) -> list[QueuedMessage]:
        """Forget the deliveries with these tags; those that are settled are passed over."""
        taken = [self.unacked.pop(tag, None) for tag in tags]
        return [queued for queued in taken if queued is not None]

    def take_run(self, first: int, count: int) -> list[QueuedMessage]:
        """Forget so many deliveries from a tag on; those that are settled are passed over."""
        taken = []
        for candidate in range(first, min(first + count, self.next_tag)):
            queued = self.unacked.pop(candidate, None)
            if queued is not None:
                taken.append(queued)
        return taken

    def take_all(self) -> list[QueuedMessage]:
        taken = list(self.unacked.values())
        self.unacked.clear()
        self.settled_below = self.next_tag
        return taken

    def put_back(self, settled: list[tuple[int, QueuedMessage]]) -> None:
        """A rolled-back transaction: these are unacknowledged again, under their old tags."""
        if not settled:
            return
        self.unacked.update(settled)
        self.unacked = dict(sorted(self.unacked.items()))
        self.settled_below = min(self.settled_below, next(iter(self.unacked)))

    def settle_acked(self, taken: list[QueuedMessage]) -> None:
        self.counters.ack += len(taken)
        for queue, run in self.release(taken):
            queue.counters.ack += len(run)
            queue.acked(run)
        self.wake_waiting()

    def settle_requeued(self, taken: list[QueuedMessage]) -> None:
        for queue, run in self.release(taken):
            queue.requeued(run)
        self.wake_waiting()

    def settle_rejected(self, taken: list[QueuedMessage]) -> None:
        for queue, run in self.release(taken):
            queue.rejected(run)
        self.wake_waiting()

    def release(
        self, taken: list[QueuedMessage]
    ) -> list[tuple[AbstractQueue, list[QueuedMessage]]]:
        """Free the windows these deliveries held; returns them in runs of the same queue.

        Parked consumers are woken by the caller's `wake_waiting`, after the queues have been told,
        so that a requeued message is back in its place before anything is delivered.
        """
        runs = []
        queue = None
        run: list[QueuedMessage] = []
        for queued in taken:
            holder = queued.holder
            queued.holder = None
            holder.unacked -= 1
            if holder.counts_for_prefetch:
                self.prefetch_used -= 1
            if holder.is_parked:
                self.await_room(holder)
            if holder.queue is not queue:
                queue = holder.queue
                run = []
                runs.append((queue, run))
            run.append(queued)
        return runs

    def await_room(self, holder: Holder) -> None:
        """Put a parked consumer at the end of the line, unless it stands in it."""
        if not holder.awaits_room:
            holder.awaits_room = True
            self.waiting.append(holder)

    def void(self, consumer: Holder, former: Holder) -> None:
        """Free the windows that a consumer's deliveries hold: another master delivers them again.

        The client still settles them under their tags, to no effect: `former` has them from now on.
        """
        count = 0
        for queued in self.unacked.values():
            if queued.holder is consumer:
                queued.holder = former
                count += 1
        if not count:
            return
        former.unacked += count
        consumer.unacked -= count
        if consumer.counts_for_prefetch:
            self.prefetch_used -= count
        if consumer.is_parked:
            self.await_room(consumer)
        self.wake_waiting()

    def wake_waiting(self) -> None:
        """Wake parked consumers, longest waiting first, while the shared window has room.

        A consumer that is woken takes what room there is and goes to the end of the line when it
        is parked again. Those that are left keep their places before it, so that all queues of the
        channel are served in rotation.
        """
        if not self.waiting:
            return
        if self.prefetch_limit != 0 and self.prefetch_used >= self.prefetch_limit:
            return
        waiting = self.waiting
        self.waiting = []
        for position, holder in enumerate(waiting):
            holder.awaits_room = False
            if holder.is_parked:
                holder.wake()
                if self.prefetch_limit != 0 and self.prefetch_used >= self.prefetch_limit:
                    self.waiting = waiting[position + 1 :] + self.waiting
                    return
