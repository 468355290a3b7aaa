"""What a stream may grow to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SEGMENT_BYTES_DEFAULT: Final = 500_000_000
# A stream may be declared with any size of segments; so many may be small, before each needs a
# size at which files, of which a disk has only so many, do not run out before its bytes do.
SMALL_SEGMENTS_MAX: Final = 1_000
SEGMENT_BYTES_MIN: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Limits:
    """None: without a limit."""

    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    bytes_max: int | None = None
    age_ms_max: int | None = None
