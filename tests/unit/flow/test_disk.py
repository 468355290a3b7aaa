from __future__ import annotations

import pytest

from manual_clock import ManualClock
from warren.flow.alarms import AlarmBoard, Resource
from warren.flow.disk import (
    RETRIES_MAX,
    RETRY_INTERVAL_MS,
    DiskMonitor,
    check_interval_ms,
    disk_limit_bytes,
)
from warren.flow.units import Absolute, Relative

NODE = "warren@here"
MB = 1_000_000


class Partition:
    def __init__(self, free: int) -> None:
        self.free = free
        self.is_broken = False

    def __call__(self) -> int:
        if self.is_broken:
            raise OSError("the device does not answer")
        return self.free


def monitored(free: int, limit: int = 50 * MB) -> tuple[DiskMonitor, Partition, AlarmBoard]:
    board, partition = AlarmBoard(ManualClock()), Partition(free)
    monitor = DiskMonitor(board, NODE, partition)
    monitor.set_limit(Absolute(limit), 0)
    return monitor, partition, board


def test_the_alarm_is_set_below_the_limit_and_cleared_at_it() -> None:
    monitor, partition, board = monitored(50 * MB)
    assert not monitor.check()
    partition.free = 50 * MB - 1
    assert monitor.check()
    assert board.is_set(NODE, Resource.DISK)
    assert not monitor.check()
    partition.free = 50 * MB
    assert monitor.check()
    assert not monitor.is_alarmed


def test_a_limit_may_be_a_share_of_the_memory() -> None:
    assert disk_limit_bytes(Relative(1.5), 1001) == 1502
    assert disk_limit_bytes(Absolute(7), 1001) == 7


@pytest.mark.parametrize(
    ("room", "interval_ms"),
    [
        (0, 100),
        (12 * MB, 100),
        (125 * MB, 1_000),
        (1_000 * MB, 8_000),
        (1_250 * MB, 10_000),
        (10**15, 10_000),
    ],
)
def test_the_next_look_comes_before_a_fast_writer_could_pass_the_limit(
    room: int, interval_ms: int
) -> None:
    assert check_interval_ms(room) == interval_ms


def test_with_the_alarm_set_looking_takes_its_time() -> None:
    monitor, _, _ = monitored(free=1)
    monitor.check()
    assert monitor.next_check_ms == 10_000


def test_without_it_looks_come_by_the_room_that_is_left() -> None:
    monitor, _, _ = monitored(free=175 * MB)
    monitor.check()
    assert monitor.next_check_ms == 1_000


def test_a_disk_that_does_not_answer_is_asked_again_and_then_left_alone() -> None:
    monitor, partition, _ = monitored(free=1)
    partition.is_broken = True
    for _ in range(RETRIES_MAX):
        assert not monitor.check()
        assert monitor.next_check_ms == RETRY_INTERVAL_MS
        assert not monitor.is_off
    monitor.check()
    assert monitor.is_off
    assert not monitor.is_alarmed
    assert str(monitor.failure) == "the device does not answer"


def test_a_disk_that_answers_again_is_watched_as_before() -> None:
    monitor, partition, _ = monitored(free=1)
    partition.is_broken = True
    for _ in range(RETRIES_MAX):
        monitor.check()
    partition.is_broken = False
    assert monitor.check()
    assert monitor.is_alarmed
    assert (monitor.failure, monitor.failures) == (None, 0)
