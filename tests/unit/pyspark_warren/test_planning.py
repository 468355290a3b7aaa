"""What a batch takes, and how it is divided."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_warren.http_client import Cut
from pyspark_warren.planning import admitted_by_bytes, admitted_by_rows, divided, shares


def cuts_every(step: int, end: int, record_bytes: int = 10) -> list[Cut]:
    return [Cut(offset, offset * record_bytes) for offset in range(0, end, step)]


def test_all_that_is_there_is_taken_if_it_is_no_more_than_asked_for() -> None:
    assert admitted_by_rows({"a": 0, "b": 5}, {"a": 4, "b": 11}, 10) == {"a": 4, "b": 11}


def test_queues_share_what_a_batch_may_have_by_what_waits_in_them() -> None:
    assert admitted_by_rows({"a": 0, "b": 100}, {"a": 30, "b": 110}, 20) == {"a": 15, "b": 105}


def test_a_short_queue_is_not_starved_by_a_long_one() -> None:
    admitted = admitted_by_rows({"a": 0, "b": 0, "c": 7}, {"a": 1_000_000, "b": 1, "c": 7}, 10)
    assert admitted["b"] == 1
    assert admitted["c"] == 7
    assert 0 < admitted["a"] <= 10


@given(
    waiting=st.lists(st.integers(0, 1_000), min_size=1, max_size=5), rows_max=st.integers(1, 500)
)
def test_a_query_always_gets_on_and_comes_to_the_end(waiting: list[int], rows_max: int) -> None:
    end = {str(n): count for n, count in enumerate(waiting)}
    position = dict.fromkeys(end, 0)
    for _ in range(sum(waiting)):
        if position == end:
            break
        admitted = admitted_by_rows(position, end, rows_max)
        assert all(position[q] <= admitted[q] <= end[q] for q in end)
        taken = sum(admitted[q] - position[q] for q in end)
        assert 0 < taken <= max(rows_max, len(end)) + len(end)
        position = admitted
    assert position == end


def test_bytes_are_measured_between_cuts() -> None:
    cuts = cuts_every(10, 100)
    assert admitted_by_bytes(cuts, (0, 100), 250) == 20
    assert admitted_by_bytes(cuts, (0, 100), 300) == 30
    assert admitted_by_bytes(cuts, (0, 100), 10_000) == 100


def test_at_least_a_chunk_is_taken_however_few_bytes_are_asked_for() -> None:
    assert admitted_by_bytes(cuts_every(10, 100), (0, 100), 1) == 10
    assert admitted_by_bytes(cuts_every(10, 40)[1:], (5, 40), 1) == 10
    assert admitted_by_bytes([], (5, 9), 1) == 9


@given(start=st.integers(0, 99), bytes_max=st.integers(1, 2_000), step=st.integers(1, 50))
def test_a_batch_by_bytes_always_gets_on(start: int, bytes_max: int, step: int) -> None:
    cuts = [cut for cut in cuts_every(step, 100) if cut.offset >= start]
    assert start < admitted_by_bytes(cuts, (start, 100), bytes_max) <= 100


def test_partitions_are_shared_by_how_much_there_is_to_read() -> None:
    assert shares({"a": 300, "b": 100, "c": 0}, 4) == {"a": 3, "b": 1}
    assert shares({"a": 10, "b": 10}, 1) == {"a": 1, "b": 1}
    assert shares({"a": 0}, 4) == {}


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_a_span_is_divided_evenly(count: int) -> None:
    spans = divided((0, 160), cuts_every(10, 160), count)
    assert len(spans) == count
    sizes = [end - start for start, end in spans]
    assert max(sizes) - min(sizes) <= 10


@given(
    span=st.tuples(st.integers(0, 200), st.integers(0, 200)),
    step=st.integers(1, 60),
    count=st.integers(1, 12),
)
def test_parts_are_the_whole_whatever_the_cuts(
    span: tuple[int, int], step: int, count: int
) -> None:
    start, end = min(span), max(span)
    cuts = [cut for cut in cuts_every(step, 200) if start <= cut.offset < end]
    spans = divided((start, end), cuts, count)
    assert len(spans) <= count
    if start == end:
        assert spans == []
        return
    assert (spans[0][0], spans[-1][1]) == (start, end)
    assert all(a < b for a, b in spans)
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    inner = {cut.offset for cut in cuts}
    assert all(begin in inner for begin, _ in spans[1:])
