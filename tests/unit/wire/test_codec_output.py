"""What the output buffer writes, and how: large bodies by reference, frames within frame_max."""

from __future__ import annotations

from struct import pack, unpack_from
from types import ModuleType
from typing import Any

import pytest

from wire_frames import BODY, HEADER, HEARTBEAT, METHOD, frame, route_key, short_string

FRAME_MAX = 131_072
BY_REFERENCE_MIN = 16_384
TAG = short_string(b"consumer")


class Writes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def output(kernel: ModuleType) -> Any:
    return kernel.OutputBuffer(FRAME_MAX, 1_000_000, Writes())


def message(kernel: ModuleType, body: bytes = b"hello", properties: bytes = b"\x00\x00") -> Any:
    return kernel.Message(route_key(b"logs", b"a.b"), kernel.PropertyBlock(properties), body)


def frames(data: bytes) -> list[tuple[int, int, bytes]]:
    found = []
    position = 0
    while position < len(data):
        kind, channel, size = unpack_from(">BHI", data, position)
        assert data[position + 7 + size] == 0xCE
        found.append((kind, channel, data[position + 7 : position + 7 + size]))
        position += 8 + size
    return found


def taken(output: Any) -> bytes:
    return b"".join(output.take())


class TestFrames:
    def test_a_method_is_one_frame(self, output: Any) -> None:
        output.method(65535, b"\x00\x14\x00\x0b")
        assert taken(output) == frame(METHOD, 65535, b"\x00\x14\x00\x0b")

    def test_a_heartbeat_is_empty_and_on_channel_zero(self, output: Any) -> None:
        output.heartbeat()
        assert taken(output) == frame(HEARTBEAT, 0)

    def test_raw_bytes_go_as_they_are(self, output: Any) -> None:
        output.raw(b"AMQP\x00\x00\x09\x01")
        assert taken(output) == b"AMQP\x00\x00\x09\x01"

    def test_confirms_are_acks_and_nacks(self, output: Any) -> None:
        output.ack(1, 2**64 - 1, True)
        output.nack(2, 3, False)
        assert frames(taken(output)) == [
            (METHOD, 1, pack(">HHQB", 60, 80, 2**64 - 1, 1)),
            (METHOD, 2, pack(">HHQB", 60, 120, 3, 0)),
        ]

    def test_a_delivery_is_method_header_and_body(self, kernel: ModuleType, output: Any) -> None:
        properties = b"\x18\x00\x02\x09"
        output.deliver(5, TAG, 77, True, message(kernel, b"hello", properties))
        deliver = pack(">HH", 60, 60) + TAG + pack(">QB", 77, 1) + route_key(b"logs", b"a.b")
        assert frames(taken(output)) == [
            (METHOD, 5, deliver),
            (HEADER, 5, pack(">HHQ", 60, 0, 5) + properties),
            (BODY, 5, b"hello"),
        ]

    def test_an_empty_body_has_no_body_frame(self, kernel: ModuleType, output: Any) -> None:
        """T032."""
        output.deliver(1, TAG, 1, False, message(kernel, b""))
        output.content(1, b"\x00\x3c\x00\x47", message(kernel, b""))
        kinds = [kind for kind, _, _ in frames(taken(output))]
        assert kinds == [METHOD, HEADER, METHOD, HEADER]

    def test_any_method_can_carry_content(self, kernel: ModuleType, output: Any) -> None:
        output.content(9, b"\x00\x3c\x00\x47get", message(kernel, b"body"))
        assert frames(taken(output)) == [
            (METHOD, 9, b"\x00\x3c\x00\x47get"),
            (HEADER, 9, pack(">HHQ", 60, 0, 4) + b"\x00\x00"),
            (BODY, 9, b"body"),
        ]

    @pytest.mark.parametrize("frame_max", [4096, 20_000, FRAME_MAX])
    @pytest.mark.parametrize("extra", [-1, 0, 1])
    def test_a_large_body_is_split_at_frame_max(
        self, kernel: ModuleType, frame_max: int, extra: int
    ) -> None:
        """T031: a frame with its overhead is never larger than was negotiated."""
        room = frame_max - 8
        payload = bytes(i % 251 for i in range(3 * room + extra))
        output = kernel.OutputBuffer(frame_max, 1_000_000, Writes())
        output.deliver(1, TAG, 1, False, message(kernel, payload))
        bodies = [data for kind, _, data in frames(taken(output)) if kind == BODY]
        assert b"".join(bodies) == payload
        assert [len(data) for data in bodies[:-1]] == [room] * (len(bodies) - 1)
        assert 0 < len(bodies[-1]) <= room

    @pytest.mark.parametrize("size", [FRAME_MAX - 9, FRAME_MAX - 8, FRAME_MAX - 7])
    def test_the_last_byte_that_fits_one_frame(
        self, kernel: ModuleType, output: Any, size: int
    ) -> None:
        output.deliver(1, TAG, 1, False, message(kernel, bytes(size)))
        sizes = [len(data) for kind, _, data in frames(taken(output)) if kind == BODY]
        assert sizes == ([size] if size <= FRAME_MAX - 8 else [FRAME_MAX - 8, 1])

    def test_frame_max_can_change_after_negotiation(self, kernel: ModuleType, output: Any) -> None:
        output.frame_max = 4096
        output.content(1, b"\x00\x3c\x00\x47", message(kernel, bytes(5000)))
        assert [len(data) for kind, _, data in frames(taken(output)) if kind == BODY] == [4088, 912]


