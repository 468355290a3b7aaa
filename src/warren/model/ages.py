"""Spans of time as arguments of streams name them: 7D, 12h, 30s."""

from __future__ import annotations

import re
from typing import Final

_SECONDS: Final = {"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
_AGE: Final = re.compile(r"([0-9]+)([YMDhms])")


def age_ms(text: str) -> int:
    """Of an age whose form has been checked."""
    match = _AGE.fullmatch(text)
    assert match is not None, "it was checked"
    return int(match[1]) * _SECONDS[match[2]] * 1000
