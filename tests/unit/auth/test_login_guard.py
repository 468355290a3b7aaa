"""Guessing passwords gets slow: counted per address and user, and per address."""

from __future__ import annotations

import tracemalloc

import pytest

from manual_clock import ManualClock
from warren.auth.login_guard import (
    REMEMBERED_MAX,
    USER_NAME_BYTES_MAX,
    USERS_PER_ADDRESS,
    WINDOW_MS,
    LoginGuard,
    TooManyFailures,
)
from warren.model.errors import LoginRefused

HERE, THERE = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def guard(clock: ManualClock) -> LoginGuard:
    return LoginGuard(clock, failures_max=3)


def fail(guard: LoginGuard, address: str, user: str, times: int) -> None:
    for _ in range(times):
        guard.require_room(address, user)
        guard.failed(address, user)


def test_after_so_many_failures_an_address_has_to_wait_and_is_told_how_long(
    guard: LoginGuard, clock: ManualClock
) -> None:
    fail(guard, HERE, "alice", 3)
    clock.advance(WINDOW_MS - 1_500)
    with pytest.raises(TooManyFailures, match=r"user 'alice' - .* 192\.0\.2\.1; .* in 2 s") as late:
        guard.require_room(HERE, "alice")
    assert late.value.wait_s == 2


def test_when_the_time_is_over_it_may_fail_again(guard: LoginGuard, clock: ManualClock) -> None:
    fail(guard, HERE, "alice", 3)
    clock.advance(WINDOW_MS)
    fail(guard, HERE, "alice", 3)


def test_others_are_not_held_off_neither_users_nor_addresses(guard: LoginGuard) -> None:
    fail(guard, HERE, "alice", 3)
    guard.require_room(HERE, "bob")
    guard.require_room(THERE, "alice")


def test_a_login_that_succeeds_makes_up_for_failures(guard: LoginGuard) -> None:
    fail(guard, HERE, "alice", 2)
    guard.succeeded(HERE, "alice")
    fail(guard, HERE, "alice", 3)


def test_trying_one_password_with_many_users_ends_too(guard: LoginGuard) -> None:
    for number in range(3 * USERS_PER_ADDRESS):
        fail(guard, HERE, f"user{number}", 1)
    with pytest.raises(TooManyFailures, match=r"^too many failed logins from 192"):
        guard.require_room(HERE, "somebody else")
    guard.require_room(THERE, "somebody else")


def test_who_has_logged_in_from_an_address_is_not_held_off_for_the_failures_of_others(
    guard: LoginGuard,
) -> None:
    guard.succeeded(HERE, "alice")
    for number in range(3 * USERS_PER_ADDRESS):
        fail(guard, HERE, f"user{number}", 1)
    fail(guard, HERE, "alice", 3)
    with pytest.raises(TooManyFailures, match="user 'alice'"):
        guard.require_room(HERE, "alice")


def test_no_limit_is_no_limit(clock: ManualClock) -> None:
    fail(LoginGuard(clock, failures_max=0), HERE, "alice", 1_000)


def test_no_more_are_remembered_than_there_is_room_for(guard: LoginGuard) -> None:
    for number in range(REMEMBERED_MAX + 10):
        guard.failed(f"address {number}", "alice")
    assert len(guard) == REMEMBERED_MAX


def test_entries_that_are_over_are_removed_with_the_next_failure(
    guard: LoginGuard, clock: ManualClock
) -> None:
    for number in range(100):
        guard.failed(f"address {number}", "alice")
    clock.advance(WINDOW_MS)
    guard.failed(HERE, "bob")
    assert len(guard) == 2, "for the user and for the address"


def test_a_failure_costs_the_same_memory_however_long_the_name_was(guard: LoginGuard) -> None:
    tracemalloc.start()
    for number in range(100):
        guard.failed(f"address {number}", f"{number}" + "b" * 100_000)
    kept, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 200_000


def test_a_name_that_no_user_can_have_is_refused_unseen(guard: LoginGuard) -> None:
    guard.require_room(HERE, "b" * USER_NAME_BYTES_MAX)
    with pytest.raises(LoginRefused, match=r"longer than 255 bytes") as refused:
        guard.require_room(HERE, "b" * (USER_NAME_BYTES_MAX + 1))
    assert len(str(refused.value)) < 200, "the log is spared the name"
