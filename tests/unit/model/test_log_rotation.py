"""Log rotation: times at which a new file is begun, sizes, and a disk that refuses lines."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from warren.model.log_rotation import RotatingLog, period_of, rotation_time

LINE = "twenty bytes of text"
NOW = datetime.now(UTC).astimezone()


def record_at(moment: datetime, text: str = LINE) -> logging.LogRecord:
    record = logging.LogRecord("warren.x", logging.INFO, "", 0, text, (), None)
    record.created = moment.timestamp()
    return record


@pytest.mark.parametrize("time", ["", "$D0", "$D23", "$H0", "$H59", "$W0D23", "$W6D0", "$M28D6"])
def test_times_of_rabbitmq_are_read(time: str) -> None:
    assert rotation_time(time) == time


@pytest.mark.parametrize("time", ["D0", "$D24", "$H60", "$W7D0", "$M0D0", "$M29D0", "$", "daily"])
def test_other_times_are_refused_with_an_example(time: str) -> None:
    with pytest.raises(ValueError, match=r"such as \$D0"):
        rotation_time(time)


@pytest.mark.parametrize(
    ("time", "before", "after"),
    [
        ("$D0", "2026-08-15 23:59:59", "2026-08-16 00:00:00"),
        ("$D16", "2026-08-15 15:59:59", "2026-08-15 16:00:00"),
        ("$H30", "2026-08-15 12:29:59", "2026-08-15 12:30:00"),
        ("$W5D16", "2026-08-14 15:59:59", "2026-08-14 16:00:00"),  # a Friday
        ("$W0D0", "2026-08-15 23:59:59", "2026-08-16 00:00:00"),  # a Sunday
        ("$M1D0", "2026-08-31 23:59:59", "2026-09-01 00:00:00"),
    ],
)
def test_a_period_begins_at_its_time_and_not_a_second_before(
    time: str, before: str, after: str
) -> None:
    first, second = (datetime.fromisoformat(text) for text in (before, after))
    assert period_of(time, first) != period_of(time, second)
    assert period_of(time, first) == period_of(time, first.replace(second=0))
    assert period_of(time, second) == period_of(time, second.replace(second=59))


def test_the_first_line_of_another_day_begins_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = RotatingLog(path, 0, 3, "$D0")
    today = NOW.replace(hour=12)
    log.emit(record_at(today, "one"))
    log.emit(record_at(today.replace(year=today.year + 1), "two"))
    log.close()
    assert path.read_text() == "two\n"
    assert (tmp_path / "a.log.1").read_text() == "one\n"


def test_files_are_bounded_by_size_and_number(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "a.log", 50, 2, "")
    for _ in range(20):
        log.emit(record_at(NOW))
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "a.log.1", "a.log.2"]
    assert all(path.stat().st_size <= 50 for path in tmp_path.iterdir())


def test_a_disk_that_refuses_lines_is_reported_once_and_again_after_it_took_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = RotatingLog(tmp_path / "a.log", 0, 2, "")

    def write(path: str) -> None:
        with suppress(OSError):
            log.close()
        log.stream = open(path, "a")  # noqa: SIM115
        log.emit(record_at(NOW))

    for path, reports in (("/dev/full", 1), ("/dev/full", 0), ("/dev/null", 0), ("/dev/full", 1)):
        write(path)
        assert capsys.readouterr().err.count("cannot be written: [Errno 28]") == reports, path
    with suppress(OSError):
        log.close()
