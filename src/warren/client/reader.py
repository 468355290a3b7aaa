"""Reader of a client's AMQP connection: bytes of the broker in, answers and deliveries out.

The kernel's `FrameReader` does the work, with `is_client` set. Deliveries are kept apart from the
answers, because a consumer wants all deliveries of one read of the socket at once, and nothing else
of that read may cost it a turn per message.
"""

from __future__ import annotations

from typing import Final

from warren.client.errors import BrokenStream
from warren.wire.codec import Ack, Delivery, Fault, FrameReader, MethodFrame
from warren.wire.fault_kinds import FaultKind

# Bodies are made whole in memory. A broker announces no larger one, or it is none.
MESSAGE_BYTES_MAX: Final = 1 << 31
# The first byte of "AMQP", which a broker sends that speaks another version only.
_OTHER_PROTOCOL: Final = ord("A")


class ClientReader:
    """Turns the broker's bytes into events, however the reads of the socket cut them."""

    def __init__(self, frame_max: int) -> None:
        self._frames = FrameReader(frame_max, MESSAGE_BYTES_MAX)
        self._frames.is_client = True
        self.deliveries: list[Delivery] = []
        """Complete deliveries and answers to basic.get; the caller takes them away."""

    @property
    def octets(self) -> int:
        """Number of bytes received so far."""
        return self._frames.octets

    def feed(self, data: bytes) -> list[MethodFrame | Ack]:
        """Return methods and confirms, in order. Deliveries go to `deliveries`."""
        answers: list[MethodFrame | Ack] = []
        for event in self._frames.feed(data):
            if isinstance(event, Delivery):
                self.deliveries.append(event)
            elif isinstance(event, (Ack, MethodFrame)):
                answers.append(event)
            else:
                raise BrokenStream(_explain(event))
        return answers


def _explain(event: object) -> str:
    if not isinstance(event, Fault):
        return "the broker sent basic.publish"
    if event.frame_type == _OTHER_PROTOCOL:
        return "the broker speaks another version of AMQP"
    kind = FaultKind(event.kind).name.lower().replace("_", " ")
    return f"the broker sent a frame that cannot be read: {kind}"
