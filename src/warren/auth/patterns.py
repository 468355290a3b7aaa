"""The patterns of permissions."""

from __future__ import annotations

from typing import Final

from warren.model.regular_expressions import InvalidPattern, compile_pattern, matches

__all__ = ["InvalidPattern", "Pattern"]

# Stands for "nothing": no resource has an empty name, the default exchange has a name of its own.
_NOTHING: Final = "^$"


class Pattern:
    """A permission's pattern; an empty one permits nothing."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._compiled = compile_pattern(text or _NOTHING)

    def permits(self, name: str) -> bool:
        return matches(self._compiled, name)
