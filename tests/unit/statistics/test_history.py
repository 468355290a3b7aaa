"""Samples of the past."""

from __future__ import annotations

from warren.statistics.history import RETENTION_S, History

DAY_S = 86_400


def fill(history: History, seconds: int) -> int:
    """One sample each five seconds whose value is its time in seconds; returns the end in ms."""
    for second in range(0, seconds + 1, 5):
        history.add(1000 * second, {"publish": second})
    return 1000 * seconds


def test_recent_samples_are_as_close_as_they_were_taken() -> None:
    history = History()
    now_ms = fill(history, 300)
    samples = history.samples("publish", now_ms, age_s=60, increment_s=5)
    assert [sample.value for sample in samples] == [300 - 5 * n for n in range(13)]


def test_older_ones_are_further_apart_and_still_right() -> None:
    history = History()
    now_ms = fill(history, 2 * DAY_S)
    samples = history.samples("publish", now_ms, age_s=DAY_S, increment_s=1_800)
    assert len(samples) >= 47
    for sample in samples:
        assert abs(sample.timestamp_ms / 1000 - sample.value) <= 1_800


def test_nothing_is_made_up_for_the_time_before_the_first_sample() -> None:
    history = History()
    now_ms = fill(history, 20)
    assert len(history.samples("publish", now_ms, age_s=600, increment_s=5)) == 5
    assert History().samples("publish", now_ms, 60, 5) == []


def test_what_is_kept_is_bounded() -> None:
    history = History()
    fill(history, 3 * DAY_S)
    kept = sum(len(level) for level in history._levels)
    assert kept <= sum(kept_s // interval_s for interval_s, kept_s in RETENTION_S)


def test_a_figure_that_nobody_sampled_has_no_samples() -> None:
    history = History()
    now_ms = fill(history, 10)
    assert history.samples("unheard_of", now_ms, 10, 5) == []


def test_what_was_told_of_the_past_is_told_again_whenever_it_is_asked() -> None:
    history = History()
    told: dict[int, int] = {}
    for second in range(0, 900, 5):
        history.add(1000 * second + 1_234, {"publish": second})
        now_ms = 1000 * second + 3_000 + second % 7
        samples = history.samples("publish", now_ms, age_s=300, increment_s=30)
        for sample in samples[1:]:
            assert sample.timestamp_ms % 30_000 == 0
            assert told.setdefault(sample.timestamp_ms, sample.value) == sample.value
    assert len(told) == 29


def test_time_without_samples_is_a_gap() -> None:
    history = History()
    for second in (*range(0, 60, 5), *range(120, 180, 5)):
        history.add(1000 * second, {"publish": second})
    samples = history.samples("publish", 175_000, age_s=600, increment_s=5)
    told = sorted(sample.timestamp_ms // 1000 for sample in samples)
    assert told == [*range(0, 65, 5), *range(120, 180, 5)]
