"""The tail of the node's log: its last lines, kept in memory for those who ask over HTTP."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from warren.model.logs import LineFormatter

LINES_MAX: Final = 2_000


class LogTail(logging.Handler):
    """A handler of logs that keeps the last lines, numbered from 1 on."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LineFormatter())
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))
        self.count += 1

    def last(self, number: int) -> list[str]:
        return list(self._lines)[-number:] if number > 0 else []

    def after(self, count: int) -> list[str]:
        """Lines that came after so many; the oldest of these may be forgotten already."""
        return self.last(min(max(0, self.count - count), LINES_MAX))


TAIL: Final = LogTail()


def keep_log_tail() -> None:
    """Keep what is logged from now on; once for all nodes of a process."""
    logger = logging.getLogger("warren")
    if TAIL not in logger.handlers:
        logger.addHandler(TAIL)
