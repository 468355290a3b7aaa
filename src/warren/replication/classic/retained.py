"""Retained messages: what a mirror that comes back has from before, as it tells the master."""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.replication.classic.instructions import Run


class RetainedMessages(NamedTuple):
    runs: list[Run]
    used_below: dict[int, int]
    """By level: below which number the mirror may have had others."""
    used_from: dict[int, int]
    """By level: its disk has never heard of a message with a lower number."""


NOTHING: Final = RetainedMessages([], {}, {})
