"""How much of a synchronisation goes in a batch, and how long to wait after it."""

from __future__ import annotations

import pytest

from warren.replication.classic.sync_pace import Throttle, is_batch_due, pause_ms


@pytest.mark.parametrize(
    ("count", "sent_bytes", "bytes_per_s", "is_due"),
    [
        (4096, 0, 0, True),
        (4095, 1 << 30, 0, False),
        (1, 2001, 2000, True),
        (1, 2000, 2000, False),
        (4096, 1, 2000, True),
    ],
)
def test_a_batch_is_complete_by_messages_or_by_bytes(
    count: int, sent_bytes: int, bytes_per_s: int, is_due: bool
) -> None:
    """5-08; at the end of the queue whatever there is goes out."""
    assert is_batch_due(count, 4096, sent_bytes, bytes_per_s) is is_due


@pytest.mark.parametrize(("bytes_per_s", "pause"), [(100, 0), (200, 0), (50, 1000), (0, 0)])
def test_a_hundred_bytes_in_a_second(bytes_per_s: int, pause: int) -> None:
    """5-09."""
    assert pause_ms(100, 1000, bytes_per_s) == pause


def test_the_throughput_is_looked_at_every_50_ms() -> None:
    throttle = Throttle(1000)
    assert throttle.sent(100, 1000, 1010) == 0
    assert throttle.sent(100, 1000, 1050) == 150
    assert throttle.sent(100, 1000, 1210) == 0
    assert throttle.sent(100, 1000, 1300) == 100


def test_more_than_a_second_is_worth_is_waited_for_at_once() -> None:
    assert Throttle(0).sent(2001, 1000, 1) == 2000


def test_without_a_limit_there_is_no_pause() -> None:
    throttle = Throttle(0)
    assert throttle.sent(1 << 40, 0, 100) == 0
