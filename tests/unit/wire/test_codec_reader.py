"""What the frame reader makes of bytes; T numbers are those of the conformance list."""

from __future__ import annotations

from struct import pack
from types import ModuleType
from typing import Any

import pytest

from warren.wire.fault_kinds import FaultKind
from wire_frames import (
    BODY,
    FRAME_MAX,
    HEADER,
    HEARTBEAT,
    MESSAGE_SIZE_MAX,
    METHOD,
    NO_PROPERTIES,
    ack,
    body,
    deliver,
    described,
    event_names,
    feed_all,
    frame,
    get_ok,
    header,
    message,
    only,
    publish,
    returned,
    route_key,
)

CHANNEL_OPEN = frame(METHOD, 1, b"\x00\x14\x00\x0a\x00")


class TestMessages:
    def test_a_publish_becomes_one_message(self, reader: Any) -> None:
        properties = b"\x18\x00\x02\x09"
        route = route_key(b"logs", b"a.b")
        event = only(
            reader.feed(publish(3, route, flags=1) + header(3, 5, properties) + body(3, b"hello"))
        )
        assert (event.channel, event.route_key, event.flags) == (3, route, 1)
        assert event.body == b"hello"
        assert type(event.body) is bytes
        assert event.properties.raw == properties
        assert (event.properties.persistent, event.properties.priority) == (True, 9)

    def test_an_empty_body_has_no_body_frame(self, reader: Any) -> None:
        """T032."""
        event = only(reader.feed(publish() + header(body_size=0)))
        assert event.body == b""
        assert event_names(reader.feed(CHANNEL_OPEN)) == ["MethodFrame"]

    def test_a_body_comes_in_as_many_frames_as_the_client_likes(self, reader: Any) -> None:
        pieces = [body(1, b"he"), body(1, b""), body(1, b"ll"), body(1, b"o")]
        events = reader.feed(publish() + header(body_size=5) + b"".join(pieces))
        assert only(events).body == b"hello"
        assert reader.frames == 6

    def test_a_large_body_arrives_whole(self, reader: Any) -> None:
        """T031, inwards."""
        payload = bytes(range(256)) * 4096
        assert only(reader.feed(message(payload))).body == payload

    def test_channels_take_turns_without_mixing(self, reader: Any) -> None:
        events = reader.feed(
            publish(1, route_key(b"", b"one"))
            + publish(2, route_key(b"", b"two"))
            + header(2, 4)
            + header(1, 4)
            + body(1, b"aa")
            + body(2, b"bb")
            + body(1, b"AA")
            + ack(3)
            + body(2, b"BB")
        )
        assert event_names(events) == ["Message", "Ack", "Message"]
        assert (events[0].channel, events[0].body) == (1, b"aaAA")
        assert (events[2].channel, events[2].body) == (2, b"bbBB")
        assert events[0].route_key == route_key(b"", b"one")
        assert events[2].route_key == route_key(b"", b"two")

    def test_only_mandatory_and_immediate_are_kept_of_the_publish_bits(self, reader: Any) -> None:
        assert only(reader.feed(publish(flags=0xFF) + header())).flags == 3

    @pytest.mark.parametrize(
        "arguments",
        [
            b"",
            b"\x00\x00",
            b"\x00\x00\x05ab",
            b"\x00\x00\x00\x05ab\x00",
            b"\x00\x00\x00\xff\x00",
            b"\x00\x00\x00\x01q",
            b"\x00\x00\x00\x01q\x00\x00",
        ],
    )
    def test_a_publish_whose_arguments_do_not_fit_is_left_to_the_strict_decoder(
        self, reader: Any, arguments: bytes
    ) -> None:
        payload = b"\x00\x3c\x00\x28" + arguments
        event = only(reader.feed(frame(METHOD, 1, payload)))
        assert described(event) == (1, payload, "MethodFrame")

    def test_a_publish_on_channel_zero_is_no_publish(self, reader: Any) -> None:
        assert event_names(reader.feed(publish(0) + publish(1) + header())) == [
            "MethodFrame",
            "Message",
        ]


