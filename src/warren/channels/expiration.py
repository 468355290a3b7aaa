"""The expiration property: milliseconds as a decimal string, checked with RabbitMQ's words."""

from __future__ import annotations

import re
from typing import Final

from warren.model.errors import precondition_failed
from warren.model.limits import EXPIRY_MS_MAX

_LEADING_INTEGER: Final = re.compile(r"[+-]?\d+")


def check_expiration(text: str) -> int:
    found = _LEADING_INTEGER.match(text)
    if found is None:
        problem = "no_integer"
    elif found.end() < len(text):
        problem = f'{{leftover_string,"{text[found.end() :]}"}}'
    else:
        value = int(found.group())
        if 0 <= value <= EXPIRY_MS_MAX:
            return value
        problem = f"{{value_negative,{value}}}" if value < 0 else f"{{value_too_large,{value}}}"
    raise precondition_failed(f"invalid expiration '{text}': {problem}")
