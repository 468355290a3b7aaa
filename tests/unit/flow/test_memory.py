from __future__ import annotations

import pytest

from manual_clock import ManualClock
from warren.flow.alarms import AlarmBoard
from warren.flow.memory import (
    MemoryMonitor,
    cgroup_limit,
    cgroup_limit_files,
    installed_bytes,
    resident_bytes,
    usable_bytes,
    watermark_bytes,
)
from warren.flow.units import Absolute, Amount, Relative

GIB = 1024**3
NODE = "warren@here"


class Meter:
    def __init__(self) -> None:
        self.used = 0
        self.spare = 0

    def read(self) -> int:
        return self.used + self.spare

    def give_back(self) -> None:
        self.spare = 0


def monitored(meter: Meter) -> MemoryMonitor:
    board = AlarmBoard(ManualClock())
    return MemoryMonitor(board, NODE, 10 * GIB, meter.read, meter.give_back)


@pytest.mark.parametrize(
    ("watermark", "limit"),
    [
        (Relative(0.4), int(0.4 * 10 * GIB)),
        (Relative(0.0), 0),
        (Relative(1.0), 10 * GIB),
        (Relative(2.5), 10 * GIB),
        (Absolute(GIB), GIB),
        (Absolute(11 * GIB), 10 * GIB),
    ],
)
def test_the_limit_is_never_more_than_there_is(watermark: Amount, limit: int) -> None:
    assert watermark_bytes(watermark, 10 * GIB) == limit


def test_the_alarm_is_set_above_the_limit_and_cleared_at_it() -> None:
    meter = Meter()
    monitor = monitored(meter)
    monitor.set_watermark(Absolute(GIB))
    meter.used = GIB
    assert not monitor.check()
    assert not monitor.is_alarmed
    meter.used = GIB + 1
    assert monitor.check()
    assert monitor.is_alarmed
    assert not monitor.check()
    meter.used = GIB
    assert monitor.check()
    assert not monitor.is_alarmed


def test_a_watermark_of_nothing_is_always_passed() -> None:
    meter = Meter()
    monitor = monitored(meter)
    monitor.set_watermark(Relative(0))
    meter.used = 1
    assert monitor.check()


def test_what_the_allocator_can_spare_does_not_count() -> None:
    meter = Meter()
    monitor = monitored(meter)
    monitor.set_watermark(Absolute(GIB))
    meter.used, meter.spare = GIB - 1, GIB
    assert not monitor.check()
    assert monitor.used_bytes == GIB - 1
    meter.used = GIB + 1
    monitor.check()
    meter.used, meter.spare = 1, 2 * GIB
    assert monitor.check()
    assert not monitor.is_alarmed


def test_the_allocator_is_left_alone_while_there_is_enough() -> None:
    meter = Meter()
    monitor = monitored(meter)
    meter.spare = GIB
    monitor.check()
    assert monitor.used_bytes == GIB


def test_paging_begins_at_a_share_of_the_limit() -> None:
    monitor = monitored(Meter())
    monitor.set_watermark(Absolute(GIB))
    assert monitor.paging_bytes == GIB // 2
    monitor.paging_ratio = 0.75
    assert monitor.paging_bytes == 3 * GIB // 4


def test_resident_memory_is_the_second_number_in_pages() -> None:
    assert resident_bytes("2290 1534 1125 7 0 354 0\n", 4096) == 1534 * 4096


def test_installed_memory_is_in_kibibytes() -> None:
    meminfo = "MemTotal:       24682068 kB\nMemFree:         20507448 kB\n"
    assert installed_bytes(meminfo) == 24_682_068 * 1024
    assert installed_bytes("") is None


def test_limits_of_version_1_are_looked_for_on_every_level() -> None:
    own = "12:cpu,cpuacct:/docker/abc\n5:memory:/docker/abc\n1:name=systemd:/docker/abc\n"
    assert cgroup_limit_files(own) == [
        "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]


def test_limits_of_version_2_are_looked_for_on_every_level() -> None:
    files = cgroup_limit_files("0::/system.slice/warren.service\n")
    assert files[:3] == [
        "/sys/fs/cgroup/system.slice/warren.service/memory.max",
        "/sys/fs/cgroup/system.slice/memory.max",
        "/sys/fs/cgroup/memory.max",
    ]
    assert "/sys/fs/cgroup/unified/system.slice/warren.service/memory.max" in files


def test_in_a_namespace_of_its_own_a_group_is_the_root() -> None:
    assert "/sys/fs/cgroup/memory.max" in cgroup_limit_files("0::/\n")


def test_no_control_groups_means_nothing_to_look_for() -> None:
    assert cgroup_limit_files("") == []


@pytest.mark.parametrize(
    ("content", "limit"),
    [
        ("536870912\n", 536_870_912),
        ("max\n", None),
        ("9223372036854771712\n", None),
        ("", None),
        ("-1\n", None),
    ],
)
def test_a_limit_may_be_none(content: str, limit: int | None) -> None:
    assert cgroup_limit(content) == limit


def test_the_lowest_of_what_is_known_counts() -> None:
    assert usable_bytes(8 * GIB, [None, 2 * GIB, 4 * GIB]) == 2 * GIB
    assert usable_bytes(GIB, [None, 2 * GIB]) == GIB
    assert usable_bytes(None, [2 * GIB]) == 2 * GIB
    assert usable_bytes(None, [None]) is None


def test_c122_paging_begins_at_its_share_of_the_limit_and_never_with_a_ratio_above_one() -> None:
    monitor = monitored(Meter())
    monitor.set_watermark(Absolute(GIB))
    monitor.paging_ratio = 1.0
    assert monitor.paging_bytes == GIB
    monitor.paging_ratio = 1.01
    assert monitor.paging_bytes > 1_000 * monitor.total_bytes
