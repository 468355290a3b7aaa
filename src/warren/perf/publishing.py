"""Encodes publishes by the burst: the part of a producer that costs something per message."""

from __future__ import annotations

from warren.perf.client import CHANNEL
from warren.perf.tally import PRODUCER_SHIFT, STAMP_BYTES
from warren.wire.codec import Message, OutputBuffer, PropertyBlock


class Publisher:
    """One producer's messages: a basic.publish per routing key, used in turn, and one body.

    The body begins with the time, the producer's number and the sequence number, if it is long
    enough for that.
    """

    def __init__(
        self, methods: list[bytes], properties: PropertyBlock, body: bytes, producer: int
    ) -> None:
        self._methods = methods
        self._properties = properties
        self._body = bytearray(body)
        self._is_stamped = len(body) >= STAMP_BYTES
        self._producer = producer

    def burst(self, output: OutputBuffer, stamp_ns: int, sequence: int, count: int) -> None:
        """`count` messages published at the same time, numbered from `sequence` on."""
        for number in range(sequence, sequence + count):
            if self._is_stamped:
                self._stamp(0, stamp_ns)
                self._stamp(8, self._producer << PRODUCER_SHIFT | number)
            method = self._methods[number % len(self._methods)]
            output.content(CHANNEL, method, Message(b"", self._properties, bytes(self._body)))

    def _stamp(self, at: int, value: int) -> None:
        """Eight bytes, one by one: compiled, that is faster than anything that makes an object."""
        for place in range(at + 7, at - 1, -1):
            self._body[place] = value & 255
            value >>= 8
