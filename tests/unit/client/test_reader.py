"""The reader of all our clients: what a broker may send, however the reads cut it up."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.client.errors import BrokenStream
from warren.client.reader import ClientReader
from warren.wire.codec import Ack, Delivery, MethodFrame
from wire_frames import BODY, HEADER, HEARTBEAT, METHOD, frame, get_ok, publish, returned

FRAME_MAX = 131_072


def content(body: bytes, frame_bytes: int = 100_000) -> bytes:
    pieces = [body[at : at + frame_bytes] for at in range(0, len(body), frame_bytes)]
    header = struct.pack(">HHQH", 60, 0, len(body), 0)
    return frame(HEADER, 1, header) + b"".join(frame(BODY, 1, piece) for piece in pieces)


def deliver(consumer: str, tag: int, redelivered: bool, body: bytes, **cut: int) -> bytes:
    name = consumer.encode()
    method = struct.pack(">HHB", 60, 60, len(name)) + name + struct.pack(">QB", tag, redelivered)
    return frame(METHOD, 1, method + b"\x02ex\x03key") + content(body, **cut)


def seen(delivery: Delivery) -> tuple[bytes, int, bool, bytes]:
    return (
        delivery.consumer_tag, delivery.delivery_tag, delivery.redelivered, delivery.message.body
    )  # fmt: skip


def test_deliveries_are_whole_whatever_the_number_of_their_frames() -> None:
    reader = ClientReader(FRAME_MAX)
    assert reader.feed(deliver("c", 1, True, bytes(300), frame_bytes=100)) == []
    assert reader.feed(deliver("d", 2, False, b"short") + deliver("", 3, False, b"")) == []
    assert [seen(d) for d in reader.deliveries] == [
        (b"c", 1, True, bytes(300)),
        (b"d", 2, False, b"short"),
        (b"", 3, False, b""),
    ]


def test_a_message_that_was_got_is_a_delivery_without_a_consumer() -> None:
    reader = ClientReader(FRAME_MAX)
    assert reader.feed(get_ok(messages_left=4) + content(b"x")) == []
    [delivery] = reader.deliveries
    assert (delivery.consumer_tag, delivery.messages_left) == (b"", 4)


def test_confirms_and_other_methods_come_as_events_in_order() -> None:
    reader = ClientReader(FRAME_MAX)
    ack = struct.pack(">HHQB", 60, 80, 2**40, 1)
    nack = struct.pack(">HHQB", 60, 120, 3, 0)
    stream = frame(METHOD, 1, ack) + frame(HEARTBEAT, 0) + frame(METHOD, 5, nack)
    confirm, other = reader.feed(stream)
    assert isinstance(confirm, Ack)
    assert (confirm.delivery_tag, confirm.multiple) == (2**40, True)
    assert isinstance(other, MethodFrame)
    assert (other.channel, other.payload) == (5, nack)


def test_the_content_of_a_returned_message_is_not_taken_for_a_delivery() -> None:
    reader = ClientReader(FRAME_MAX)
    events = reader.feed(returned() + content(b"came back") + deliver("c", 1, False, b"another"))
    assert [type(event) for event in events] == [MethodFrame]
    assert [d.message.body for d in reader.deliveries] == [b"another"]


@given(st.lists(st.integers(0, 600), min_size=1, max_size=8), st.data())
def test_the_boundaries_of_reads_do_not_matter(sizes: list[int], data: st.DataObject) -> None:
    stream = b"".join(deliver(f"{n}", n + 1, n % 2 == 1, bytes(s)) for n, s in enumerate(sizes))
    places = st.lists(st.integers(0, len(stream)), max_size=6)
    cuts = [0, *sorted(data.draw(places)), len(stream)]
    reader = ClientReader(FRAME_MAX)
    for start, end in pairwise(cuts):
        assert reader.feed(stream[start:end]) == []
    expected = [(b"%d" % n, n + 1, n % 2 == 1, bytes(size)) for n, size in enumerate(sizes)]
    assert [seen(d) for d in reader.deliveries] == expected
    assert reader.octets == len(stream)


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (b"AMQP\x00\x00\x09\x01", "another version"),
        (frame(METHOD, 1, b"\x00\x0a\x00\x0a", end=0), "frame end"),
        (struct.pack(">BHI", METHOD, 1, FRAME_MAX + 1), "frame too large"),
        (content(b"of no delivery"), "expected method"),
        (publish(1) + content(b"x"), r"basic\.publish"),
    ],
)
def test_what_is_not_amqp_is_told_with_a_reason(stream: bytes, reason: str) -> None:
    with pytest.raises(BrokenStream, match=reason):
        ClientReader(FRAME_MAX).feed(stream)
