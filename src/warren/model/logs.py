"""Logs that a person can read and a program can split: one line per event, facts as key=value.

    2026-08-15 20:13:44.123 [info] connection opened peer=127.0.0.1:53412 user=guest vhost=/

Values with spaces or anything unprintable are quoted, so that no client can forge a line. Loggers
are named by category; `log.<category>.level` in the configuration sets what each lets through.

The same as JSON, for programs that collect logs (`log.console.formatter = json`):

    {"time": "2026-08-15T20:13:44.123+00:00", "level": "info", "msg": "connection opened",
     "domain": "connection", "peer": "127.0.0.1:53412", "user": "guest", "vhost": "/"}
"""

from __future__ import annotations

import json
import logging
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from typing import Final, TextIO, TypeAlias

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "none": logging.CRITICAL + 1,
}
LogOutput: TypeAlias = logging.Handler
_ROOT: Final = "warren"
# Libraries whose complaints belong into the same stream.
_LIBRARIES: Final = ("asyncio", "uvicorn.error")
_FIELD_CHARS_MAX: Final = 1000
TAIL_LINES_MAX: Final = 2_000


class EventLog:
    """Logger of one category: an event name in plain words, facts as keyword arguments."""

    __slots__ = ("_logger",)

    def __init__(self, category: str) -> None:
        self._logger = logging.getLogger(f"{_ROOT}.{category}")

    def debug(self, event: str, **facts: object) -> None:
        self._log(logging.DEBUG, event, facts)

    def info(self, event: str, **facts: object) -> None:
        self._log(logging.INFO, event, facts)

    def warning(self, event: str, **facts: object) -> None:
        self._log(logging.WARNING, event, facts)

    def error(self, event: str, **facts: object) -> None:
        self._log(logging.ERROR, event, facts)

    def exception(self, event: str, error: BaseException, **facts: object) -> None:
        """Log an error of the broker with its traceback, the only thing on lines of its own."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._logger.error(event, exc_info=error, extra={"facts": facts})

    def _log(self, level: int, event: str, facts: Mapping[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"facts": facts})


class LineFormatter(logging.Formatter):
    default_time_format = "%Y-%m-%d %H:%M:%S"
    default_msec_format = "%s.%03d"

    def format(self, record: logging.LogRecord) -> str:
        facts: Mapping[str, object] = getattr(record, "facts", {})
        words = [self.formatTime(record), f"[{record.levelname.lower()}]", record.getMessage()]
        words += (f"{key}={render_fact(value)}" for key, value in facts.items())
        line = " ".join(words)
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


class JsonFormatter(logging.Formatter):
    """Lines that are JSON objects, with RabbitMQ's names for time, level and message."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
            "domain": record.name.removeprefix(f"{_ROOT}."),
        }
        facts: Mapping[str, object] = getattr(record, "facts", {})
        for key, value in facts.items():
            is_plain = value is None or isinstance(value, bool | int | float)
            line.setdefault(
                key if key not in line else f"{key}_", value if is_plain else _cut(value)
            )
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _cut(value: object) -> str:
    text = str(value)
    return text if len(text) <= _FIELD_CHARS_MAX else text[:_FIELD_CHARS_MAX] + "..."


def render_fact(value: object) -> str:
    text = _cut(value)
    is_plain = text.isprintable() and text != "" and not any(char in text for char in ' "=')
    return text if is_plain else json.dumps(text, ensure_ascii=not text.isprintable())


def console_output(stream: TextIO | None = None) -> LogOutput:
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter())
    return handler


def configure_logs(
    level: str = "info",
    categories: Mapping[str, str] | None = None,
    stream: TextIO | None = None,
    outputs: Sequence[LogOutput] | None = None,
) -> None:
    """Send all logs to `outputs`, with a level for all and others for some categories.

    Without `outputs`, they go to `stream` (standard error).
    """
    handlers = [console_output(stream)] if outputs is None else [*outputs]
    for name in (_ROOT, *_LIBRARIES):
        logger = logging.getLogger(name)
        logger.handlers[:] = handlers
        logger.propagate = False
        logger.setLevel(LEVELS[level] if name == _ROOT else logging.WARNING)
    for category, category_level in (categories or {}).items():
        logging.getLogger(f"{_ROOT}.{category}").setLevel(LEVELS[category_level])


def set_log_level(level: str) -> None:
    """Set the level of all outputs, and of categories without one of their own, until the end."""
    logger = logging.getLogger(_ROOT)
    logger.setLevel(LEVELS[level])
    for output in logger.handlers:
        output.setLevel(LEVELS[level])


def rotate_log_files() -> int:
    """Begin new files in place of those that are written now; return how many."""
    files = [h for h in logging.getLogger(_ROOT).handlers if isinstance(h, RotatingFileHandler)]
    for file in files:
        file.acquire()
        try:
            file.doRollover()
        finally:
            file.release()
    return len(files)


class LogTail(logging.Handler):
    """A handler of logs that keeps the last lines, numbered from 1 on."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LineFormatter())
        self._lines: deque[str] = deque(maxlen=TAIL_LINES_MAX)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))
        self.count += 1

    def last(self, number: int) -> list[str]:
        return list(self._lines)[-number:] if number > 0 else []

    def after(self, count: int) -> list[str]:
        """Lines that came after so many; the oldest of these may be forgotten already."""
        return self.last(min(max(0, self.count - count), TAIL_LINES_MAX))


TAIL: Final = LogTail()


def keep_log_tail() -> None:
    """Keep what is logged from now on; once for all nodes of a process."""
    logger = logging.getLogger(_ROOT)
    if TAIL not in logger.handlers:
        logger.addHandler(TAIL)
