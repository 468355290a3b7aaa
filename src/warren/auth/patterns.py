"""The patterns of permissions."""

from __future__ import annotations

from typing import Final

from warren.model.regular_expressions import InvalidPattern, compile_pattern, require_pattern

__all__ = ["InvalidPattern", "Pattern", "require_usable"]

# Stands for "nothing": no resource has an empty name, the default exchange has a name of its own.
_NOTHING: Final = "^$"


class Pattern:
    """A permission's pattern; an empty one permits nothing."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str, owner: str = "a permission") -> None:
        """Raises InvalidPattern."""
        self.text = text
        self._compiled = compile_pattern(text or _NOTHING, owner)

    def permits(self, name: str) -> bool:
        """True if the name matches; a pattern that was given up as too slow permits nothing."""
        return self._compiled.matches_name(name)


def require_usable(*texts: str) -> None:
    """Raise InvalidPattern if one of these may not be set: it is no pattern, or too slow."""
    for text in texts:
        require_pattern(text or _NOTHING)