class TestOtherFrames:
    def test_an_ack_is_decoded(self, reader: Any) -> None:
        first, second = reader.feed(ack(7, 2**64 - 1, 0xFF) + ack(7, 0, 0xFE))
        assert described(first) == (7, 2**64 - 1, True, "Ack")
        assert described(second) == (7, 0, False, "Ack")

    def test_an_ack_of_the_wrong_length_or_channel_is_left_to_the_strict_decoder(
        self, reader: Any
    ) -> None:
        wrong = frame(METHOD, 1, pack(">HHQ", 60, 80, 7)) + ack(0)
        assert event_names(reader.feed(wrong)) == ["MethodFrame", "MethodFrame"]

    def test_any_other_method_comes_as_its_bytes(self, reader: Any) -> None:
        event = only(reader.feed(CHANNEL_OPEN))
        assert described(event) == (1, b"\x00\x14\x00\x0a\x00", "MethodFrame")

    def test_a_heartbeat_is_counted_and_nothing_else(self, reader: Any) -> None:
        assert reader.feed(frame(HEARTBEAT, 0)) == []
        assert (reader.frames, reader.octets) == (1, 8)

    @pytest.mark.parametrize(
        "stray", [frame(HEARTBEAT, 1), header(0), body(0, b"abc")], ids=["heartbeat", "hdr", "body"]
    )
    def test_a_frame_that_has_no_business_on_its_channel_is_stray(
        self, reader: Any, stray: bytes
    ) -> None:
        fault = only(reader.feed(stray))
        assert fault.kind == FaultKind.STRAY_FRAME
        assert (fault.frame_type, fault.payload) == (stray[0], stray[7:-1])
        assert not reader.has_stopped

    @pytest.mark.parametrize(
        "unknown",
        [
            frame(9, 1, b"abc"),
            frame(0, 0),
            frame(HEARTBEAT, 0, b"x"),
            frame(METHOD, 1, b"\x00\x3c\x00"),
            frame(HEADER, 1, b"\x00\x3c\x00\x00" + bytes(7)),
        ],
        ids=["type", "zero", "heartbeat payload", "short method", "short header"],
    )
    def test_a_frame_nobody_can_name_is_unknown_and_the_next_is_read(
        self, reader: Any, unknown: bytes
    ) -> None:
        fault, following = reader.feed(unknown + CHANNEL_OPEN)
        assert (fault.kind, fault.payload) == (FaultKind.UNKNOWN_FRAME, unknown[7:-1])
        assert type(following).__name__ == "MethodFrame"


