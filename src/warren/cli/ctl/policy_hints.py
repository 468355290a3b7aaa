"""Hints for policies that were refused: the key that was meant, the place in a pattern."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from warren.model.regular_expressions import InvalidPattern, require_pattern
from warren.policy.values import POLICY_KEYS

SIMILARITY_MIN: Final = 0.7


def hint_for(pattern: str, definition: object) -> str:
    return "\n".join([*_pattern_hints(pattern), *_key_hints(definition)])


def _key_hints(definition: object) -> Iterator[str]:
    for key in definition if isinstance(definition, dict) else ():
        if key in POLICY_KEYS:
            continue
        near = get_close_matches(key, POLICY_KEYS, n=1, cutoff=SIMILARITY_MIN)
        meant = f"did you mean '{near[0]}'?" if near else f"the keys are: {_all_keys()}"
        yield f"'{key}' is not a key of policies; {meant}"


def _all_keys() -> str:
    return ", ".join(sorted(POLICY_KEYS))


def _pattern_hints(pattern: str) -> Iterator[str]:
    try:
        require_pattern(pattern)
    except InvalidPattern as invalid:
        yield pattern_hint(pattern, invalid.reason, invalid.position)


def pattern_hint(pattern: str, reason: str, position: int) -> str:
    """The pattern with a mark where the mistake was noticed."""
    return f"not a regular expression: {reason}\n    {pattern}\n    {' ' * position}^"
