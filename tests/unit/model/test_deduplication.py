"""The window of ids by itself: what it finds, what it forgets, and who hears of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.model.deduplication import GONE_IDS_MIN, KEY_BYTES_MAX, Remembered, Window, key_of
from warren.model.fields import Field


def test_what_was_added_is_found_and_nothing_else() -> None:
    window = Window(None, None)
    entry = window.add(b"a", 0)
    assert window.find(b"a", 10**12) is entry
    assert window.find(b"b", 0) is None


def test_the_oldest_make_room() -> None:
    gone: list[Remembered] = []
    window = Window(2, None, gone.append)
    first, second, third = (window.add(key, 0) for key in (b"1", b"2", b"3"))
    assert gone == [first]
    assert window.entries() == [second, third]


def test_an_id_ends_with_its_time() -> None:
    gone: list[Remembered] = []
    window = Window(None, 100, gone.append)
    entry = window.add(b"a", 1_000)
    assert window.find(b"a", 1_099) is entry
    assert window.find(b"a", 1_100) is None
    assert gone == [entry]


def test_an_id_may_have_a_time_of_its_own() -> None:
    window = Window(None, 100)
    window.add(b"short", 0, 10)
    window.add(b"long", 0, 1_000)
    assert window.find(b"short", 10) is None
    assert window.find(b"long", 999) is not None


def test_forgetting_what_has_gone_leaves_its_successor_alone() -> None:
    window = Window(None, None)
    former = window.add(b"a", 0)
    window.forget(former)
    later = window.add(b"a", 0)
    window.forget(former)
    assert window.find(b"a", 0) is later


def test_all_can_be_forgotten() -> None:
    gone: list[Remembered] = []
    window = Window(None, None, gone.append)
    added = [window.add(key, 0) for key in (b"1", b"2")]
    window.clear()
    assert gone == added
    assert len(window) == 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Field("I", 5), Field("l", 5), True),
        (Field("S", b"5"), Field("x", b"5"), True),
        (Field("I", 5), Field("S", b"5"), False),
        (Field("t", True), Field("I", 1), False),
        (Field("d", 1.0), Field("I", 1), False),
        (Field("V", None), Field("V", None), True),
        (Field("S", b"a" * 500), Field("S", b"a" * 500), True),
        (Field("S", b"a" * 500), Field("S", b"a" * 501), False),
    ],
)
def test_ids_are_compared_by_value(one: Field, other: Field, same: bool) -> None:
    assert (key_of(one) == key_of(other)) is same


def test_long_ids_take_no_more_room() -> None:
    assert len(key_of(Field("S", b"a" * 10_000))) <= KEY_BYTES_MAX


_STEPS = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"c", b"d", b"e"]),
        st.integers(min_value=0, max_value=30),
        st.none() | st.integers(min_value=1, max_value=60),
    ),
    max_size=60,
)


@given(
    steps=_STEPS,
    size_max=st.none() | st.integers(min_value=1, max_value=4),
    ttl_ms=st.none() | st.integers(min_value=1, max_value=60),
)
def test_a_window_is_the_newest_ids_whose_time_is_not_up(
    steps: list[tuple[bytes, int, int | None]], size_max: int | None, ttl_ms: int | None
) -> None:
    """Against a list of (id, end) in the order they came, looked through from the start."""
    gone: list[Remembered] = []
    window = Window(size_max, ttl_ms, gone.append)
    model: list[tuple[bytes, float]] = []
    added = 0
    now_ms = 1
    for key, passed_ms, own_ms in steps:
        now_ms += passed_ms
        known = any(each == key and now_ms < end for each, end in model)
        assert (window.find(key, now_ms) is not None) is known
        if known:
            continue
        life_ms = ttl_ms if own_ms is None else own_ms
        window.add(key, now_ms, own_ms)
        added += 1
        model = [pair for pair in model if pair[0] != key]
        model.append((key, float("inf") if life_ms is None else now_ms + life_ms))
        while len(model) > 1 and (
            now_ms >= model[0][1] or (size_max is not None and len(model) > size_max)
        ):
            model.pop(0)
        assert [entry.key for entry in window.entries()] == [each for each, _ in model]
    assert added == len(window) + len(gone)


def test_ids_that_go_before_older_ones_leave_no_trace() -> None:
    """The oldest may stay for ever: what has gone behind it must not add up."""
    window = Window(None, None)
    oldest = window.add(b"oldest", 0)
    for number in range(10 * GONE_IDS_MIN):
        window.forget(window.add(b"%d" % number, 0))
        assert len(window._order) <= GONE_IDS_MIN + 3
    newest = window.add(b"newest", 0)
    assert window.entries() == [oldest, newest]
