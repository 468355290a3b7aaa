"""Publisher confirms of one channel, coalesced.

Publishes are numbered from 1 as they come. Most are safe at once and in order: then remembering
the last number is enough, and one `basic.ack(multiple)` per turn of the loop tells the client.
Others become safe later (a disk, a mirror), in any order; those below the oldest number still open
are acknowledged by one multiple ack, the rest one by one, as RabbitMQ does it. An unroutable
message is returned, if it is mandatory, and acknowledged when it comes, by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from warren.model.counters import MessageCounters
from warren.wire.codec import OutputBuffer


class Confirms:
    def __init__(
        self,
        number: int,
        output: OutputBuffer,
        on_due: Callable[[Confirms], None],
        counters: MessageCounters,
    ) -> None:
        self._number = number
        self._output = output
        self._on_due = on_due
        self._counters = counters
        self._is_due = False
        self.is_closed = False
        self.last_sequence = 0
        # Everything up to here is safe and, beyond `_told_up_to`, not yet told.
        self._safe_up_to = 0
        self._told_up_to = 0
        # Publishes still on their way to safety, with the number of queues they wait for.
        self.unconfirmed: dict[int, int] = {}
        self._safe: list[int] = []
        self._refused: list[int] = []
        self.origin: str | None = None

    def begin(self) -> int:
        """The number of the publish about to be routed."""
        self.last_sequence += 1
        return self.last_sequence

    def taken(self, sequence: int) -> None:
        """All queues have the message, as safe as it asked to be."""
        if not self.unconfirmed and not self._safe and not self._refused:
            self._safe_up_to = sequence
        else:
            self._safe.append(sequence)
        self._become_due()

    def wait_for(self, sequence: int, queues: int) -> None:
        """So many queues will say `confirmed` later."""
        self.unconfirmed[sequence] = queues

    def wait_for_more(self, sequence: int, queues: int) -> None:
        """So many queues more will say `confirmed` later, if none has refused it meanwhile."""
        if sequence in self.unconfirmed:
            self.unconfirmed[sequence] += queues

    def confirmed(self, sequence: int) -> None:
        left = self.unconfirmed.get(sequence, 0) - 1
        if left > 0:
            self.unconfirmed[sequence] = left
        elif left == 0:
            del self.unconfirmed[sequence]
            self._safe.append(sequence)
            self._become_due()

    def rejected(self, sequence: int) -> None:
        """A queue would not take it: one refusal is enough for a nack."""
        self.unconfirmed.pop(sequence, None)
        self._refused.append(sequence)
        self._become_due()

    def acknowledge_alone(self) -> None:
        """Number a publish that no queue gets, and acknowledge it at once in a frame of its own.

        RabbitMQ does so, and some clients count frames instead of numbers. Publishes that are safe
        by now are told first, or this one's ack would have to stand for them, too.
        """
        self._tell_settled()
        sequence = self.begin()
        self._safe_up_to = self._told_up_to = sequence
        self._counters.confirm += 1
        self._output.ack(self._number, sequence, False)

    def flush(self) -> None:
        self._is_due = False
        self._tell_settled()

    def _tell_settled(self) -> None:
        if self.is_closed:  # and its number may be another channel's by now
            return
        self._counters.confirm += self._safe_up_to - self._told_up_to + len(self._safe)
        if self._safe or self._refused or self.unconfirmed:
            self._flush_mixed()
        elif self._safe_up_to > self._told_up_to:
            several = self._safe_up_to - self._told_up_to > 1
            self._output.ack(self._number, self._safe_up_to, several)
            self._told_up_to = self._safe_up_to

    def _flush_mixed(self) -> None:
        if self._safe_up_to > self._told_up_to:
            self._safe.append(self._safe_up_to)
        acks, nacks = sorted(self._safe), sorted(self._refused)
        self._safe, self._refused = [], []
        self._tell(True, acks, nacks)
        self._tell(False, nacks, acks)
        newest = max(acks + nacks, default=0)
        self._safe_up_to = self._told_up_to = max(self._told_up_to, newest)

    def _tell(self, is_safe: bool, settled: list[int], others: list[int]) -> None:
        """Ack or nack: together up to the first number that must not be covered, then singly."""
        if not settled:
            return
        must_not_be_covered = others[:1] + list(islice(self.unconfirmed, 1))
        cutoff = min(must_not_be_covered, default=settled[-1] + 1)
        together = [sequence for sequence in settled if sequence < cutoff]
        if together:
            # Later ones may have been told before; and the last may stand for all since then.
            several = len(together) > 1 or together[-1] - self._told_up_to > 1
            self._send(is_safe, together[-1], several)
        for sequence in settled[len(together) :]:
            self._send(is_safe, sequence, False)

    def _send(self, is_safe: bool, sequence: int, multiple: bool) -> None:
        if is_safe:
            self._output.ack(self._number, sequence, multiple)
        else:
            self._output.nack(self._number, sequence, multiple)

    def _become_due(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._on_due(self)
