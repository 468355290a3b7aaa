"""Tally of a load that keeps no messages: latencies in a histogram, sequence numbers in a bitmap.

The histogram is log-linear, 64 steps to each doubling, so a percentile is less than 1.6 % off and
an hour at full speed takes no more memory than a second. The bitmap tells a message that came
twice from one that never came.
"""

from __future__ import annotations

from collections.abc import Sequence

from warren.wire.codec import Delivery

STEPS = 64
BUCKETS = STEPS * 60
NANOSECONDS_BELIEVED_MAX = 86_400_000_000_000
"""A stamp older than a day was left in the queue by somebody else's clock."""


# The beginning of a body: eight bytes of time, two of the producer's number, six of the sequence.
STAMP_BYTES = 16
PRODUCER_SHIFT = 48


def read32(data: bytes, at: int) -> int:
    high = data[at]  # a variable, so that the .pxd can make it wide enough to be shifted
    return high << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def read64(data: bytes, at: int) -> int:
    return read32(data, at) << 32 | read32(data, at + 4)


class Histogram:
    def __init__(self) -> None:
        self.count = 0
        self.highest = 0
        self.buckets = [0] * BUCKETS

    def add(self, value: int) -> None:
        self.count += 1
        self.highest = max(self.highest, value)
        shift = 0
        steps = STEPS  # a variable, so that the .pxd can make it a C number
        while value >= 2 * steps:
            value >>= 1
            shift += 1
        # Below 64 the value is its own bucket; above, each doubling has 64 of them.
        index = value + shift * steps
        self.buckets[index] += 1

    def merge(self, other: Histogram) -> None:
        self.count += other.count
        self.highest = max(self.highest, other.highest)
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]

    def percentile(self, percent: float) -> float:
        """-1 when nothing was counted."""
        if self.count == 0:
            return -1.0
        wanted = max(1, int(self.count * percent / 100 + 0.999999))
        seen = 0
        for index, count in enumerate(self.buckets):
            seen += count
            if seen >= wanted:
                return min(_middle(index), float(self.highest))
        raise AssertionError("the buckets hold less than the count")


def _middle(index: int) -> float:
    if index < 2 * STEPS:
        return float(index)
    shift = index // STEPS - 1
    return ((index - shift * STEPS) << shift) + (1 << shift) / 2


class SequenceSet:
    """Numbers from 0 upwards, dense in the end."""

    def __init__(self) -> None:
        self.bits = bytearray(1024)
        self.size = 0

    def add(self, number: int) -> bool:
        """False if it was there."""
        at = number >> 3
        bit = 1 << (number & 7)
        if at >= len(self.bits):
            self.bits.extend(bytes(at))  # at least doubles, so growing stays cheap
        if self.bits[at] & bit:
            return False
        self.bits[at] |= bit
        self.size += 1
        return True

    def as_integer(self) -> int:
        """The set as the bits of one number, for set algebra."""
        return int.from_bytes(self.bits, "little")


class DeliveryTally:
    """Messages that one consumer received; all consumers share `sequences`, to find duplicates."""

    def __init__(self, sequences: dict[tuple[int, int], SequenceSet]) -> None:
        self.consumed = 0
        self.fresh = 0
        self.redelivered = 0
        self.duplicates = 0
        self.bytes = 0
        self.first_ns = 0
        self.last_ns = 0
        self.gap_ns = 0
        self.gap_at_ns = 0
        self.latency = Histogram()
        self.sequences = sequences
        self._group = -1
        self._producer = -1
        self._current = SequenceSet()

    def record(self, deliveries: Sequence[Delivery], now_ns: int, groups: int) -> None:
        """Count all that came with one read of the socket.

        `groups` is the number of copies of each message. The consumer tag is then the number of the
        copy; a body that is long enough begins with its time, producer and sequence number.
        """
        if self.first_ns == 0:
            self.first_ns = now_ns
        elif now_ns - self.last_ns > self.gap_ns:
            self.gap_ns = now_ns - self.last_ns
            self.gap_at_ns = self.last_ns
        self.last_ns = now_ns
        self.consumed += len(deliveries)
        # Local variables, so that the .pxd can make them C numbers.
        stamp_bytes, believed_ns = STAMP_BYTES, NANOSECONDS_BELIEVED_MAX
        for delivery in deliveries:
            body = delivery.message.body
            self.bytes += len(body)
            if delivery.redelivered:
                self.redelivered += 1
            if len(body) < stamp_bytes:
                self.fresh += 1
                continue
            stamp_ns = read64(body, 0)
            if stamp_ns < now_ns < stamp_ns + believed_ns:
                self.latency.add(now_ns - stamp_ns)
            group = int(delivery.consumer_tag) if groups > 1 else 0
            if self._is_new(group, read64(body, 8)):
                self.fresh += 1
            else:
                self.duplicates += 1

    def _is_new(self, group: int, number: int) -> bool:
        producer = number >> 48
        if group != self._group or producer != self._producer:
            self._group = group
            self._producer = producer
            key = (group, producer)
            if key not in self.sequences:
                self.sequences[key] = SequenceSet()
            self._current = self.sequences[key]
        return self._current.add(number & 0xFFFFFFFFFFFF)