class TestFrameBoundaries:
    def test_a_payload_of_frame_max_is_tolerated(self, reader: Any) -> None:
        """T029: RabbitMQ allows for the 8 octets around the payload."""
        assert only(reader.feed(message(b"x" * FRAME_MAX))).body == b"x" * FRAME_MAX

    def test_one_byte_more_is_too_large_and_ends_the_stream(self, reader: Any) -> None:
        """T028: the header is enough to know."""
        fault = only(reader.feed(pack(">BHI", BODY, 1, FRAME_MAX + 1)))
        assert described(fault) == (
            FaultKind.FRAME_TOO_LARGE, 1, BODY, b"", FRAME_MAX + 1, "Fault"
        )  # fmt: skip
        assert reader.has_stopped
        assert reader.feed(CHANNEL_OPEN) == []

    def test_the_largest_length_there_is_is_too_large(self, reader: Any) -> None:
        fault = only(feed_all(reader, [b"\x01\x00\x01\xff", b"\xff\xff\xff"]))
        assert (fault.kind, fault.detail) == (FaultKind.FRAME_TOO_LARGE, 2**32 - 1)

    @pytest.mark.parametrize("cuts", [False, True], ids=["whole", "by octets"])
    @pytest.mark.parametrize(
        ("before", "kind"),
        [(b"", METHOD), (b"", HEADER), (publish() + header(body_size=20), BODY)],
        ids=["method", "header", "body"],
    )
    def test_a_wrong_end_octet_ends_the_stream_and_is_quoted(
        self, reader: Any, before: bytes, kind: int, cuts: bool
    ) -> None:
        """T030."""
        payload = b"\x00\x14\x00\x0a" + b"p" * 16
        data = before + frame(kind, 1, payload, end=7)
        fault = only(feed_all(reader, [bytes([o]) for o in data] if cuts else [data]))
        assert described(fault) == (FaultKind.FRAME_END, 1, kind, payload, 7, "Fault")
        assert reader.has_stopped
        assert reader.feed(CHANNEL_OPEN) == []

    def test_octets_one_at_a_time_give_the_same_events(self, kernel: ModuleType) -> None:
        data = (
            CHANNEL_OPEN
            + message(b"hello", 1)
            + publish(2)
            + message(b"", 3)
            + header(2, 3)
            + body(2, b"abc")
            + ack()
            + frame(HEARTBEAT, 0)
            + body(5, b"stray")
            + frame(METHOD, 1, b"\x00\x0a\x00\x32", end=0)
        )
        at_once = kernel.FrameReader(FRAME_MAX, MESSAGE_SIZE_MAX)
        by_octets = kernel.FrameReader(FRAME_MAX, MESSAGE_SIZE_MAX)
        expected = [described(e) for e in at_once.feed(data)]
        assert [described(e) for e in feed_all(by_octets, [bytes([o]) for o in data])] == expected
        assert len(expected) == 7
        assert (by_octets.octets, by_octets.frames) == (at_once.octets, at_once.frames)

    def test_an_empty_body_frame_may_be_cut_before_its_end_octet(self, reader: Any) -> None:
        empty = body(1, b"")
        events = feed_all(reader, [publish() + header(body_size=1) + empty[:-1], b"", empty[-1:]])
        assert events == []
        assert only(reader.feed(body(1, b"x"))).body == b"x"

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_any_kind_of_buffer_can_be_fed_and_used_again(self, reader: Any, kind: Any) -> None:
        buffer = bytearray(message(b"hello") + publish()[:9])
        event = only(reader.feed(kind(buffer)))
        buffer[:] = bytes(len(buffer))
        assert (event.route_key, event.body) == (route_key(), b"hello")
        assert only(reader.feed(publish()[9:] + header())).route_key == route_key()


class TestContentOrder:
    @pytest.mark.parametrize(
        ("before", "wrong", "kind"),
        [
            pytest.param(b"", body(1, b"x"), "EXPECTED_METHOD", id="T025 body out of nowhere"),
            pytest.param(b"", header(), "EXPECTED_METHOD", id="header out of nowhere"),
            pytest.param(publish(), body(1, b"x"), "EXPECTED_HEADER", id="T025 body too early"),
            pytest.param(publish(), CHANNEL_OPEN, "EXPECTED_HEADER", id="method for header"),
            pytest.param(publish(), publish(), "EXPECTED_HEADER", id="publish for header"),
            pytest.param(publish(), header(weight=1), "EXPECTED_HEADER", id="weight"),
            pytest.param(
                publish(), header(class_id=50, weight=1), "EXPECTED_HEADER", id="weight and class"
            ),
            pytest.param(publish(), header(class_id=50), "WRONG_CLASS", id="T026 wrong class"),
            pytest.param(
                publish() + header(body_size=2), CHANNEL_OPEN, "EXPECTED_BODY", id="T027 method"
            ),
            pytest.param(
                publish() + header(body_size=2), header(), "EXPECTED_BODY", id="header for body"
            ),
            pytest.param(
                publish() + header(body_size=2) + body(1, b"x"),
                publish(),
                "EXPECTED_BODY",
                id="method in the middle of a body",
            ),
        ],
    )
    def test_a_frame_out_of_order_is_a_fault_and_the_channel_starts_anew(
        self, reader: Any, before: bytes, wrong: bytes, kind: str
    ) -> None:
        fault, following = reader.feed(before + wrong + message(b"next"))
        assert event_names([fault]) == [kind]
        assert (fault.channel, fault.frame_type, fault.payload) == (1, wrong[0], wrong[7:-1])
        assert fault.detail == (50 if kind == "WRONG_CLASS" else 0)
        assert following.body == b"next"
        assert not reader.has_stopped

    def test_more_body_than_announced_makes_the_channel_wait_for_ever(self, reader: Any) -> None:
        """RabbitMQ counts below zero and never gets to the end; only a method is noticed."""
        overrun = publish() + header(body_size=2) + body(1, b"abc") + body(1, b"")
        assert reader.feed(overrun + body(1, b"x" * 100)) == []
        assert event_names(reader.feed(message(b"other", 2))) == ["Message"]
        assert event_names(reader.feed(CHANNEL_OPEN + CHANNEL_OPEN)) == [
            "EXPECTED_BODY",
            "MethodFrame",
        ]

    def test_a_message_that_is_too_large_is_reported_and_its_body_dropped(
        self, kernel: ModuleType
    ) -> None:
        reader = kernel.FrameReader(FRAME_MAX, 10)
        fault = only(reader.feed(publish() + header(body_size=11)))
        assert (fault.kind, fault.detail) == (FaultKind.MESSAGE_TOO_LARGE, 11)
        assert reader.feed(body(1, b"12345") + body(1, b"678901") + header()) == []
        assert only(reader.feed(message(b"0123456789"))).body == b"0123456789"

    def test_the_largest_size_there_is_is_reported_as_it_is(self, reader: Any) -> None:
        fault = only(reader.feed(publish() + header(body_size=2**64 - 1)))
        assert (fault.kind, fault.detail) == (FaultKind.MESSAGE_TOO_LARGE, 2**64 - 1)

    @pytest.mark.parametrize(
        "properties",
        [b"", b"\x00", b"\x00\x00x", b"\x80\x00", b"\x20\x00\x00\x00\x00\x05"],
        ids=["nothing", "half the flags", "trailing", "missing", "table too long"],
    )
    def test_malformed_properties_are_a_fault_and_the_body_is_dropped(
        self, reader: Any, properties: bytes
    ) -> None:
        data = publish() + header(body_size=3, properties=properties) + body(1, b"abc")
        fault = only(reader.feed(data))
        assert fault.kind == FaultKind.MALFORMED_PROPERTIES
        assert fault.payload.endswith(pack(">Q", 3) + properties)
        assert only(reader.feed(message())).body == b"hello"


