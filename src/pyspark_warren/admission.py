"""Admission control of pyspark 4.2 and later, or what takes its place before.

Before 4.2 Spark asks a stream where it ends, and neither says where a query is nor how much a batch
may have: each batch has all there is, and options that limit a batch are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark_warren.errors import InvalidOption

__all__ = [
    "HAS_LIMITS", "ReadAllAvailable", "ReadLimit", "ReadMaxBytes", "ReadMaxRows", "ReadMinRows",
    "SupportsTriggerAvailableNow", "require_limits",
]  # fmt: skip

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ImportError:
    HAS_LIMITS = False
    if not TYPE_CHECKING:

        class ReadLimit: ...

        class SupportsTriggerAvailableNow: ...

        class ReadAllAvailable(ReadLimit): ...

        @dataclass
        class ReadMaxBytes(ReadLimit):
            max_bytes: int

        @dataclass
        class ReadMaxRows(ReadLimit):
            max_rows: int

        @dataclass
        class ReadMinRows(ReadLimit):
            min_rows: int


_VERSION: Final = "4.2"


def require_limits(option: str) -> None:
    """Raises InvalidOption if this Spark takes no limits of a Python data source."""
    if not HAS_LIMITS:
        raise InvalidOption(f"option {option}: needs pyspark {_VERSION} or later")
