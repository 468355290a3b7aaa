"""Log rotation: a log file that is set aside when it is large enough, or at given times.

Times are written as RabbitMQ writes them:

    $D0      every day at 0:00           $H30     every hour at minute 30
    $W5D16   every Friday at 16:00       $M1D0    on the first day of every month at 0:00

A time is taken as the beginning of a period (`period_of`): a new file is begun with the first line
of another period than that of the last line, also after a restart. So no timer is needed, and a
broker with nothing to say makes no empty files.
"""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime, timedelta
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

EVERY_MIDNIGHT: Final = "$D0"
_TIME: Final = re.compile(
    r"\$(?:H(?P<minute>\d{1,2})|(?:W(?P<week>\d)|M(?P<month>\d{1,2}))?D(?P<hour>\d{1,2}))"
)
_HIGHEST: Final = {"minute": 59, "week": 6, "month": 28, "hour": 23}
_MONTH_LOWEST: Final = 1


def rotation_time(value: str) -> str:
    """Read a time of rotation; an empty one is none. Raises ValueError."""
    match = _TIME.fullmatch(value)
    parts = {} if match is None else {k: int(v) for k, v in match.groupdict().items() if v}
    is_right = match is not None and all(n <= _HIGHEST[name] for name, n in parts.items())
    if value and (not is_right or parts.get("month", _MONTH_LOWEST) < _MONTH_LOWEST):
        raise ValueError(f"expected a time such as $D0, $H30, $W5D16 or $M1D0, got '{value}'")
    return value


def period_of(time: str, moment: datetime) -> tuple[int, ...]:
    """Return what is the same for all moments between two rotations, and different across one."""
    match = _TIME.fullmatch(time)
    if match is None:
        return ()
    minute, week, month, hour = (int(match[n] or 0) for n in ("minute", "week", "month", "hour"))
    if match["minute"] is not None:
        begun = moment - timedelta(minutes=minute)
        return (begun.year, begun.month, begun.day, begun.hour)
    begun = moment - timedelta(hours=hour)
    if match["month"] is not None:
        begun -= timedelta(days=month - 1)
        return (begun.year, begun.month)
    if match["week"] is not None:
        # Sunday is day 0 for RabbitMQ, and day 1 of the first week of the calendar was a Monday.
        return ((begun.toordinal() - week) // 7,)
    return (begun.toordinal(),)


class RotatingLog(RotatingFileHandler):
    """A handler of logs that writes to a file and sets it aside. Older files get numbers.

    A disk that refuses a line must not end the broker, nor fill standard error: it is said once.
    """

    def __init__(self, path: Path, bytes_max: int, count: int, time: str) -> None:
        super().__init__(path, maxBytes=bytes_max, backupCount=count, encoding="utf-8")
        self._time = time
        self._period = self._period_at(path.stat().st_mtime)
        self._is_refused = self._has_failed = False

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802
        period = self._period_at(record.created)
        is_next, self._period = period != self._period, period
        return is_next or bool(super().shouldRollover(record))

    def emit(self, record: logging.LogRecord) -> None:
        self._has_failed = False
        super().emit(record)
        self._is_refused = self._has_failed

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        self._has_failed = True
        if not self._is_refused:
            refusal = f"the log file {self.baseFilename} cannot be written: {sys.exc_info()[1]}"
            sys.stderr.write(f"{refusal}\n")

    def _period_at(self, time_s: float) -> tuple[int, ...]:
        moment = datetime.fromtimestamp(time_s, UTC).astimezone()
        return period_of(self._time, moment)
