"""Checkpoints: what is written is what is read, and damage is noticed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.storage.index.checkpoint import (
    Checkpoint,
    DamagedCheckpoint,
    QueueState,
    decode_checkpoint,
    encode_queue,
)
from warren.storage.index.index_format import NewerFormat
from warren.storage.index.segment import ALL, Segment

sets = st.one_of(
    st.just(0),
    st.just(ALL),
    st.integers(0, ALL),
    st.builds(lambda a, n: ((1 << n) - 1) << a, st.integers(0, 2_000), st.integers(1, 48)),
)
numbers = st.integers(0, 2**63)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    segment = Segment(draw(st.integers(0, 2**50)))
    segment.live = draw(sets)
    segment.transient = draw(sets)
    segment.stored = draw(sets)
    segment.doomed = draw(sets)
    segment.unwritten_acks = draw(sets)
    segment.entries = draw(st.integers(0, 5_000))
    segment.embedded_bytes = draw(numbers)
    segment.stored_bytes = draw(numbers)
    segment.file_size = draw(numbers)
    segment.is_ordered = draw(st.booleans())
    segment.last_place = draw(st.integers(-1, 2_047))
    segment.has_file = True
    return segment


@st.composite
def queues(draw: st.DrawFn) -> QueueState:
    found = draw(st.lists(segments(), max_size=4))
    return QueueState(
        draw(st.integers(1, 2**32 - 1)),
        draw(st.text(max_size=30)),
        draw(st.booleans()),
        draw(numbers),
        draw(numbers),
        draw(st.lists(st.tuples(numbers, numbers), max_size=3)),
        {segment.number: segment for segment in found},
    )


def facts(queue: QueueState) -> tuple[object, ...]:
    def of(segment: Segment) -> dict[str, object]:
        return {name: getattr(segment, name) for name in Segment.__slots__}

    described = {number: of(segment) for number, segment in queue.segments.items()}
    return (
        queue.queue_id,
        queue.name,
        queue.is_deleted,
        queue.next_sequence,
        queue.redelivered_below,
        queue.delivered,
        described,
    )


def encoded(states: list[QueueState], state: bytes = b"", *, is_clean: bool = False) -> bytes:
    blobs = [encode_queue(queue) for queue in states]  # type: ignore[arg-type] # has all it needs
    checkpoint = Checkpoint(7, is_clean, 12, 3, 2**41 + 5, state, blobs)
    return b"".join(checkpoint.pieces())


@given(st.lists(queues(), max_size=4), st.binary(max_size=50), st.booleans())
def test_what_is_written_is_what_is_read(
    states: list[QueueState], state: bytes, is_clean: bool
) -> None:
    checkpoint, found = decode_checkpoint(encoded(states, state, is_clean=is_clean))
    assert checkpoint == Checkpoint(7, is_clean, 12, 3, 2**41 + 5, state)
    assert [facts(queue) for queue in found] == [facts(queue) for queue in states]


def test_every_flipped_bit_is_noticed() -> None:
    data = bytearray(encoded([QueueState(1, "q", segments={0: Segment(0)})], b"state"))
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedCheckpoint):
            decode_checkpoint(bytes(data))
        data[bit // 8] ^= 1 << bit % 8


@given(st.integers(0, 200))
def test_a_part_of_one_is_noticed(size: int) -> None:
    data = encoded([QueueState(1, "q")], bytes(200))
    with pytest.raises(DamagedCheckpoint):
        decode_checkpoint(data[: min(size, len(data) - 1)])


def test_a_newer_format_is_not_taken_for_damage() -> None:
    from warren.storage.index import checkpoint as module

    ours = module.VERSION
    try:
        module.VERSION = ours + 1  # type: ignore[misc]
        data = encoded([])
    finally:
        module.VERSION = ours  # type: ignore[misc]
    with pytest.raises(NewerFormat, match="format 2"):
        decode_checkpoint(data)


def test_a_deep_backlog_takes_little() -> None:
    """A million messages in 489 segments that are full: some 60 bytes each."""
    state = QueueState(1, "deep")
    for number in range(489):
        segment = state.segments[number] = Segment(number)
        segment.add(ALL, 0, 2_048 * 1_024, 0)
    assert len(encoded([state])) < 489 * 64


def test_scattered_acks_are_kept_exactly() -> None:
    dice = random.Random(1)
    state = QueueState(1, "q")
    segment = state.segments[0] = Segment(0)
    segment.has_file = True
    segment.live = dice.getrandbits(2_048)
    _, (found,) = decode_checkpoint(encoded([state]))
    assert found.segments[0].live == segment.live
