"""How long messages wait in a queue: the age of its head, and a histogram of those that have left.

Keeping the time of arrival with every message would cost memory for each, and messages that were
paged out would have to take it to the disk. Instead a queue counts arrivals and remembers, now and
then, which number came when:

    arrival   0 ......... 900 ....... 1800 ....... 2400 ... `arrived`
    time      12:00:00.0  12:00:00.1  12:00:00.2   ...

Messages leave in the order they came, so the head of a queue of length L is arrival number
`arrived` - L, wherever its bytes are, and its time lies between two marks: in proportion, since
between two marks messages come evenly enough. A pause has a mark at its beginning and one at its
end. When there are too many marks every second one goes and new ones are made half as often, so
that the error stays a small part of the age. What came back to the queue or has a priority is not
quite in that order; the answer is then a little off, and nothing else is.

What leaves in one go has waited alike: one look per millisecond, however many messages leave in it.
A message that is handed to a consumer without waiting costs nothing here and is not counted here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

MARKS_MAX: Final = 64
MARK_INTERVAL_MS: Final = 100
WAIT_BUCKETS_MS: Final = (
    1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000, 300_000, 3_600_000,
)  # fmt: skip


class WaitingTimes:
    """`length` is always how many messages are in the queue and ready.

    `buckets` counts the messages that waited at most so long, and more than the bucket before
    says; the last one those that waited even longer.
    """

    def __init__(self, now_ms: int, length: int) -> None:
        """So many were there before anybody counted: they count as having come now."""
        self.arrived = length
        self.buckets = [0] * (len(WAIT_BUCKETS_MS) + 1)
        self.waited_ms = 0
        self.left = 0
        self._last_ms = now_ms
        self._next_mark_ms = now_ms
        self._interval_ms = MARK_INTERVAL_MS
        self._positions = [0]
        self._times_ms = [now_ms]
        self._left_at_ms = -1
        self._wait_ms = 0
        self._bucket = 0

    def recall(self, head_ms: int) -> None:
        """The head, which was there before anybody counted, came at that time, or a little later.

        Those behind it count as having come evenly from then until now.
        """
        self._times_ms[0] = min(self._times_ms[0], head_ms)

    def arrive(self, now_ms: int, length: int) -> None:
        """One more; `length` is without it."""
        if now_ms >= self._next_mark_ms:
            self._mark(now_ms, length)
        self.arrived += 1
        self._last_ms = now_ms

    def leave(self, now_ms: int, length: int, count: int) -> None:
        """So many have left from the head; `length` is what is left."""
        if now_ms != self._left_at_ms:
            self._left_at_ms = now_ms
            self._wait_ms = self.age_ms(now_ms, length + count)
            self._bucket = bisect_left(WAIT_BUCKETS_MS, self._wait_ms)
        self.buckets[self._bucket] += count
        self.left += count
        self.waited_ms += self._wait_ms * count

    def add(self, other: WaitingTimes) -> None:
        """Count what has left another queue, too."""
        if other.left == 0:
            return
        for position in range(len(self.buckets)):
            self.buckets[position] += other.buckets[position]
        self.left += other.left
        self.waited_ms += other.waited_ms

    def age_ms(self, now_ms: int, length: int) -> int:
        """How long the head has been waiting, if there are so many."""
        if length <= 0:
            return 0
        return max(0, now_ms - self._time_of(max(0, self.arrived - length)))

    def _time_of(self, position: int) -> int:
        after = 1
        if len(self._positions) > 1 and position >= self._positions[1]:
            after = bisect_right(self._positions, position)
        start, start_ms = self._positions[after - 1], self._times_ms[after - 1]
        if after < len(self._positions):
            end, end_ms = self._positions[after], self._times_ms[after]
        else:
            end, end_ms = self.arrived - 1, self._last_ms
        if end <= start or position <= start:
            return start_ms
        return start_ms + (end_ms - start_ms) * (position - start) // (end - start)

    def _mark(self, now_ms: int, length: int) -> None:
        self._forget_before(self.arrived - length)
        is_after_pause = now_ms - self._last_ms >= self._interval_ms
        if is_after_pause and self.arrived - 1 > self._positions[-1]:
            self._positions.append(self.arrived - 1)
            self._times_ms.append(self._last_ms)
        if self.arrived > self._positions[-1]:
            self._positions.append(self.arrived)
            self._times_ms.append(now_ms)
        else:
            self._times_ms[-1] = now_ms
        if len(self._positions) >= MARKS_MAX:
            self._thin_out()
        self._next_mark_ms = now_ms + self._interval_ms

    def _forget_before(self, head: int) -> None:
        """Marks of messages that have left say nothing any more."""
        spent = max(0, bisect_right(self._positions, head) - 1)
        if spent:
            del self._positions[:spent], self._times_ms[:spent]
        if len(self._positions) == 1:
            self._interval_ms = MARK_INTERVAL_MS

    def _thin_out(self) -> None:
        self._positions = self._positions[::2]
        self._times_ms = self._times_ms[::2]
        self._interval_ms *= 2
