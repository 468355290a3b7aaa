"""The node's alarms over time: what is looked at when, and what the log says."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from manual_clock import ManualClock
from warren.config.settings import Config
from warren.flow.alarms import AlarmBoard, Resource
from warren.flow.units import Absolute, Relative
from warren.model.logs import configure_logs
from warren.server import machine
from warren.server.alarms import NodeAlarms

GIB = 1024**3
UNTIL_CLEAR = "Publishers will be blocked until this alarm clears"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure_logs(stream=stream)
    yield stream
    logging.getLogger("warren").handlers.clear()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What the machine says, to be changed by the test."""
    readings = {"used": 100, "free": 10 * GIB, "total": 1_000}
    monkeypatch.setattr(machine, "memory_used", lambda: readings["used"])
    monkeypatch.setattr(machine, "memory_total", lambda: readings["total"])
    monkeypatch.setattr(machine, "disk_free", lambda _path: readings["free"])
    return readings


def started(clock: ManualClock, **settings: object) -> NodeAlarms:
    config = Config(name="warren@test", data_dir=Path("here"), **settings)  # type: ignore[arg-type]
    alarms = NodeAlarms(config, AlarmBoard(clock), clock)
    alarms.start()
    return alarms


def events(log: io.StringIO) -> list[str]:
    return [line.partition("] ")[2] for line in log.getvalue().splitlines()]


def test_the_defaults_are_rabbitmqs(clock: ManualClock, readings: dict[str, int]) -> None:
    alarms = started(clock)
    assert alarms.memory.limit_bytes == 400
    assert alarms.memory.paging_bytes == 200
    assert alarms.disk.limit_bytes == 50_000_000
    assert alarms.board.alarms == []


def test_memory_is_looked_at_every_second(
    clock: ManualClock, readings: dict[str, int], log: io.StringIO
) -> None:
    alarms = started(clock)
    readings["used"] = 401
    clock.advance(999)
    assert not alarms.memory.is_alarmed
    clock.advance(1)
    assert alarms.memory.is_alarmed
    readings["used"] = 400
    clock.advance(1_000)
    assert not alarms.memory.is_alarmed
    assert events(log) == [
        f"memory resource limit alarm set on node warren@test. {UNTIL_CLEAR}",
        "vm_memory_high_watermark set used_bytes=401 allowed_bytes=400",
        "memory resource limit alarm cleared on node warren@test",
        "memory resource limit alarm cleared across the cluster",
        "vm_memory_high_watermark clear used_bytes=400 allowed_bytes=400",
    ]


def test_the_disk_is_looked_at_more_often_the_less_is_free(
    clock: ManualClock, readings: dict[str, int], log: io.StringIO
) -> None:
    alarms = started(clock, disk_free_limit_bytes=GIB)
    readings["free"] = GIB + 25_000_000
    clock.advance(10_000)
    readings["free"] = GIB - 1
    clock.advance(199)
    assert not alarms.disk.is_alarmed
    clock.advance(1)
    assert alarms.disk.is_alarmed
    assert events(log)[-1] == (
        f"free disk space is insufficient free_bytes={GIB - 1} limit_bytes={GIB}"
    )


def test_a_watermark_set_at_run_time_counts_at_once(
    clock: ManualClock, readings: dict[str, int]
) -> None:
    alarms = started(clock)
    alarms.set_memory_watermark(Relative(0))
    assert alarms.board.resources == {Resource.MEMORY}
    alarms.set_memory_watermark(Absolute(100))
    assert alarms.board.resources == frozenset()


def test_a_disk_limit_set_at_run_time_counts_at_once(
    clock: ManualClock, readings: dict[str, int]
) -> None:
    alarms = started(clock)
    alarms.set_disk_free_limit(Absolute(10 * GIB + 1))
    assert alarms.board.resources == {Resource.DISK}
    alarms.set_disk_free_limit(Relative(2.0))
    assert alarms.disk.limit_bytes == 2_000
    assert alarms.board.resources == frozenset()


