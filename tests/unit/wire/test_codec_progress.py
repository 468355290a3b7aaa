"""The frame reader in the middle of something: forgotten channels, single steps, landings."""

from __future__ import annotations

from struct import pack
from types import ModuleType
from typing import Any

import pytest

from warren.wire.fault_kinds import FaultKind
from wire_frames import (
    BODY,
    FRAME_MAX,
    HEARTBEAT,
    LANDING_BYTES_MIN,
    MESSAGE_SIZE_MAX,
    METHOD,
    ack,
    body,
    event_names,
    frame,
    header,
    message,
    only,
    publish,
    receive,
)

CHANNEL_OPEN = frame(METHOD, 1, b"\x00\x14\x00\x0a\x00")


class TestContent:
    def test_a_message_is_under_way_from_its_header_to_its_last_byte(self, reader: Any) -> None:
        reader.feed(publish())
        assert not reader.is_in_content()
        reader.feed(header(body_size=3))
        assert reader.is_in_content()
        reader.feed(body(1, b"ab"))
        assert reader.is_in_content()
        only(reader.feed(body(1, b"c")))
        assert not reader.is_in_content()

    def test_any_channel_counts(self, reader: Any) -> None:
        reader.feed(publish(7) + header(7, body_size=3) + message())
        assert reader.is_in_content()
        reader.forget_channel(7)
        assert not reader.is_in_content()


class TestForgetting:
    @pytest.mark.parametrize(
        "begun",
        [
            publish(),
            publish() + header(body_size=3),
            publish() + header(body_size=1) + body(1, b"xy"),
        ],
        ids=["header expected", "body expected", "overrun"],
    )
    def test_a_forgotten_channel_starts_anew(self, reader: Any, begun: bytes) -> None:
        reader.feed(begun)
        reader.forget_channel(1)
        assert event_names(reader.feed(CHANNEL_OPEN + message())) == ["MethodFrame", "Message"]

    def test_other_channels_are_not_forgotten(self, reader: Any) -> None:
        reader.feed(publish(1) + header(1, 2) + publish(2) + header(2, 2))
        reader.forget_channel(1)
        reader.forget_channel(9)
        assert only(reader.feed(body(2, b"ok"))).body == b"ok"

    @pytest.mark.parametrize("arrived", [0, 1, 3])
    def test_a_body_frame_under_way_is_dropped(self, reader: Any, arrived: int) -> None:
        whole = body(1, b"abc")
        reader.feed(publish() + header(body_size=3) + whole[: 7 + arrived])
        reader.forget_channel(1)
        assert event_names(reader.feed(whole[7 + arrived :] + message(b"new"))) == ["Message"]

    def test_a_later_body_frame_of_a_forgotten_content_is_out_of_order(self, reader: Any) -> None:
        reader.feed(publish() + header(body_size=6) + body(1, b"abc"))
        reader.forget_channel(1)
        assert event_names(reader.feed(body(1, b"def"))) == ["EXPECTED_METHOD"]


class TestStepwise:
    def test_one_event_comes_per_feed_until_nothing_is_left(self, reader: Any) -> None:
        reader.stepwise = True
        data = CHANNEL_OPEN + frame(HEARTBEAT, 0) + message() + ack()
        assert event_names(reader.feed(data)) == ["MethodFrame"]
        assert event_names(reader.feed(b"")) == ["Message"]
        assert event_names(reader.feed(CHANNEL_OPEN)) == ["Ack"]
        assert event_names(reader.feed(b"")) == ["MethodFrame"]
        assert reader.feed(b"") == []
        assert reader.octets == len(data) + len(CHANNEL_OPEN)

    def test_what_waits_is_read_by_the_rules_of_then(self, reader: Any) -> None:
        reader.stepwise = True
        large = frame(METHOD, 1, bytes(8192))
        assert event_names(reader.feed(CHANNEL_OPEN + large + large)) == ["MethodFrame"]
        assert event_names(reader.feed(b"")) == ["MethodFrame"]
        reader.frame_max = 4096
        assert event_names(reader.feed(b"")) == ["FRAME_TOO_LARGE"]

    def test_the_rest_comes_at_once_when_the_steps_are_over(self, reader: Any) -> None:
        reader.stepwise = True
        reader.feed(CHANNEL_OPEN + CHANNEL_OPEN + message() + ack()[:9])
        reader.stepwise = False
        assert event_names(reader.feed(ack()[9:])) == ["MethodFrame", "Message", "Ack"]


