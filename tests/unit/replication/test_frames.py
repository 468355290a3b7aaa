"""Frames of a group: what goes in comes out, payloads are not copied, rubbish is refused."""

from __future__ import annotations

import pytest

from warren.replication.gm.frames import (
    Activity,
    AddedOnRight,
    AddOnRight,
    Catchup,
    CheckNeighbours,
    Frame,
    MalformedFrame,
    Payload,
    Progress,
    Rejected,
    decode_frames,
    encode_frame,
)
from warren.replication.group_record import Member

FENCE = ("queue-uid", 3, 17, "rabbit@a/7/1")
PROGRESS = (
    Progress("rabbit@a/7/1", 12, 9, (16, 17), (5, 0)),
    Progress("rabbit@b/8/1", 4, 4),
)
FRAMES: list[tuple[Frame, tuple[Payload, ...]]] = [
    (Activity(*FENCE, 2, 41, PROGRESS), (b"first", b"")),
    (Catchup(*FENCE, 2, PROGRESS), (b"first", b"")),
    (CheckNeighbours(*FENCE, 4), ()),
    (AddOnRight(*FENCE, Member("rabbit@c/9/1", "rabbit@c", "9")), ()),
    (AddedOnRight(*FENCE, False), ()),
    (Rejected(*FENCE, 4), ()),
]


@pytest.mark.parametrize(("frame", "payloads"), FRAMES)
def test_a_frame_comes_out_as_it_went_in(frame: Frame, payloads: tuple[Payload, ...]) -> None:
    assert list(decode_frames(b"".join(encode_frame(frame, payloads)))) == [(frame, payloads)]


def test_frames_that_follow_each_other_come_out_one_by_one() -> None:
    data = b"".join(piece for each in FRAMES for piece in encode_frame(*each))
    assert list(decode_frames(data)) == FRAMES


def test_frames_before_one_that_is_cut_short_are_read() -> None:
    whole, cut = (b"".join(encode_frame(*each)) for each in FRAMES[:2])
    frames = decode_frames(whole + cut[:-1])
    assert next(frames) == FRAMES[0]
    with pytest.raises(MalformedFrame):
        next(frames)


def test_payloads_are_neither_copied_on_the_way_out_nor_on_the_way_in() -> None:
    payload = b"x" * 100_000
    frame = Activity(*FENCE, 1, 1, (Progress("a", 1, 0, (1,), (len(payload),)),))
    buffers = encode_frame(frame, (payload,))
    assert buffers[1] is payload
    arrived = b"".join(buffers)
    (received,) = next(decode_frames(arrived))[1]
    assert isinstance(received, memoryview)
    assert received.obj is arrived


@pytest.mark.parametrize("cut", [3, 4, 10, -1])
def test_what_is_cut_short_is_refused(cut: int) -> None:
    data = b"".join(encode_frame(*FRAMES[0]))
    with pytest.raises(MalformedFrame):
        list(decode_frames(data[:cut]))


def test_what_is_too_long_or_makes_no_sense_is_refused() -> None:
    data = b"".join(encode_frame(*FRAMES[0]))
    with pytest.raises(MalformedFrame):
        list(decode_frames(data + b"!"))
    with pytest.raises(MalformedFrame):
        list(decode_frames(b"\0\0\0\10\0\0\0\4abcd"))
    for views, lengths in (((1,), (-1,)), ((1, 2), (0,))):
        frame = Activity(*FENCE, 1, 1, (Progress("a", 1, 0, views, lengths),))
        with pytest.raises(MalformedFrame):
            list(decode_frames(b"".join(encode_frame(frame))))


def test_a_small_frame_keeps_nothing_in_memory_of_what_it_came_with() -> None:
    small = Activity(*FENCE, 1, 1, (Progress("a", 1, 0, (1,), (3,)),))
    large = Activity(*FENCE, 1, 2, (Progress("a", 2, 0, (1,), (100_000,)),))
    frames = [*encode_frame(small, (b"one",)), *encode_frame(large, (bytes(100_000),))]
    data = b"".join(frames)
    (first,), (second,) = (payloads for _, payloads in decode_frames(data))
    assert isinstance(first, memoryview)
    assert isinstance(second, memoryview)
    assert (bytes(first), len(first.obj) < 1_000) == (b"one", True)  # type: ignore[arg-type]
    assert second.obj is data
