"""What a fuzz target raises when a module did not do what it promises."""

from __future__ import annotations


class Found(AssertionError):
    """A target did what its module does not promise."""
