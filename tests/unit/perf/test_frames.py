"""The load generator's reader: what a broker may send, however the reads cut it up."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.perf.frames import BrokenStream, Delivery, DeliveryReader
from warren.wire.codec import Ack, MethodFrame


def frame(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def content(body: bytes, frame_bytes: int = 100_000) -> bytes:
    pieces = [body[at : at + frame_bytes] for at in range(0, len(body), frame_bytes)]
    header = struct.pack(">HHQH", 60, 0, len(body), 0)
    return frame(2, header) + b"".join(frame(3, piece) for piece in pieces)


def deliver(consumer: int, tag: int, redelivered: bool, body: bytes, **cut: int) -> bytes:
    name = str(consumer).encode()
    method = struct.pack(">HHB", 60, 60, len(name)) + name + struct.pack(">QB", tag, redelivered)
    return frame(1, method + b"\x02ex\x03key") + content(body, **cut)


def stamped(stamp_ns: int, producer: int, sequence: int, size: int) -> bytes:
    return struct.pack(">QQ", stamp_ns, producer << 48 | sequence) + bytes(size - 16)


def seen(delivery: Delivery) -> tuple[int, int, bool, int]:
    return delivery.group, delivery.delivery_tag, delivery.redelivered, delivery.size


def test_a_delivery_is_read_with_the_stamp_its_producer_left() -> None:
    reader = DeliveryReader()
    events = reader.feed(deliver(12, 7, True, stamped(2**63 + 5, 9, 2**48 - 1, 40)))
    assert events == []
    [delivery] = reader.deliveries
    assert seen(delivery) == (12, 7, True, 40)
    assert (delivery.stamp_ns, delivery.producer) == (2**63 + 5, 9)
    assert delivery.sequence == 2**48 - 1


def test_bodies_in_several_frames_too_short_for_a_stamp_or_empty_are_whole_deliveries() -> None:
    reader = DeliveryReader()
    reader.feed(deliver(0, 1, False, stamped(1, 1, 1, 300), frame_bytes=100))
    reader.feed(deliver(0, 2, False, b"short"))
    reader.feed(deliver(0, 3, False, b""))
    assert [seen(d) for d in reader.deliveries] == [
        (0, 1, False, 300),
        (0, 2, False, 5),
        (0, 3, False, 0),
    ]
    assert [d.is_stamped for d in reader.deliveries] == [True, False, False]


def test_confirms_and_other_methods_come_as_events_in_order() -> None:
    reader = DeliveryReader()
    ack = struct.pack(">HHQB", 60, 80, 2**40, 1)
    nack = struct.pack(">HHQB", 60, 120, 3, 0)
    events = reader.feed(frame(1, ack) + frame(8, b"", 0) + frame(1, nack, 5))
    assert [type(event) for event in events] == [Ack, MethodFrame]
    assert isinstance(events[0], Ack)
    assert (events[0].delivery_tag, events[0].multiple) == (2**40, True)
    assert isinstance(events[1], MethodFrame)
    assert (events[1].channel, events[1].payload) == (5, nack)


def test_the_content_of_a_returned_message_is_not_taken_for_a_delivery() -> None:
    reader = DeliveryReader()
    returned = struct.pack(">HHH", 60, 50, 312) + b"\x08NO_ROUTE\x02ex\x03key"
    events = reader.feed(frame(1, returned) + content(stamped(1, 1, 1, 64)))
    assert len(events) == 1
    assert reader.deliveries == []


@given(st.lists(st.integers(0, 600), min_size=1, max_size=8), st.data())
def test_the_boundaries_of_reads_do_not_matter(sizes: list[int], data: st.DataObject) -> None:
    stream = b"".join(deliver(n, n + 1, n % 2 == 1, bytes(s)) for n, s in enumerate(sizes))
    places = st.lists(st.integers(0, len(stream)), max_size=6)
    cuts = [0, *sorted(data.draw(places)), len(stream)]
    reader = DeliveryReader()
    for start, end in pairwise(cuts):
        assert reader.feed(stream[start:end]) == []
    expected = [(n, n + 1, n % 2 == 1, size) for n, size in enumerate(sizes)]
    assert [seen(d) for d in reader.deliveries] == expected
    assert reader.octets == len(stream)


def test_a_broker_that_answers_with_another_protocol_is_told_from_one_that_breaks_frames() -> None:
    with pytest.raises(BrokenStream, match="another version"):
        DeliveryReader().feed(b"AMQP\x00\x01\x00\x00")
    with pytest.raises(BrokenStream, match="does not end"):
        DeliveryReader().feed(frame(1, b"\x00\x0a\x00\x0a")[:-1] + b"\x00")
