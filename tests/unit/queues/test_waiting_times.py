"""How long messages wait, told from marks of their arrival."""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from warren.queues.waiting_times import MARK_INTERVAL_MS, MARKS_MAX, WAIT_BUCKETS_MS, WaitingTimes


class Line:
    """A queue that remembers when each message came."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.arrivals: deque[int] = deque()
        self.times = WaitingTimes(self.now_ms, 0)

    def arrive(self, count: int, gap_ms: int = 0) -> None:
        for _ in range(count):
            self.times.arrive(self.now_ms, len(self.arrivals))
            self.arrivals.append(self.now_ms)
            self.now_ms += gap_ms

    def leave(self, count: int) -> None:
        left = [self.arrivals.popleft() for _ in range(min(count, len(self.arrivals)))]
        if left:
            self.times.leave(self.now_ms, len(self.arrivals), len(left))

    @property
    def told_ms(self) -> int:
        return self.times.age_ms(self.now_ms, len(self.arrivals))

    @property
    def true_ms(self) -> int:
        return self.now_ms - self.arrivals[0] if self.arrivals else 0


def test_an_empty_queue_has_no_head_to_be_old() -> None:
    line = Line()
    assert line.told_ms == 0
    line.arrive(3)
    line.leave(3)
    line.now_ms += 5_000
    assert line.told_ms == 0


def test_a_burst_is_as_old_as_its_moment_however_much_of_it_has_left() -> None:
    line = Line()
    line.arrive(1000)
    line.now_ms += 7_000
    line.leave(900)
    assert line.told_ms == 7_000


def test_what_comes_after_a_pause_is_not_taken_for_older() -> None:
    line = Line()
    line.arrive(1000)
    line.now_ms += 60_000
    line.arrive(1000)
    line.leave(999)
    assert line.told_ms == 60_000
    line.leave(1)
    assert line.told_ms == 0


def test_messages_from_before_the_start_count_from_the_start() -> None:
    times = WaitingTimes(500, 10)
    assert times.age_ms(2_500, 10) == 2_000


def test_one_that_was_handed_out_directly_and_came_back_counts_from_the_first_mark() -> None:
    times = WaitingTimes(500, 0)
    assert times.age_ms(900, 1) == 400


def test_those_that_leave_are_counted_in_the_bucket_of_their_wait() -> None:
    line = Line()
    line.arrive(10)
    line.now_ms += 300
    line.leave(4)
    line.now_ms += 4_000
    line.leave(6)
    expected = dict.fromkeys(WAIT_BUCKETS_MS, 0) | {500: 4, 5_000: 6}
    assert line.times.buckets == [*expected.values(), 0]
    assert line.times.left == 10
    assert line.times.waited_ms == 4 * 300 + 6 * 4_300


def test_a_wait_beyond_every_bucket_is_in_the_last() -> None:
    line = Line()
    line.arrive(1)
    line.now_ms += WAIT_BUCKETS_MS[-1] + 1
    line.leave(1)
    assert line.times.buckets[-1] == 1


steps = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(1, 200), st.integers(0, 50)),
        st.tuples(st.just("leave"), st.integers(1, 300), st.just(0)),
        st.tuples(st.just("pass"), st.integers(0, 100_000), st.just(0)),
    ),
    max_size=150,
)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_the_age_is_near_the_truth_whatever_happens(
    walk: list[tuple[str, int, int]],
) -> None:
    """Off by an interval between marks, which grows with the time that the marks span."""
    line = Line()
    for kind, amount, gap_ms in walk:
        if kind == "arrive":
            line.arrive(amount, gap_ms)
        elif kind == "leave":
            line.leave(amount)
        else:
            line.now_ms += amount
        span_ms = line.arrivals[-1] - line.arrivals[0] if line.arrivals else 0
        allowed_ms = 2 * MARK_INTERVAL_MS + 8 * span_ms // MARKS_MAX
        assert abs(line.told_ms - line.true_ms) <= allowed_ms


@settings(max_examples=50, deadline=None)
@given(steps)
def test_as_many_are_counted_as_have_left(walk: list[tuple[str, int, int]]) -> None:
    line = Line()
    entered = 0
    for kind, amount, gap_ms in walk:
        if kind == "arrive":
            line.arrive(amount, gap_ms)
            entered += amount
        elif kind == "leave":
            line.leave(amount)
    assert sum(line.times.buckets) == line.times.left == entered - len(line.arrivals)
    assert line.times.arrived == entered


def test_messages_of_an_earlier_life_are_as_old_as_the_head_was_known_to_be() -> None:
    """Those behind the head count as having come evenly since then."""
    now_ms = 1_000_000
    times = WaitingTimes(now_ms, 101)
    times.recall(now_ms - 60_000)
    assert times.age_ms(now_ms, 101) == 60_000
    assert times.age_ms(now_ms, 51) == 30_000
    times.arrive(now_ms + 500, 101)
    assert times.age_ms(now_ms + 500, 102) == 60_500
    assert times.age_ms(now_ms + 500, 1) == 0


def test_a_head_is_not_recalled_as_younger_than_it_is() -> None:
    times = WaitingTimes(1_000, 1)
    times.recall(5_000)
    assert times.age_ms(2_000, 1) == 1_000
