"""What is alive in a segment, as a number with a bit per place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.storage.index.segment import (
    ALL,
    SEGMENT_ENTRIES,
    Segment,
    pieces_of,
    places_of,
    runs_of,
)

places = st.integers(0, ALL)


def places_from(numbers: list[int]) -> int:
    return sum(1 << number for number in set(numbers))


def segment_with(count: int, size: int = 10) -> Segment:
    segment = Segment(3)
    segment.add(places_of(0, count), 0, count * size, 0)
    return segment


@given(st.sets(st.integers(0, SEGMENT_ENTRIES - 1), max_size=50))
def test_runs_are_the_places_and_nothing_else(numbers: set[int]) -> None:
    found = [
        n
        for first, count in runs_of(places_from(list(numbers)))
        for n in range(first, first + count)
    ]
    assert found == sorted(numbers)


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_pieces_of_a_range_are_the_range(start: int, length: int) -> None:
    found = [
        (number << 11) + first + i
        for number, wanted in pieces_of(start, start + length)
        for first, count in runs_of(wanted)
        for i in range(count)
    ]
    assert found == list(range(start, start + length))


def test_an_ack_that_comes_twice_counts_once() -> None:
    segment = segment_with(100)
    assert segment.ack(places_of(10, 5), 50) == 5
    assert segment.ack(places_of(10, 5), 50) == 0
    assert segment.live_count == 95
    assert segment.body_bytes == 950
    assert segment.unwritten_acks == places_of(10, 5)


def test_an_ack_of_what_was_never_there_changes_nothing() -> None:
    segment = segment_with(10)
    assert segment.ack(places_of(500, 3), 30) == 0
    assert segment.body_bytes == 100


def test_an_entry_cannot_be_added_twice() -> None:
    segment = segment_with(10)
    with pytest.raises(AssertionError):
        segment.add(places_of(9, 2), 0, 0, 0)


def test_full_segments_share_one_number() -> None:
    first, second = segment_with(SEGMENT_ENTRIES), segment_with(SEGMENT_ENTRIES)
    assert first.live is second.live is ALL


def test_what_is_doomed_is_not_read_and_waits_until_the_store_was_told() -> None:
    segment = segment_with(4)
    segment.add(places_of(4, 2), 0, 0, 2_000)
    segment.stored |= places_of(4, 2)
    assert segment.purge_places(ALL) == 6
    assert segment.readable == 0
    assert segment.live == segment.doomed == places_of(4, 2)
    segment.ack(places_of(4, 1), 1_000)
    segment.ack(places_of(5, 1), 1_000)
    assert segment.live == segment.doomed == segment.stored == 0
    assert segment.body_bytes == 0


def test_transient_messages_do_not_outlive_a_start() -> None:
    segment = segment_with(4)
    segment.add(places_of(10, 3), places_of(10, 3), 0, 0)
    assert segment.body_bytes == 40
    segment.forget_transient()
    assert segment.live == places_of(0, 4)
    assert segment.unwritten_acks == places_of(10, 3)


@given(places, places)
def test_bytes_are_never_negative_and_nothing_weighs_nothing(live: int, doomed: int) -> None:
    segment = Segment(0)
    segment.add(live, 0, 7 * live.bit_count(), 0)
    segment.purge_places(doomed)
    assert segment.body_bytes >= 0
    assert segment.live or segment.body_bytes == 0
    assert segment.live == live & ~doomed


def test_order_is_lost_when_an_older_entry_comes_later() -> None:
    segment = Segment(0)
    segment.note_order(0, 10)
    segment.note_order(11, 20)
    assert segment.is_ordered
    segment.note_order(5, 5)
    assert not segment.is_ordered