class TestLanding:
    SIZE = 3 * LANDING_BYTES_MIN

    def begin(self, reader: Any, arrived: int = 0) -> None:
        frame_start = pack(">BHI", BODY, 1, self.SIZE)
        assert reader.feed(publish() + header(body_size=self.SIZE) + frame_start) == []
        assert reader.feed(b"a" * arrived) == []

    def test_there_is_none_between_frames(self, reader: Any) -> None:
        assert reader.landing() is None
        reader.feed(publish() + header(body_size=self.SIZE))
        assert reader.landing() is None

    @pytest.mark.parametrize("arrived", [0, 1, LANDING_BYTES_MIN])
    def test_it_is_the_place_of_what_is_missing(self, reader: Any, arrived: int) -> None:
        self.begin(reader, arrived)
        landing = reader.landing()
        assert (landing.nbytes, landing.readonly) == (self.SIZE - arrived, False)
        landing[:] = b"b" * landing.nbytes
        assert reader.landed(landing.nbytes) == []
        event = only(reader.feed(b"\xce"))
        assert event.body == b"a" * arrived + b"b" * (self.SIZE - arrived)
        assert type(event.body) is bytes

    def test_it_can_be_filled_in_parts_and_finished_by_feeding(self, reader: Any) -> None:
        self.begin(reader)
        reader.landing()[:5] = b"12345"
        reader.landed(5)
        reader.landing()[:5] = b"67890"
        reader.landed(5)
        rest = b"c" * (self.SIZE - 10)
        assert only(reader.feed(rest + b"\xce")).body == b"1234567890" + rest

    def test_a_small_rest_is_not_worth_one(self, reader: Any) -> None:
        self.begin(reader, self.SIZE - LANDING_BYTES_MIN)
        assert reader.landing().nbytes == LANDING_BYTES_MIN
        reader.landed(1)
        assert reader.landing() is None

    def test_bytes_that_landed_are_counted(self, reader: Any) -> None:
        self.begin(reader)
        before = reader.octets
        reader.landed(1000)
        assert reader.octets == before + 1000

    def test_the_end_octet_is_checked_as_ever(self, reader: Any) -> None:
        self.begin(reader)
        reader.landing()[:3] = b"xyz"
        reader.landed(self.SIZE)
        fault = only(reader.feed(b"\x00"))
        assert (fault.kind, fault.payload[:3]) == (FaultKind.FRAME_END, b"xyz")
        assert len(fault.payload) == self.SIZE

    @pytest.mark.parametrize("count", [-1, SIZE + 1])
    def test_more_than_fits_cannot_have_landed(self, reader: Any, count: int) -> None:
        self.begin(reader)
        with pytest.raises(ValueError, match="landed"):
            reader.landed(count)

    def test_nothing_can_have_landed_where_there_was_no_landing(self, reader: Any) -> None:
        with pytest.raises(ValueError, match="landed"):
            reader.landed(0)

    def test_forgetting_the_channel_leaves_the_landing_harmless(self, reader: Any) -> None:
        self.begin(reader)
        landing = reader.landing()
        reader.forget_channel(1)
        landing[:100] = bytes(100)
        reader.landed(100)
        assert event_names(reader.feed(bytes(self.SIZE - 100) + b"\xce" + message())) == ["Message"]

    def test_a_landing_outlives_its_reader(self, kernel: ModuleType) -> None:
        reader = kernel.FrameReader(FRAME_MAX, MESSAGE_SIZE_MAX)
        self.begin(reader)
        landing = reader.landing()
        del reader
        landing[:] = b"z" * len(landing)
        assert landing[-1] == ord("z")

    def test_a_connection_that_reads_in_chunks_gets_the_same_message(self, reader: Any) -> None:
        payload = bytes(range(251)) * 2000
        data = message(payload, frame_bytes_max=50_000) + ack()
        events = receive(reader, data, read_bytes_max=7_001)
        assert event_names(events) == ["Message", "Ack"]
        assert events[0].body == payload
