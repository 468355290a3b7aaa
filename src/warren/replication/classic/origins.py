"""Who publishes to a mirrored queue from another node, and how far each has come.

An origin is a node and a token that is new in each of its lives: `node/token`. How far it has come
is known with every copy, so that whoever is promoted takes each publish once. A node that has come
back asks nothing about its former lives any more, and there is no end to lives; so of each node the
last few are known. More than one, for what a former life sent may arrive after the next has begun.
"""

from __future__ import annotations

from typing import Final

ORIGINS_PER_NODE_MAX: Final = 4


def make_origin(node: str, token: str) -> str:
    return f"{node}/{token}"


def make_room_for(origin: str, numbers: dict[str, int]) -> None:
    """An origin comes up: forget those of the same node that came up long before it."""
    node, _, _ = origin.rpartition("/")
    former = [each for each in numbers if each != origin and each.rpartition("/")[0] == node]
    for each in former[: 1 - ORIGINS_PER_NODE_MAX]:
        del numbers[each]
