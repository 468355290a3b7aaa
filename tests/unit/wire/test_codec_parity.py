"""The compiled kernel and its twin do the same, whatever the bytes and however they are cut."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warren.wire.properties import MalformedProperties, decode_properties
from wire_frames import (
    FRAME_MAX,
    LANDING_BYTES_MIN,
    MESSAGE_SIZE_MAX,
    ack,
    cut,
    described,
    feed_all,
    header,
    kernel,
    message,
    publish,
    receive,
    short_string,
)
from wire_strategies import (
    SMALL_FRAME_MAX,
    SMALL_MESSAGE_MAX,
    cuts,
    property_blocks,
    streams,
)

thorough = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
Kernels = tuple[ModuleType, ModuleType]
pytestmark = pytest.mark.timeout(300)  # a busy machine takes its time to draw examples


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return kernel("_codec"), kernel("_codec_py")


def state(reader: Any) -> tuple[Any, ...]:
    landing = reader.landing()
    room = None if landing is None else landing.nbytes
    return reader.octets, reader.frames, reader.has_stopped, reader.is_in_content(), room


def small_readers(kernels: Kernels) -> list[Any]:
    return [k.FrameReader(SMALL_FRAME_MAX, SMALL_MESSAGE_MAX) for k in kernels]


@thorough
@given(data=streams, boundaries=cuts, is_client=st.booleans())
def test_both_give_the_same_events_at_every_piece(
    kernels: Kernels, data: bytes, boundaries: list[int], is_client: bool
) -> None:
    compiled, pure = small_readers(kernels)
    compiled.is_client = pure.is_client = is_client
    for piece in cut(data, boundaries):
        events = [described(event) for event in compiled.feed(piece)]
        assert events == [described(event) for event in pure.feed(piece)]
        assert state(compiled) == state(pure)


@thorough
@given(data=streams, boundaries=cuts)
def test_the_events_do_not_depend_on_the_cuts(
    kernels: Kernels, data: bytes, boundaries: list[int]
) -> None:
    for at_once, in_pieces in zip(small_readers(kernels), small_readers(kernels), strict=True):
        expected = [described(event) for event in at_once.feed(data)]
        events = feed_all(in_pieces, cut(data, boundaries))
        assert [described(event) for event in events] == expected
        assert state(in_pieces) == state(at_once)


def forget(channel: int) -> tuple[str, int]:
    return "forget", channel


changes = st.one_of(
    st.sampled_from([0, 1, 1, 2, 9]).map(forget),
    st.tuples(st.just("stepwise"), st.booleans()),
    st.tuples(st.just("frame_max"), st.sampled_from([20, SMALL_FRAME_MAX])),
    st.tuples(st.just("message_size_max"), st.sampled_from([10, SMALL_MESSAGE_MAX])),
)


@thorough
@given(data=streams, boundaries=cuts, schedule=st.lists(changes, max_size=12))
def test_both_follow_changes_of_the_rules_in_the_middle(
    kernels: Kernels, data: bytes, boundaries: list[int], schedule: list[tuple[str, Any]]
) -> None:
    compiled, pure = small_readers(kernels)
    pieces = cut(data, boundaries)
    pieces += [b""] * len(schedule)  # single steps leave something to be had for nothing
    for number, piece in enumerate(pieces):
        if number < len(schedule):
            what, value = schedule[number]
            for reader in (compiled, pure):
                if what == "forget":
                    reader.forget_channel(value)
                else:
                    setattr(reader, what, value)
        events = [described(event) for event in compiled.feed(piece)]
        assert events == [described(event) for event in pure.feed(piece)]
        assert state(compiled) == state(pure)


PATTERN = bytes(range(251)) * 400
large_bodies = st.integers(LANDING_BYTES_MIN - 10, 5 * LANDING_BYTES_MIN).map(
    lambda size: PATTERN[:size]
)


@settings(thorough, max_examples=100)
@given(
    bodies=st.lists(large_bodies, min_size=1, max_size=3),
    frame_bytes_max=st.integers(LANDING_BYTES_MIN // 2, FRAME_MAX),
    read_bytes_max=st.integers(1000, 2 * LANDING_BYTES_MIN),
    damage_at=st.one_of(st.none(), st.none(), st.integers(0, 8 * LANDING_BYTES_MIN)),
)
def test_bodies_that_land_are_as_good_as_bodies_that_are_fed(
    kernels: Kernels,
    bodies: list[bytes],
    frame_bytes_max: int,
    read_bytes_max: int,
    damage_at: int | None,
) -> None:
    data = bytearray()
    for number, body in enumerate(bodies):
        data += message(body, number + 1, frame_bytes_max=frame_bytes_max) + ack()
    if damage_at is not None and damage_at < len(data):
        data[damage_at] ^= 0x41
    fed = kernels[0].FrameReader(FRAME_MAX, MESSAGE_SIZE_MAX)
    expected = [described(event) for event in fed.feed(bytes(data))]
    for each in kernels:
        reader = each.FrameReader(FRAME_MAX, MESSAGE_SIZE_MAX)
        events = receive(reader, bytes(data), read_bytes_max)
        assert [described(event) for event in events] == expected
        assert (reader.octets, reader.frames) == (fed.octets, fed.frames)


@settings(thorough, max_examples=400)
@given(raw=st.one_of(property_blocks(), st.binary(max_size=40)))
def test_both_see_the_same_in_a_property_block(kernels: Kernels, raw: bytes) -> None:
    compiled, pure = (each.PropertyBlock(raw) for each in kernels)
    assert described(compiled) == described(pure)


@settings(thorough, max_examples=400)
@given(raw=st.one_of(property_blocks(), st.binary(max_size=40)))
def test_a_block_is_sound_exactly_if_it_can_be_decoded(kernels: Kernels, raw: bytes) -> None:
    """What the reader lets in must not fail later, where it is dead-lettered or shown."""
    try:
        decode_properties(raw)
        is_malformed = False
    except MalformedProperties:
        is_malformed = True
    assert [each.PropertyBlock(raw).is_malformed for each in kernels] == [is_malformed] * 2


delivery_tags = st.integers(0, 2**64 - 1)
numbers = st.integers(0, 65535)
sizes = st.one_of(
    st.integers(0, 600), st.sampled_from([4087, 4088, 4089, 16383, 16384, 16385, 70_000])
)
calls = st.one_of(
    st.tuples(st.just("raw"), st.binary(max_size=700)),
    st.tuples(st.just("method"), numbers, st.binary(max_size=700)),
    st.tuples(st.just("heartbeat")),
    st.tuples(st.sampled_from(["ack", "nack"]), numbers, delivery_tags, st.booleans()),
    st.tuples(
        st.just("deliver"),
        numbers,
        st.binary(max_size=20).map(short_string),
        delivery_tags,
        st.booleans(),
        sizes,
    ),
    st.tuples(st.just("content"), numbers, st.binary(min_size=4, max_size=40), sizes),
    st.tuples(st.just("take")),
)


class Writer:
    """An output, what was taken of it and in which order it spoke up."""

    def __init__(self, kernel: ModuleType, frame_max: int, takes_early: bool) -> None:
        self.kernel = kernel
        self.takes_early = takes_early
        self.taken: list[bytes | memoryview] = []
        self.story: list[str] = []
        self.output = kernel.OutputBuffer(frame_max, 5000, self.begun, self.congested)

    def begun(self) -> None:
        self.story.append("begun")

    def congested(self) -> None:
        self.story.append("congested")
        if self.takes_early:
            self.taken += self.output.take()
            self.output.is_congested = False

    def call(self, name: str, arguments: list[Any], properties: bytes) -> None:
        if name in {"deliver", "content"}:
            block = self.kernel.PropertyBlock(properties)
            payload = b"x" * arguments.pop()
            arguments.append(self.kernel.Message(b"\x01e\x01k", block, payload))
        result = getattr(self.output, name)(*arguments)
        if name == "take":
            self.taken += result


@thorough
@given(
    script=st.lists(calls, max_size=25),
    frame_max=st.sampled_from([4096, 16384, 16392, 20_000, 131_072]),
    properties=property_blocks(),
    takes_early=st.booleans(),
)
def test_both_write_the_same_bytes(
    kernels: Kernels,
    script: list[tuple[Any, ...]],
    frame_max: int,
    properties: bytes,
    takes_early: bool,
) -> None:
    writers = [Writer(each, frame_max, takes_early) for each in kernels]
    for name, *arguments in [*script, ("take",)]:
        for writer in writers:
            writer.call(name, list(arguments), properties)
        compiled, pure = (writer.output for writer in writers)
        assert (compiled.size, compiled.octets) == (pure.size, pure.octets)
        assert compiled.is_congested == pure.is_congested
        assert writers[0].story == writers[1].story
    assert b"".join(writers[0].taken) == b"".join(writers[1].taken)


def test_the_last_publish_is_used_again_only_if_it_is_the_same(kernels: Kernels) -> None:
    """The compiled reader keeps route key and properties; nobody may be able to tell."""
    blocks = [b"\x00\x00", b"\x10\x00\x01", b"\x10\x00\x02", b"\x10\x00\x02", b"\x00\x00"]
    routes = [b"\x00\x01a", b"\x00\x01b", b"\x01b\x00", b"\x01b\x00", b"\x00\x01a"]
    data = b"".join(publish(1, route) + header(1, 0, block) for route in routes for block in blocks)
    for each in kernels:
        events = each.FrameReader(FRAME_MAX, MESSAGE_SIZE_MAX).feed(data)
        seen = [(event.route_key, event.properties.raw) for event in events]
        assert seen == [(route, block) for route in routes for block in blocks]
        assert [e.properties.persistent for e in events] == [b == b"\x10\x00\x02" for _, b in seen]
