"""Log lines of a test, with the facts of each event, as an operator reads them."""

from __future__ import annotations

from typing import Final

import pytest

from warren.model.logs import LineFormatter

_FORMATTER: Final = LineFormatter()


def log_lines(caplog: pytest.LogCaptureFixture) -> str:
    """Return all records of `caplog` as the broker writes them: one line each, with key=value."""
    return "\n".join(_FORMATTER.format(record) for record in caplog.records)