class TestPieces:
    def test_small_frames_go_as_one_piece(self, kernel: ModuleType, output: Any) -> None:
        for tag in range(100):
            output.deliver(1, TAG, tag, False, message(kernel))
        pieces = output.take()
        assert sum(len(piece) for piece in pieces) > 100 * 60
        assert len(pieces) < 10

    def test_a_large_body_is_sent_from_where_it_is(self, kernel: ModuleType, output: Any) -> None:
        payload = bytes(BY_REFERENCE_MIN)
        output.deliver(1, TAG, 1, False, message(kernel, payload))
        output.deliver(2, TAG, 1, False, message(kernel, payload))
        assert [piece is payload for piece in output.take()] == [False, True, False, True, False]

    def test_so_are_the_parts_of_one_that_is_split(self, kernel: ModuleType, output: Any) -> None:
        payload = bytes(300_000)
        output.content(1, b"\x00\x3c\x00\x47", message(kernel, payload))
        views = [piece for piece in output.take() if isinstance(piece, memoryview)]
        assert all(view.obj is payload for view in views)
        assert sum(len(view) for view in views) == len(payload)

    def test_a_body_just_below_is_copied(self, kernel: ModuleType, output: Any) -> None:
        output.deliver(1, TAG, 1, False, message(kernel, bytes(BY_REFERENCE_MIN - 1)))
        assert all(type(piece) is bytes for piece in output.take())

    def test_what_was_taken_is_not_touched_by_later_writes(self, output: Any) -> None:
        output.method(1, b"first")
        first = output.take()
        output.method(1, b"other")
        assert b"".join(first) == frame(METHOD, 1, b"first")
        assert taken(output) == frame(METHOD, 1, b"other")

    def test_nothing_written_is_nothing_to_take(self, output: Any) -> None:
        assert output.take() == []
        output.heartbeat()
        output.take()
        assert output.take() == []

    @pytest.mark.parametrize("count", [1, 511, 512, 513, 262_144, 262_145, 1_000_000])
    def test_a_write_of_any_size_fits(self, output: Any, count: int) -> None:
        data = bytes(range(256)) * (count // 256 + 1)
        for _ in range(3):
            output.raw(data[:count])
        assert taken(output) == data[:count] * 3


class TestAccounting:
    def test_size_is_what_waits_and_octets_all_there_ever_was(
        self, kernel: ModuleType, output: Any
    ) -> None:
        output.heartbeat()
        output.deliver(1, TAG, 1, False, message(kernel, bytes(200_000)))
        total = output.size
        assert total == output.octets == len(taken(output))
        assert output.size == 0
        output.heartbeat()
        assert (output.size, output.octets) == (8, total + 8)

    def test_the_first_write_after_each_take_is_announced(self, kernel: ModuleType) -> None:
        writes = Writes()
        output = kernel.OutputBuffer(FRAME_MAX, 1000, writes)
        output.take()
        assert writes.count == 0
        output.deliver(1, TAG, 1, False, message(kernel, bytes(100_000)))
        output.heartbeat()
        assert writes.count == 1
        output.take()
        output.heartbeat()
        assert writes.count == 2

    def test_an_announcement_that_fails_writes_nothing(self, kernel: ModuleType) -> None:
        def refuse() -> None:
            raise RuntimeError("closed")

        output = kernel.OutputBuffer(FRAME_MAX, 1000, refuse)
        with pytest.raises(RuntimeError, match="closed"):
            output.heartbeat()
        assert (output.size, output.take()) == (0, [])

    def test_congestion_begins_above_the_bound_and_is_ended_by_the_owner(
        self, kernel: ModuleType
    ) -> None:
        output = kernel.OutputBuffer(FRAME_MAX, 16, Writes())
        output.heartbeat()
        output.heartbeat()
        assert not output.is_congested
        output.heartbeat()
        assert output.is_congested
        output.take()
        assert output.is_congested
        output.is_congested = False
        output.heartbeat()
        assert not output.is_congested

    def test_whoever_is_told_of_congestion_may_take_what_is_there(self, kernel: ModuleType) -> None:
        """Even in the middle of a message: the frames go on behind what was taken."""
        early: list[bytes | memoryview] = []
        announced = []

        def take_early() -> None:
            early.extend(output.take())
            output.is_congested = False
            announced.append("taken")

        output = kernel.OutputBuffer(FRAME_MAX, 20, lambda: announced.append("first"), take_early)
        output.deliver(1, TAG, 1, False, message(kernel, bytes(300_000)))
        output.heartbeat()
        data = b"".join(early) + taken(output)
        sizes = [len(payload) for kind, _, payload in frames(data) if kind == BODY]
        assert sizes == [FRAME_MAX - 8, FRAME_MAX - 8, 300_000 - 2 * (FRAME_MAX - 8)]
        # Whenever something waits, its first byte was announced since the last time of taking.
        assert announced == ["first", "taken"] * 4 + ["first"]

    def test_congestion_is_told_once_until_it_is_over(self, kernel: ModuleType) -> None:
        told = Writes()
        output = kernel.OutputBuffer(FRAME_MAX, 10, Writes(), told)
        for _ in range(5):
            output.heartbeat()
        assert told.count == 1
        output.take()
        output.is_congested = False
        output.heartbeat()
        assert told.count == 1
        output.heartbeat()
        assert told.count == 2

    def test_a_body_by_reference_congests_like_any_other(self, kernel: ModuleType) -> None:
        output = kernel.OutputBuffer(FRAME_MAX, 100_000, Writes())
        output.deliver(1, TAG, 1, False, message(kernel, bytes(100_000)))
        assert output.is_congested

    def test_the_list_of_waiting_consumers_belongs_to_the_owner(self, output: Any) -> None:
        output.waiting.append("consumer")
        assert output.waiting == ["consumer"]
        output.waiting = []
        assert output.waiting == []

    def test_none_is_refused_instead_of_being_read_from(
        self, kernel: ModuleType, output: Any
    ) -> None:
        for call in (
            lambda: output.raw(None),
            lambda: output.method(1, None),
            lambda: output.content(1, b"", None),
            lambda: output.deliver(1, TAG, 1, False, None),
            lambda: output.deliver(1, None, 1, False, message(kernel)),
        ):
            with pytest.raises((TypeError, AttributeError)):
                call()
