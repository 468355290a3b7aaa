"""What a producer encodes is what the broker's reader reads."""

from __future__ import annotations

import struct

from pamqp.commands import Basic

from warren.perf.publishing import Publisher
from warren.wire.codec import FrameReader, Message, OutputBuffer, PropertyBlock
from warren.wire.methods import encode_method

FRAME_MAX = 4096
PERSISTENT = b"\x10\x00\x02"


def published(body: bytes, keys: list[str], stamp_ns: int, sequence: int) -> list[Message]:
    """Three messages, as a broker gets them."""
    methods = [encode_method(Basic.Publish(exchange="ex", routing_key=key)) for key in keys]
    output = OutputBuffer(FRAME_MAX, 1 << 20, lambda: None)
    Publisher(methods, PropertyBlock(PERSISTENT), body, 513).burst(output, stamp_ns, sequence, 3)
    reader = FrameReader(FRAME_MAX, 1 << 20)
    return [message for piece in output.take() for message in reader.feed(piece)]


def test_each_message_carries_time_producer_and_number() -> None:
    messages = published(b"x" * 5000, ["k"], 2**63 + 1, 2**40)
    assert [len(m.body) for m in messages] == [5000] * 3
    assert [struct.unpack_from(">QQ", m.body) for m in messages] == [
        (2**63 + 1, 513 << 48 | 2**40 + n) for n in range(3)
    ]
    assert {m.body[16:] for m in messages} == {b"x" * 4984}
    assert {m.properties.raw for m in messages} == {PERSISTENT}


def test_routing_keys_are_used_in_turn() -> None:
    messages = published(b"", ["a", "b"], 1, 7)
    assert [m.route_key for m in messages] == [b"\x02ex\x01b", b"\x02ex\x01a", b"\x02ex\x01b"]


def test_a_body_too_short_for_a_stamp_stays_as_it_is() -> None:
    assert [m.body for m in published(b"fifteen bytes..", ["k"], 1, 0)] == [b"fifteen bytes.."] * 3