def test_the_memory_of_an_announced_body_is_not_spent_before_it_comes(kernel: ModuleType) -> None:
    """A header is cheap to send, so what it announces must be cheap to believe."""
    resource = pytest.importorskip("resource")
    reader = kernel.FrameReader(FRAME_MAX, MESSAGE_SIZE_MAX)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for channel in range(1, 33):
        reader.feed(publish(channel) + header(channel, MESSAGE_SIZE_MAX, NO_PROPERTIES))
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    assert grown_kib < MESSAGE_SIZE_MAX // 1024


class TestDeliveries:
    """What one node gets that asks another for messages."""

    def test_a_client_gets_a_delivery_whole(self, reader: Any) -> None:
        reader.is_client = True
        route = route_key(b"logs", b"a.b")
        delivered = deliver(3, b"tag", route, bits=1) + header(3, 5) + body(3, b"hello")
        event = only(reader.feed(delivered))
        assert (event.channel, event.consumer_tag, event.delivery_tag) == (3, b"tag", 7)
        assert (event.redelivered, event.messages_left) == (True, 0)
        assert (event.message.route_key, event.message.body) == (route, b"hello")

    def test_a_client_gets_what_it_fetched(self, reader: Any) -> None:
        reader.is_client = True
        event = only(reader.feed(get_ok(1, messages_left=9) + header(1, 0)))
        assert (event.consumer_tag, event.delivery_tag, event.messages_left) == (b"", 7, 9)

    @pytest.mark.parametrize("lost", range(1, 12))
    def test_one_that_does_not_fit_is_a_method_for_the_strict_decoder(
        self, reader: Any, lost: int
    ) -> None:
        reader.is_client = True
        payload = deliver()[7:-1]
        event = only(reader.feed(frame(METHOD, 1, payload[: len(payload) - lost])))
        assert event_names([event]) == ["MethodFrame"]

    def test_a_client_is_told_of_a_return_and_its_content_is_discarded(self, reader: Any) -> None:
        reader.is_client = True
        content = header(2, 5) + body(2, b"hello")
        events = reader.feed(returned(2) + content + deliver(2) + header(2, 0))
        assert event_names(events) == ["MethodFrame", "Delivery"]

    def test_a_server_knows_no_deliveries(self, reader: Any) -> None:
        events = reader.feed(deliver() + header(1, 0))
        assert event_names(events) == ["MethodFrame", "EXPECTED_METHOD"]
