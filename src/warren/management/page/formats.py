"""Figures as people read them. Everything has one width for one kind, so that nothing jumps."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

# Between thousands: no line ends there.
_SPACE: Final = "\N{NARROW NO-BREAK SPACE}"
_NOTHING: Final = "\N{EN DASH}"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIMES: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_THOUSANDS: Final = ((1_000_000, "M"), (1000, "k"))


def count(value: Any) -> str:
    if not isinstance(value, int | float):
        return _NOTHING
    return f"{round(value):,}".replace(",", _SPACE)


def rate(value: Any) -> str:
    """Per second."""
    if not isinstance(value, int | float):
        return _NOTHING
    for size, letter in _THOUSANDS:
        if abs(value) >= 10 * size:
            return f"{value / size:.1f}{_SPACE}{letter}/s"
    if value and abs(value) < 10:
        return f"{value:.1f}/s"
    return f"{count(value)}/s"


def size(value: Any) -> str:
    if not isinstance(value, int | float):
        return _NOTHING
    amount = float(value)
    for unit in _UNITS:
        if abs(amount) < 1024 or unit == _UNITS[-1]:
            digits = 0 if unit == "B" or amount >= 100 else 1
            return f"{amount:.{digits}f}{_SPACE}{unit}"
        amount /= 1024
    raise AssertionError("the last unit takes everything")


def duration(milliseconds: Any) -> str:
    """The two largest units."""
    if not isinstance(milliseconds, int | float):
        return _NOTHING
    left = max(0, int(milliseconds))
    if left < 1000:
        return f"{left}{_SPACE}ms"
    shown: list[str] = []
    for length, unit in _TIMES:
        amount, left = divmod(left, length)
        if amount or shown:
            shown.append(f"{amount}{_SPACE}{unit}")
    return " ".join(shown[:2])


def moment(milliseconds: Any) -> str:
    if not isinstance(milliseconds, int | float):
        return _NOTHING
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def json_text(value: Any) -> str:
    """A value in one line, for people; Jinja escapes it."""
    return json.dumps(value, ensure_ascii=False)


def json_lines(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def rate_of(item: Any, *names: str) -> float | None:
    """How fast figures of `message_stats` grow, together; None if there is none of them."""
    stats = item.get("message_stats") or {} if isinstance(item, dict) else {}
    rates = [stats[f"{name}_details"].get("rate", 0.0) for name in names if name in stats]
    return sum(rates) if rates else None


FILTERS: Final = {
    "count": count,
    "rate": rate,
    "size": size,
    "duration": duration,
    "moment": moment,
    "json_text": json_text,
    "json_lines": json_lines,
}
