"""Samples of a node's statistics, as nodes tell them to each other.

They travel as the counts of `tallies.py` do, under a scope of their own: a few dozen numbers every
few seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warren.cluster.link.control import Counted

SCOPE: Final = "sample"


def sample_news(sample: Mapping[str, int]) -> Counted:
    return Counted(False, tuple((SCOPE, name, value) for name, value in sample.items()))


def sample_in(news: Counted) -> dict[str, int] | None:
    """None if the news are not about a sample."""
    if not news.counts or news.counts[0][0] != SCOPE:
        return None
    return {name: value for _, name, value in news.counts}
