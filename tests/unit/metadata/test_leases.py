"""Leases on a clock of their own: who is kept alive lives, and standing still is not dying."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from warren.metadata import leases
from warren.metadata.leases import LeaseBook
from warren.metadata.store import Lease, LeaseLost, MetadataUnavailable


class FakeTimer:
    def __init__(self, when: float, lease: Lease) -> None:
        self.when = when
        self.lease = lease
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeTimers:
    """A loop's clock that moves when told; `report_retained` moves it without firing anything."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[tuple[FakeTimer, Callable[[Lease], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[Lease], None], lease: Lease) -> FakeTimer:
        timer = FakeTimer(when, lease)
        self.timers.append((timer, callback))
        return timer

    def pending(self) -> list[FakeTimer]:
        return [timer for timer, _ in self.timers if not timer.is_cancelled]

    def report_retained(self, seconds: float) -> None:
        self.now += seconds

    def advance(self, seconds: float) -> None:
        """In small steps, as a loop with nothing else to do would wake up."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 0.1)
            self.fire()

    def fire(self) -> None:
        due = [pair for pair in self.timers if pair[0].when <= self.now]
        self.timers = [pair for pair in self.timers if pair[0].when > self.now]
        for timer, callback in due:
            if not timer.is_cancelled:
                callback(timer.lease)


@pytest.fixture
def timers() -> FakeTimers:
    return FakeTimers()


@pytest.fixture
def ended() -> list[Lease]:
    return []


@pytest.fixture
def book(timers: FakeTimers, ended: list[Lease]) -> LeaseBook:
    def end(lease: Lease) -> None:
        ended.append(lease)
        assert book.end(lease)

    book = LeaseBook(timers, end)
    return book


def test_a_lease_ends_after_its_time(
    book: LeaseBook, timers: FakeTimers, ended: list[Lease]
) -> None:
    lease = book.grant(10)
    timers.advance(9.8)
    assert ended == []
    timers.advance(0.4)
    assert ended == [lease]
    with pytest.raises(LeaseLost):
        book.keep_alive(lease)


def test_each_sign_of_life_starts_the_time_anew(
    book: LeaseBook, timers: FakeTimers, ended: list[Lease]
) -> None:
    lease = book.grant(10)
    for _ in range(5):
        timers.advance(9)
        book.keep_alive(lease)
    assert ended == []
    timers.advance(9.8)
    assert ended == [], "never early"
    timers.advance(3)
    assert ended == [lease], "and not much late"


def test_a_process_that_stood_still_has_not_lost_its_holder(
    book: LeaseBook, timers: FakeTimers, ended: list[Lease]
) -> None:
    lease = book.grant(10)
    timers.advance(5)
    timers.report_retained(3600)
    timers.fire()
    assert ended == [], "the holder could not speak either"
    book.keep_alive(lease)
    timers.advance(9)
    assert ended == []


def test_a_holder_that_hangs_in_a_living_process_loses_its_lease(
    book: LeaseBook, timers: FakeTimers, ended: list[Lease]
) -> None:
    lease = book.grant(10)
    timers.report_retained(3600)
    timers.fire()
    timers.advance(5)
    assert ended == [lease], "it was given its chance to speak"


def test_an_ended_lease_leaves_no_timer(book: LeaseBook, timers: FakeTimers) -> None:
    first, second = book.grant(10), book.grant(10)
    assert first.id != second.id != 0
    assert book.end(first)
    assert not book.end(first)
    assert [timer.lease for timer in timers.pending()] == [second]
    book.stop()
    assert timers.pending() == []


def test_leases_have_a_bound(book: LeaseBook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LEASES_MAX", 2)
    book.grant(1)
    book.grant(1)
    with pytest.raises(MetadataUnavailable):
        book.grant(1)


@pytest.mark.parametrize("ttl_s", [0, -1])
def test_a_lease_lives_for_some_time(book: LeaseBook, ttl_s: float) -> None:
    with pytest.raises(ValueError, match="some time"):
        book.grant(ttl_s)
