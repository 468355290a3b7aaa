"""Finding the nth message of a range without reading."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from warren.storage.index.segment import SEGMENT_ENTRIES, SEGMENT_SHIFT, Segment, places_of
from warren.storage.queue.browsing import is_alive, nth_alive, within_bytes
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

sequences = st.integers(0, 4 * SEGMENT_ENTRIES - 1)


def index_of(alive: set[int]) -> Any:
    segments: dict[int, Segment] = {}
    for sequence in alive:
        number = sequence >> SEGMENT_SHIFT
        segment = segments.setdefault(number, Segment(number))
        segment.add(places_of(sequence, 1), 0, 1, 0)
    return cast("Any", SimpleNamespace(segments=segments))


@given(st.sets(sequences, max_size=40), sequences, sequences, st.integers(0, 40))
def test_the_nth_message_alive_is_found(alive: set[int], a: int, b: int, number: int) -> None:
    start, end = min(a, b), max(a, b) + 1
    expected = [sequence for sequence in sorted(alive) if start <= sequence < end]
    found = nth_alive(index_of(alive), (start, end), number)
    assert found == (expected[number] if number < len(expected) else None)


@given(st.sets(sequences, max_size=40), sequences)
def test_what_is_alive_is_known(alive: set[int], sequence: int) -> None:
    assert is_alive(index_of(alive), sequence) == (sequence in alive)


def test_bytes_end_with_the_message_that_is_too_many() -> None:
    entries = []
    for sequence in range(5):
        queued = QueuedMessage(Message(b"", PropertyBlock(b"\0\0"), b"12345"), sequence, 0)
        queued.size = 5
        entries.append(queued)
    assert [len(within_bytes(entries, size)) for size in (0, 1, 5, 6, 100)] == [0, 1, 1, 2, 5]