def test_setting_it_does_not_make_it_be_looked_at_more_often(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, readings: dict[str, int]
) -> None:
    looks: list[int] = []

    def count() -> int:
        looks.append(clock.now_ms())
        return 0

    monkeypatch.setattr(machine, "memory_used", count)
    alarms = started(clock)
    alarms.set_memory_watermark(Relative(0.5))
    looks.clear()
    clock.advance(3_000)
    assert len(looks) == 3


def test_too_high_a_watermark_means_all_there_is(
    clock: ManualClock, readings: dict[str, int], log: io.StringIO
) -> None:
    alarms = started(clock, memory_watermark=1.5)
    assert alarms.memory.limit_bytes == 1_000
    assert events(log) == [
        "memory high watermark is above the allowed maximum watermark=1.5 used=1.0"
    ]


def test_memory_that_nobody_knows_is_taken_for_a_gibibyte(
    clock: ManualClock, readings: dict[str, int], monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    monkeypatch.setattr(machine, "memory_total", lambda: None)
    assert started(clock).memory.total_bytes == GIB
    assert events(log) == [f"total memory is unknown assumed_bytes={GIB}"]


def test_the_total_can_be_given(clock: ManualClock, readings: dict[str, int]) -> None:
    assert started(clock, memory_total_override=500).memory.limit_bytes == 200


def test_a_disk_that_cannot_be_asked_is_named_in_the_log(
    clock: ManualClock, readings: dict[str, int], monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    def broken(_path: Path) -> int:
        raise OSError("stale file handle")

    monkeypatch.setattr(machine, "disk_free", broken)
    started(clock)
    clock.advance(120_000)
    assert events(log) == [
        f'free disk space cannot be read error="stale file handle" retries_left={left}'
        for left in (10, 9)
    ]


def test_nothing_is_looked_at_after_the_end(clock: ManualClock, readings: dict[str, int]) -> None:
    alarms = started(clock)
    alarms.stop()
    readings["used"] = readings["free"] = 10**6
    clock.advance(60_000)
    assert alarms.board.alarms == []


def test_this_machine_answers(tmp_path: Path) -> None:
    """The real readings, as far as anything can be said about them."""
    used, total = machine.memory_used(), machine.memory_total()
    assert total is not None
    assert 1_000_000 < used < total
    assert machine.disk_free(tmp_path) >= 0
    with pytest.raises(OSError, match="No such file"):
        machine.disk_free(tmp_path / "missing")


def test_freed_memory_is_given_back_to_the_machine() -> None:
    """In a process of its own, whose allocator nobody else has used."""
    done = subprocess.run(
        [sys.executable, "-c", EMPTIED_QUEUE], check=True, capture_output=True, text=True
    )
    before, after = map(int, done.stdout.split())
    assert before > 80_000_000
    assert after < before / 2


EMPTIED_QUEUE = """
from warren.server import machine
bodies = [bytes(4000) for _ in range(20_000)]
last = bytes(4000)
del bodies
print(machine.memory_used())
machine.Trimming()()
print(machine.memory_used())
"""


def test_c117_the_size_of_the_memory_is_read_again_with_a_new_watermark(
    clock: ManualClock, readings: dict[str, int], log: io.StringIO
) -> None:
    """A container may have been resized."""
    alarms = started(clock)
    readings["total"] = 2_000
    alarms.set_memory_watermark(Relative(0.4))
    assert (alarms.memory.total_bytes, alarms.memory.limit_bytes) == (2_000, 800)
    readings["total"] = 4_000
    alarms.set_disk_free_limit(Relative(1.5))
    assert alarms.disk.limit_bytes == 6_000
    assert "total memory has changed total_bytes=4000 before_bytes=2000" in events(log)


def test_c117_a_configured_size_of_the_memory_stays(
    clock: ManualClock, readings: dict[str, int]
) -> None:
    alarms = started(clock, memory_total_override=500)
    readings["total"] = 2_000
    alarms.set_memory_watermark(Relative(0.4))
    assert alarms.memory.limit_bytes == 200
