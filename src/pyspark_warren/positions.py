"""Where reading begins and ends: `earliest`, `latest`, an offset, or a moment.

A number is an offset; a moment is written as ISO 8601 has it, so the two cannot be taken for each
other. A moment without a zone is UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from pyspark_warren.errors import InvalidOption

OFFSET_MAX: Final = 2**63 - 1


class PositionKind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    MOMENT = "moment"


@dataclass(frozen=True, slots=True)
class Position:
    kind: PositionKind
    number: int = 0
    """The offset, or milliseconds since 1970."""


EARLIEST: Final = Position(PositionKind.EARLIEST)
LATEST: Final = Position(PositionKind.LATEST)


def parse_position(option: str, text: str) -> Position:
    """Raises InvalidOption, which names the option.

    Examples
    --------
    >>> parse_position("startingOffsets", "17").number
    17
    >>> parse_position("startingOffsets", "1970-01-01T00:00:01Z").number
    1000
    """
    text = text.strip()
    if text.lower() in {"earliest", "latest"}:
        return Position(PositionKind(text.lower()))
    if text.isascii() and text.isdigit():
        if int(text) > OFFSET_MAX:
            raise InvalidOption(f"option {option}: offset {text} is beyond {OFFSET_MAX}")
        return Position(PositionKind.OFFSET, int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(
            f"option {option}: {text!r} is neither earliest, latest, an offset, nor a moment such "
            "as 2026-08-01T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    moment_ms = int(moment.timestamp() * 1000)
    if moment_ms < 0:
        raise InvalidOption(f"option {option}: {text} is before 1970")
    return Position(PositionKind.MOMENT, moment_ms)
