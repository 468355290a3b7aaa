"""The client's side of the byte stream: deliveries in, and the answers to methods.

The kernel's `FrameReader` can read deliveries, too (links between nodes do so), but makes a message
of each. This reader is as plain as a load generator allows: one channel carries content, and of a
body only the first sixteen bytes are looked at, where the producer left its time and number.
"""

from __future__ import annotations

from warren.wire.codec import Ack, MethodFrame


class BrokenStream(Exception):
    """What came is not AMQP 0-9-1."""


class Delivery:
    """One basic.deliver. `group` is the consumer tag, which our consumers make a number."""

    def __init__(self, group: int, delivery_tag: int, redelivered: bool) -> None:
        self.group = group
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.size = 0
        self.is_stamped = False
        self.stamp_ns = 0
        self.producer = 0
        self.sequence = 0


def read32(data: bytes, at: int) -> int:
    high = data[at]  # a variable, so that the .pxd can make it wide enough to be shifted
    return high << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def read64(data: bytes, at: int) -> int:
    return read32(data, at) << 32 | read32(data, at + 4)


class DeliveryReader:
    def __init__(self) -> None:
        self.octets = 0
        self.deliveries: list[Delivery] = []
        """Complete ones; whoever uses the reader takes them away."""
        self._partial = b""
        self._pending: Delivery | None = None
        self._body_left = 0

    def feed(self, data: bytes) -> list[MethodFrame | Ack]:
        """Methods and confirms, in order; deliveries go to `deliveries`."""
        self.octets += len(data)
        if self._partial:
            data = self._partial + data
        events: list[MethodFrame | Ack] = []
        position = 0
        length = len(data)
        while length - position >= 8:
            if data[position] == 65:  # "A": the broker answers with the protocol it would speak
                raise BrokenStream("the broker speaks another version of AMQP")
            end = position + 7 + read32(data, position + 3)
            if end >= length:
                break
            if data[end] != 0xCE:
                raise BrokenStream("a frame does not end where it says")
            self._frame(data, position, end, events)
            position = end + 1
        self._partial = data[position:] if position < length else b""
        return events

    def _frame(self, data: bytes, position: int, end: int, events: list[MethodFrame | Ack]) -> None:
        kind = data[position]
        start = position + 7
        if kind == 3:
            self._body(data, start, end)
        elif kind == 2:
            self._body_left = read64(data, start + 4)
            if self._pending is not None:
                self._pending.size = self._body_left
                if self._body_left == 0:
                    self._finish()
        elif kind == 1:
            self._method(data, position, end, events)

    def _method(
        self, data: bytes, position: int, end: int, events: list[MethodFrame | Ack]
    ) -> None:
        start = position + 7
        index = read32(data, start)
        channel = data[position + 1] << 8 | data[position + 2]
        if index == 0x003C003C:  # basic.deliver
            tag_bytes = data[start + 4]
            group = 0
            for at in range(start + 5, start + 5 + tag_bytes):
                group = group * 10 + data[at] - 48
            start += 5 + tag_bytes
            self._pending = Delivery(group, read64(data, start), data[start + 8] & 1 == 1)
        elif index == 0x003C0050:  # basic.ack: a confirm
            events.append(Ack(channel, read64(data, start + 4), data[start + 12] & 1 == 1))
        else:
            events.append(MethodFrame(channel, data[start:end]))

    def _body(self, data: bytes, start: int, end: int) -> None:
        self._body_left -= end - start
        pending = self._pending
        if pending is None:
            return
        if not pending.is_stamped and end - start >= 16:
            pending.is_stamped = True
            pending.stamp_ns = read64(data, start)
            number = read64(data, start + 8)
            pending.producer = number >> 48
            pending.sequence = number & 0xFFFFFFFFFFFF
        if self._body_left == 0:
            self._finish()

    def _finish(self) -> None:
        assert self._pending is not None
        self.deliveries.append(self._pending)
        self._pending = None
