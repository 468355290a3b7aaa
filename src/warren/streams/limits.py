"""What a stream may grow to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SEGMENT_BYTES_DEFAULT: Final = 500_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """None: without a limit."""

    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    bytes_max: int | None = None
    age_ms_max: int | None = None
